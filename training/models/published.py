"""The convolutional networks of papers on federated learning."""

from __future__ import annotations

from torch import Tensor, nn


class DPCNN(nn.Module):
    """Three unpadded 3x3 convolutions (64, 128, 256 channels), each pooled, two layers of 256 and 128, a linear head.

    The network for CIFAR-10 of DP2-FedSAM, section 5.1, which prints these widths and 667,402 parameters: that is how
    many there are for inputs (3, 32, 32) and 10 classes if the convolutions are not padded; 1,290 are the head's. The
    softmax that the paper ends with is in the loss. Its weights are pretrained on ImageNet; here they begin at random.
    """

    def __init__(self, shape: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        channels, height, width = shape
        for _ in range(3):
            height, width = (height - 2) // 2, (width - 2) // 2
        self.features = nn.Sequential(
            nn.Conv2d(channels, 64, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(64, 128, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(128, 256, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(256 * height * width, 256),
            nn.ReLU(),
            nn.Linear(256, 128),
            nn.ReLU(),
        )
        self.head = nn.Linear(128, outputs)

    def forward(self, images: Tensor) -> Tensor:
        """Class scores, shape (batch, outputs)."""
        scores: Tensor = self.head(self.features(images))
        return scores


class EmnistCNN(nn.Module):
    """Two unpadded 3x3 convolutions (32, 64 channels), one pooling, a layer of 128 features, and a linear head.

    The network for EMNIST of Reddi et al., Adaptive Federated Optimization, ICLR 2021: 1,206,590 parameters for inputs
    (1, 28, 28) and 62 classes, of which 7,998 are the head's.

    Without its dropout, deliberately: dropout draws from the process's global generators, and peers of a simulation
    that do so must train one after the other (see `dpeer.training.randomness`).
    """

    def __init__(self, shape: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        channels, height, width = shape
        self.features = nn.Sequential(
            nn.Conv2d(channels, 32, 3),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * ((height - 4) // 2) * ((width - 4) // 2), 128),
            nn.ReLU(),
        )
        self.head = nn.Linear(128, outputs)

    def forward(self, images: Tensor) -> Tensor:
        """Class scores, shape (batch, outputs)."""
        scores: Tensor = self.head(self.features(images))
        return scores


class FedAvgCNN(nn.Module):
    """Two 5x5 convolutions (32, 64 channels) that keep the size, each pooled, a layer of 512, and a linear head.

    The network for MNIST of McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data,
    AISTATS 2017, section 3: 1,663,370 parameters for inputs (1, 28, 28) and 10 classes, as printed there; 5,130 are the
    head's. The number holds with padding alone; of 62 classes it is 1,690,046.

    DP-FedSAM, section 6.1, describes what it trains on EMNIST by the kernels, the pooling and the layer of 512, without
    channels or a number of parameters: they are those of this network as far as they are said.
    """

    def __init__(self, shape: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        channels, height, width = shape
        self.features = nn.Sequential(
            nn.Conv2d(channels, 32, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * (height // 4) * (width // 4), 512),
            nn.ReLU(),
        )
        self.head = nn.Linear(512, outputs)

    def forward(self, images: Tensor) -> Tensor:
        """Class scores, shape (batch, outputs)."""
        scores: Tensor = self.head(self.features(images))
        return scores


def dp_cnn(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """See `DPCNN`."""
    return DPCNN(shape, outputs)


def emnist_cnn(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """See `EmnistCNN`."""
    return EmnistCNN(shape, outputs)


def fedavg_cnn(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """See `FedAvgCNN`."""
    return FedAvgCNN(shape, outputs)
