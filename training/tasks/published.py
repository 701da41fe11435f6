"""Tasks on published data sets of images and sensors; users download them and give ``--task-option data=DIR``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dpeer.training.data.cifar import cifar10 as read_cifar10
from dpeer.training.data.cifar import cifar100 as read_cifar100
from dpeer.training.data.femnist import femnist as read_femnist
from dpeer.training.data.har import har as read_har
from dpeer.training.data.mnist import CLASSES as _SPLITS
from dpeer.training.data.mnist import emnist as read_emnist
from dpeer.training.data.mnist import mnist as read_mnist
from dpeer.training.data.pool import Data
from dpeer.training.data.tiny_imagenet import tiny_imagenet as read_tiny_imagenet
from dpeer.training.task import Task
from dpeer.training.tasks import Choices
from dpeer.training.tasks.data_cache import read
from dpeer.training.tasks.options import one_of
from dpeer.training.tasks.pooled import pooled_task

_EMNIST = {split: partial(read_emnist, split=split) for split in _SPLITS}
"""Made once, since `read` knows by the reader what it has read already."""


def _images(
    reader: Callable[[Any], Data], rank: int, size: int, seed: int, *, choices: Choices, data: Any = None,
    train_samples: Any = None, test_samples: Any = None,
) -> Task:  # fmt: skip
    """A rank's part of a data set, or of so many of its training and test images, drawn at random."""
    pool = read(reader, data, seed, train_samples, test_samples)
    return pooled_task(pool, rank, size, seed, choices, model="cnn")


cifar10 = partial(_images, read_cifar10)
cifar100 = partial(_images, read_cifar100)
mnist = partial(_images, read_mnist)
tiny_imagenet = partial(_images, read_tiny_imagenet)


def emnist(
    rank: int, size: int, seed: int, *, choices: Choices, data: Any = None, split: Any = "byclass",
    train_samples: Any = None, test_samples: Any = None,
) -> Task:  # fmt: skip
    """A rank's part of a split of EMNIST; see `dpeer.training.data.mnist.emnist`."""
    reader = _EMNIST[one_of("emnist", "split", split, tuple(_EMNIST))]
    return _images(
        reader, rank, size, seed, choices=choices, data=data, train_samples=train_samples, test_samples=test_samples
    )


def femnist(rank: int, size: int, seed: int, *, choices: Choices, data: Any = None) -> Task:
    """A rank's writers of LEAF's FEMNIST."""
    return pooled_task(read(read_femnist, data, seed), rank, size, seed, choices, model="cnn")


def har(rank: int, size: int, seed: int, *, choices: Choices, data: Any = None) -> Task:
    """A rank's persons of UCI HAR."""
    return pooled_task(read(read_har, data, seed), rank, size, seed, choices, model="cnn1d")
