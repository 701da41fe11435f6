"""ResNet-18 for small images, with GroupNorm."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import relu

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
        self.blocks = nn.Sequential(
            Block(64, 64, 1),
            Block(64, 64, 1),
            Block(64, 128, 2),
            Block(128, 128, 1),
            Block(128, 256, 2),
            Block(256, 256, 1),
            Block(256, 512, 2),
            Block(512, 512, 1),
        )
        self.head = nn.Linear(512, outputs)

    def forward(self, images: Tensor) -> Tensor:
        """Class scores, shape (batch, outputs)."""
        scores: Tensor = self.head(self.blocks(relu(self.stem(images))).mean((2, 3)))
        return scores


def resnet18_gn(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """See `ResNet18`."""
    return ResNet18(shape, outputs)
