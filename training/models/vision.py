"""Transformers for images, made of the classes of the library transformers, with fresh weights.

Nothing is ever downloaded. `--init-from` reads pretrained weights from a file, and knows the names that published files
have for what is called otherwise here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import interpolate

from dpeer.exceptions import TaskError

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, lt=1)]

_SPREAD = 0.02
"""Standard deviation of a head's first weights, as of all others of these models."""


class _Transformer(nn.Module):
    """A transformer of the library, whose features of all tokens a head gets as one.

    Args:
        body: The library's model, whose last hidden state has shape (batch, tokens, width).
        width: The number of features of a token.
        outputs: The classes.
        image: To how many pixels a side images are enlarged; None leaves them as they are.
    """

    names_elsewhere: Mapping[str, str] = {"classifier": "head"}
    """What files of published weights call a part of this model otherwise."""
    part: str
    """What they call the library's model."""

    def __init__(self, body: nn.Module, width: int, outputs: int, image: int | None) -> None:
        super().__init__()
        self.add_module(self.part, body)
        self.image = image
        self.head = nn.Linear(width, outputs)
        nn.init.normal_(self.head.weight, std=_SPREAD)
        nn.init.zeros_(self.head.bias)

    def forward(self, images: Tensor) -> Tensor:
        """Class scores, shape (batch, outputs)."""
        if self.image is not None and images.shape[2:] != torch.Size((self.image, self.image)):
            images = interpolate(images, size=(self.image, self.image), mode="bilinear", antialias=False)
        scores: Tensor = self.head(self.pooled(self.get_submodule(self.part)(pixel_values=images).last_hidden_state))
        return scores

    def pooled(self, tokens: Tensor) -> Tensor:
        """What the head gets, shape (batch, width), of the last features, shape (batch, tokens, width)."""
        raise NotImplementedError


class ViT(_Transformer):
    """A vision transformer (Dosovitskiy et al., ICLR 2021): patches and a class token through layers of attention.

    Its class token, as the last norm leaves it, feeds the head. Of 224x224 images with patches of 16 and 1000 classes
    ViT-Base has 86,567,656 parameters and ViT-Tiny 5,717,416.
    """

    part = "vit"

    def pooled(self, tokens: Tensor) -> Tensor:
        """The class token."""
        return tokens[:, 0]


class Swin(_Transformer):
    """A Swin transformer (Liu et al., ICCV 2021): attention within windows that shift from layer to layer, in stages.

    Each stage has a quarter of the tokens of the one before, with twice the features. The mean over the last one's
    tokens feeds the head. Of 224x224 images with patches of 4, windows of 7 and 1000 classes Swin-Tiny has 28,288,354
    parameters and Swin-Base 87,768,224.
    """

    part = "swin"

    def pooled(self, tokens: Tensor) -> Tensor:
        """The mean over all tokens."""
        return tokens.mean(1)


def vit(
    shape: tuple[int, ...],
    outputs: int,
    *,
    layers: Count = 12,
    width: Count = 192,
    heads: Count = 3,
    hidden: Count | None = None,
    patch: Count | None = None,
    image: Count | None = None,
    dropout: Share = 0.0,
) -> nn.Module:
    """See `ViT`.

    Args:
        shape: An image's, (channels, height, width).
        outputs: The classes.
        layers: How many layers of attention.
        width: The features of a token.
        heads: The heads of each layer's attention, which divide `width`.
        hidden: The hidden features of each layer's perceptron; four times `width` if None.
        patch: The pixels of a patch's side; if None 16, or less where that leaves fewer than 7 patches a side.
        image: To how many pixels a side images are enlarged first; None leaves them as they are.
        dropout: The share of features that is dropped in training, after each layer and from the embeddings.

    Raises:
        TaskError: The options do not fit each other, or the images.
    """
    height, breadth = (image, image) if image else shape[1:]
    patch = _patch(patch, (height, breadth), most=16, least=7)
    _check_heads(width, heads)
    from dpeer.training.models.library import ViTConfig, ViTModel

    config = ViTConfig(
        image_size=(height, breadth), num_channels=shape[0], patch_size=patch, hidden_size=width,
        num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=hidden or 4 * width,
        hidden_dropout_prob=dropout, attn_implementation="eager",
    )  # fmt: skip
    return ViT(ViTModel(config, add_pooling_layer=False), width, outputs, image)


def swin(
    shape: tuple[int, ...],
    outputs: int,
    *,
    layers: list[Count] = [2, 2, 6, 2],  # noqa: B006 - a JSON value, which nothing changes
    width: Count = 96,
    heads: list[Count] = [3, 6, 12, 24],  # noqa: B006
    window: Count = 7,
    patch: Count | None = None,
    image: Count | None = None,
    dropout: Share = 0.0,
) -> nn.Module:
    """See `Swin`.

    Args:
        shape: An image's, (channels, height, width).
        outputs: The classes.
        layers: How many layers each stage has.
        width: The features of a token in the first stage; each stage has twice as many as the one before.
        heads: The heads of attention in each stage, which divide its features.
        window: How many tokens a side attention reaches; a stage with fewer has one window.
        patch: The pixels of a patch's side; if None 4, or less where that leaves fewer than 8 patches a side.
        image: To how many pixels a side images are enlarged first; None leaves them as they are.
        dropout: The share of features that is dropped in training, after each layer and from the embeddings.

    Raises:
        TaskError: The options do not fit each other, or the images.
    """
    height, breadth = (image, image) if image else shape[1:]
    patch = _patch(patch, (height, breadth), most=4, least=8)
    if not layers or len(layers) != len(heads):
        raise TaskError(f"--model-option layers={layers}, heads={heads}: expected as many numbers, one for each stage")
    for stage, number in enumerate(heads):
        _check_heads(width * 2**stage, number)
    grid = (height // patch, breadth // patch)
    if min(grid) < 2 ** (len(layers) - 1):
        raise TaskError(
            f"--model-option layers={layers}: {len(layers)} stages halve {grid[0]} x {grid[1]} patches too often: give "
            "fewer stages (layers and heads), a smaller patch, or image= to enlarge the images first"
        )
    from dpeer.training.models.library import SwinConfig, SwinModel

    config = SwinConfig(
        image_size=(height, breadth), num_channels=shape[0], patch_size=patch, embed_dim=width, depths=layers,
        num_heads=heads, window_size=window, hidden_dropout_prob=dropout, drop_path_rate=0.0,
        attn_implementation="eager",
    )  # fmt: skip
    body = SwinModel(config, add_pooling_layer=False)
    _settle(body, grid, window)
    return Swin(body, width * 2 ** (len(layers) - 1), outputs, image)


def _settle(body: Any, grid: tuple[int, int], window: int) -> None:
    """Make each layer's window as small as its stage, with a position bias of that size.

    The library does the first at the first call, so that a model would change while it looks at examples, and leaves
    the bias as it is, which then fits no more. The method's own code does both when it makes a layer.
    """
    for stage in body.encoder.layers:
        for layer in stage.blocks:
            layer.set_shift_and_window_size(grid)
            if layer.window_size < window:
                bias = layer.attention.relative_position_bias
                heads = bias.relative_position_bias_table.shape[1]
                layer.attention.relative_position_bias = type(bias)(heads, (layer.window_size,) * 2)
        grid = ((grid[0] + 1) // 2, (grid[1] + 1) // 2)


def _patch(given: int | None, image: tuple[int, int], most: int, least: int) -> int:
    """The pixels of a patch's side: the option, or a power of two up to `most` with `least` patches a side."""
    if given is None:
        fitting = (size for size in (16, 8, 4, 2, 1) if size <= most and min(image) // size >= least)
        return next((size for size in fitting if not (image[0] % size or image[1] % size)), 1)
    if image[0] % given or image[1] % given:
        raise TaskError(
            f"--model-option patch={given}: {image[0]} x {image[1]} pixels cannot be divided into such patches"
        )
    return given


def _check_heads(width: int, heads: int) -> None:
    if width % heads:
        raise TaskError(f"--model-option heads: {heads} heads cannot divide {width} features evenly")
