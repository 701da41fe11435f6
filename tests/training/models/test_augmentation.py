"""Crops and flips, against a loop over images that knows nothing of indices."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from dpeer.training.data.pool import Data, Pool
from dpeer.training.data.published_images import digits
from dpeer.training.tasks import Choices
from dpeer.training.tasks.pooled import augment_images, crop_and_flip, pooled_task


def one_by_one(images: Tensor, generator: np.random.Generator, margin: int, fill: float, mirror: bool) -> Tensor:
    count, channels, height, width = images.shape
    tops, lefts = generator.integers(0, 2 * margin + 1, size=(2, count))
    flips = generator.integers(0, 2, size=count) if mirror else np.zeros(count)
    found = []
    for image, top, left, flip in zip(images.numpy(), tops, lefts, flips, strict=True):
        canvas = np.full((channels, height + 2 * margin, width + 2 * margin), fill, dtype=image.dtype)
        canvas[:, margin : margin + height, margin : margin + width] = image
        crop = canvas[:, top : top + height, left : left + width]
        found.append(crop[:, :, ::-1] if flip else crop)
    return torch.from_numpy(np.stack(found))


@pytest.mark.parametrize(
    ("shape", "margin", "fill", "mirror"),
    [
        ((3, 20, 16), 4, -1.0, True),
        ((1, 28, 28), 4, 0.0, False),
        ((2, 15, 30), 1, -1.0, True),
        ((1, 5, 6), 1, 0.0, True),
    ],
)
def test_a_batch_is_cropped_as_one_image_after_the_other(
    shape: tuple[int, ...], margin: int, fill: float, mirror: bool
) -> None:
    images = torch.randn(50, *shape)
    found = crop_and_flip(images, np.random.default_rng(3), fill=fill, mirror=mirror)
    assert torch.equal(found, one_by_one(images, np.random.default_rng(3), margin, fill, mirror))


def test_nothing_changes_in_place_and_shape_and_type_stay() -> None:
    for images in (torch.randn(6, 3, 32, 32), torch.randn(6, 3, 32, 32).double(), torch.randn(6, 1, 9, 12)):
        kept = images.clone()
        found = crop_and_flip(images, np.random.default_rng(1))
        assert torch.equal(images, kept)
        assert (found.shape, found.dtype) == (images.shape, images.dtype)
        assert found.data_ptr() != images.data_ptr()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_same_bits_on_a_gpu() -> None:
    images = torch.randn(64, 3, 32, 32)
    found = crop_and_flip(images.cuda(), np.random.default_rng(2))
    assert found.is_cuda
    assert torch.equal(found.cpu(), crop_and_flip(images, np.random.default_rng(2)))


def images(mirrored: bool = True, background: float = -1.0) -> Data:
    pool = Pool(torch.randint(0, 256, (200, 3, 32, 32), dtype=torch.uint8), torch.arange(200) % 4)
    return Data(pool, pool, 4, mirrored=mirrored, background=background)


@pytest.mark.parametrize(("mirrored", "background"), [(True, -1.0), (False, 1.0)])
def test_the_task_pads_with_the_background_and_flips_what_may_be_flipped(mirrored: bool, background: float) -> None:
    data = images(mirrored, background)
    task = pooled_task(data, 0, 2, 0, Choices(partition="iid", augment=True), model="cnn")
    inputs = task.train.tensors[0][:9]
    assert task.augment is not None
    found = task.augment(inputs, np.random.default_rng(1))
    assert torch.equal(found, one_by_one(inputs, np.random.default_rng(1), 4, background, mirrored))
    assert pooled_task(data, 0, 2, 0, Choices(partition="iid"), model="cnn").augment is None


def test_digits_are_not_mirrored() -> None:
    augment = augment_images(digits())
    assert isinstance(augment, partial)
    assert augment.keywords == {"fill": 0.0, "mirror": False}
