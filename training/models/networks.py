"""Networks without attention: small ones that train fast on one core, and those of papers on federated learning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import layer_norm, relu

Stage = Callable[[tuple[int, ...]], Sequence[nn.Module]]
"""Makes the next layers of a network, of the shape that they get."""


def normed(width: int, size: int, stride: int = 2) -> Stage:
    """A padded convolution, its GroupNorm in four groups, and ReLU."""
    return lambda shape: _normed(nn.Conv2d(shape[0], width, size, stride=stride, padding=size // 2))


def _normed(convolution: nn.Conv1d | nn.Conv2d) -> tuple[nn.Module, ...]:
    return convolution, nn.GroupNorm(4, convolution.out_channels), nn.ReLU()


def pooled(width: int, size: int, padding: int = 0, pool: int = 2) -> Stage:
    """A convolution, ReLU, and the largest of each square of `pool` places a side."""

    def layers(shape: tuple[int, ...]) -> Sequence[nn.Module]:
        convolution = nn.Conv2d(shape[0], width, size, padding=padding)
        return convolution, nn.ReLU(), *([nn.MaxPool2d(pool)] if pool > 1 else [])

    return layers


def dense(width: int) -> Stage:
    """A linear layer and ReLU."""
    return lambda shape: (nn.Linear(shape[0], width), nn.ReLU())


def fixed(layer: Callable[[], nn.Module]) -> Stage:
    """A layer that has no parameters."""
    return lambda shape: (layer(),)


FLAT = fixed(nn.Flatten)


class FeaturesAndHead(nn.Module):
    """A network of `features`, stage by stage, and a linear `head`."""

    stages: Sequence[Stage] = ()

    def __init__(self, shape: tuple[int, ...], outputs: int, stages: Sequence[Stage] = ()) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for stage in stages or self.stages:
            made = stage(shape)
            layers += made
            with torch.no_grad():
                shape = tuple(nn.Sequential(*made)(torch.zeros(1, *shape)).shape[1:])
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(shape[0], outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        """Class scores or values, shape (batch, outputs)."""
        scores: Tensor = self.head(self.features(inputs))
        return scores


class CNN(FeaturesAndHead):
    """Three strided convolutions with GroupNorm, a layer of 64 features, and a linear head.

    Strides in place of pooling make it about four times faster on a core than the same at full resolution. 90,826
    parameters for inputs (3, 32, 32) and 10 classes, of which 650 are the head's.
    """

    stages = (normed(16, 5), normed(32, 3), normed(64, 3), FLAT, dense(64))


class DigitsNet(FeaturesAndHead):
    """Three convolutions with GroupNorm (14,208 parameters), and a linear head (1,290).

    Input (batch, 1, 8, 8), output (batch, 10).
    """

    stages = (normed(16, 3, 1), normed(32, 3, 1), fixed(partial(nn.MaxPool2d, 2)), normed(32, 3), FLAT)

    def __init__(self, shape: tuple[int, ...] = (1, 8, 8), outputs: int = 10) -> None:
        super().__init__(shape, outputs)


class CNN1d(nn.Module):
    """Three strided convolutions over time with GroupNorm, the average over time, and a linear head.

    24,838 parameters for inputs (9, 128) and 6 classes, of which 390 are the head's; none depends on the length.
    """

    def __init__(self, shape: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *_normed(nn.Conv1d(shape[0], 32, 5, stride=2, padding=2)),
            *_normed(nn.Conv1d(32, 64, 5, stride=2, padding=2)),
            *_normed(nn.Conv1d(64, 64, 3, stride=2, padding=1)),
        )
        self.head = nn.Linear(64, outputs)

    def forward(self, series: Tensor) -> Tensor:
        """Class scores, shape (batch, outputs)."""
        scores: Tensor = self.head(self.features(series).mean(2))
        return scores


class MLP(FeaturesAndHead):
    """A hidden layer of `width` features, and a linear head.

    With 64: 64 f + 64 parameters for f numbers in an input, whatever its dimensions; 65 in the head for each output.
    """

    def __init__(self, shape: tuple[int, ...], outputs: int, *, width: Annotated[int, Field(ge=1)] = 64) -> None:
        super().__init__(shape, outputs, (FLAT, dense(width)))


_FILTERS, _WIDTH = 64, 12


class SmallBody(nn.Module):
    """Frozen random filters, their mean and largest value over all places, a layer of 12 features, and a linear head.

    The body has 12 (128 + 1) = 1,548 parameters whatever the input, and the head 13 for each output. The filters come
    from the common first seed, so they are the same on all peers; they are neither trained nor sent. Private noise
    grows with the root of what is sent: this is what it leaves room for.
    """

    def __init__(self, shape: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        match len(shape):
            case 3:
                filters: nn.Module = nn.Conv2d(shape[0], _FILTERS, 5, stride=2, padding=2)
            case 2:
                filters = nn.Conv1d(shape[0], _FILTERS, 9, stride=2, padding=4)
            case _:
                filters = nn.Sequential(nn.Flatten(), nn.Linear(torch.Size(shape).numel(), 2 * _FILTERS))
        self.filters = filters.requires_grad_(False)
        self.body = nn.Linear(2 * _FILTERS, _WIDTH)
        self.head = nn.Linear(_WIDTH, outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        """Class scores, shape (batch, outputs)."""
        found = relu(self.filters(inputs))
        if found.dim() > 2:
            found = found.flatten(2)
            found = torch.cat((found.mean(2), found.amax(2)), 1)
        scores: Tensor = self.head(relu(self.body(layer_norm(found, found.shape[1:]))))
        return scores


# Of papers on federated learning.


class DPCNN(FeaturesAndHead):
    """Three unpadded 3x3 convolutions (64, 128, 256 channels), each pooled, two layers of 256 and 128, a linear head.

    The network for CIFAR-10 of DP2-FedSAM, section 5.1, which prints these widths and 667,402 parameters: these are
    those for inputs (3, 32, 32) and 10 classes if the convolutions are not padded; 1,290 are the head's. The
    softmax that the paper ends with is in the loss. Its weights are pretrained on ImageNet; here they begin at random.
    """

    stages = (pooled(64, 3), pooled(128, 3), pooled(256, 3), FLAT, dense(256), dense(128))


class EmnistCNN(FeaturesAndHead):
    """Two unpadded 3x3 convolutions (32, 64 channels), one pooling, a layer of 128 features, and a linear head.

    The network for EMNIST of Reddi et al., Adaptive Federated Optimization, ICLR 2021: 1,206,590 parameters for inputs
    (1, 28, 28) and 62 classes, of which 7,998 are the head's.

    Without its dropout, deliberately: dropout draws from the process's global generators, and peers of a simulation
    that do so must train one after the other (see `dpeer.training.randomness`).
    """

    stages = (pooled(32, 3, pool=1), pooled(64, 3), FLAT, dense(128))


class FedAvgCNN(FeaturesAndHead):
    """Two 5x5 convolutions (32, 64 channels) that keep the size, each pooled, a layer of 512, and a linear head.

    The network for MNIST of McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data,
    AISTATS 2017, section 3: 1,663,370 parameters for inputs (1, 28, 28) and 10 classes, as printed there; 5,130 are the
    head's. The number holds with padding alone; of 62 classes it is 1,690,046.

    DP-FedSAM, section 6.1, describes what it trains on EMNIST by the kernels, the pooling and the layer of 512, without
    channels or a number of parameters: they are those of this network as far as the paper gives them.
    """

    stages = (pooled(32, 5, 2), pooled(64, 5, 2), FLAT, dense(512))


_GROUPS = 32


def _convolution(inputs: int, outputs: int, size: int, stride: int) -> nn.Sequential:
    """A convolution without bias, which the norm behind it would take away again, and that norm."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False),
        nn.GroupNorm(_GROUPS, outputs),
    )


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut around them, which is a 1x1 convolution where the shape changes.

    Input (batch, inputs, height, width), output (batch, outputs, height / stride, width / stride), rounded up.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = _convolution(inputs, outputs, 3, stride)
        self.second = _convolution(outputs, outputs, 3, 1)
        self.shortcut = nn.Identity() if inputs == outputs else _convolution(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, at least 0."""
        return relu(self.second(relu(self.first(x))) + self.shortcut(x))


class ResNet18(nn.Module):
    """ResNet-18 (He et al., CVPR 2016) as it is used on CIFAR: a 3x3 stem that keeps the size, and no pooling after it.

    GroupNorm takes BatchNorm's place, whose statistics averaging would mix up (Hsieh et al., ICML 2020), in 32 groups:
    so does the code that DisPFL, DFedSAM and their successors published (`customized_resnet18` in
    https://github.com/rong-dai/DisPFL, fedml_api/model/cv/resnet.py), which starts from PyTorch's initialisation, too.

    11,173,962 parameters for inputs (3, 32, 32) and 10 classes, of which 5,130 are the head's. Only the stem depends on
    the input and only on its channels: an average over the last block's 4x4 (of 64x64 images, 8x8) positions feeds the
    head.

    DP2-FedSAM, section 5.1, gives its ResNet-18 for FEMNIST 11,181,642 parameters. So many has ImageNet's ResNet-18,
    whose stem is a 7x7 convolution of three channels, with a head for 10 classes. For inputs (1, 28, 28) and FEMNIST's
    62 classes this one has 11,199,486: 8,832 fewer in the stem, 26,676 more in the head. The paper's weights are
    pretrained on ImageNet; here they begin at random.
    """

    def __init__(self, shape: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        self.stem = _convolution(shape[0], 64, 3, 1)
        widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
        blocks = (Block(one, other, other // one) for one, other in pairwise(widths))
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(512, outputs)

    def forward(self, images: Tensor) -> Tensor:
        """Class scores, shape (batch, outputs)."""
        scores: Tensor = self.head(self.blocks(relu(self.stem(images))).mean((2, 3)))
        return scores
