"""Transformers for images and texts, made of the classes of the library transformers, with fresh weights.

Nothing is ever downloaded: models are made of their configurations alone, and the variable makes sure of it.
`--init-from` reads pretrained weights from a file, and knows the names that published files have for what is called
otherwise here. Importing this takes seconds: only who builds such a model does, and the process that peers are forked
from.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import interpolate

from dpeer.exceptions import TaskError

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # it is read when the library is imported

from transformers import (
    BertConfig,
    BertForSequenceClassification,
    RobertaConfig,
    RobertaForSequenceClassification,
    SwinConfig,
    SwinModel,
    ViTConfig,
    ViTModel,
)

Count = Annotated[int, Field(ge=1)]
Number = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]

_SPREAD = 0.02
"""Standard deviation of a head's first weights, as of all others of these models."""


class _Transformer(nn.Module):
    """A transformer of the library, whose features of all tokens, shape (batch, tokens, width), a head gets as one."""

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
    """See `ViT`; `shape` is (channels, height, width), and images are enlarged to `image` pixels a side first.

    A layer's perceptron has `hidden` features, by default four times `width`. A patch has by default 16 pixels a side,
    or less where that leaves fewer than 7 patches a side.

    Raises:
        TaskError: The options do not fit each other, or the images.
    """
    height, breadth = (image, image) if image else shape[1:]
    patch = _patch(patch, (height, breadth), most=16, least=7)
    _check_heads(width, heads)
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
    """See `Swin`; `layers` and `heads` have a number for each stage, and each has twice the `width` of the one before.

    Attention reaches `window` tokens a side; a stage with fewer has one window. A patch has by default 4 pixels a side,
    or less where that leaves fewer than 8 patches a side.

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


class Roberta(nn.Module):
    """RoBERTa (Liu et al., 2019), and a classifier (a layer, tanh, a linear layer) of the first token's features.

    RoBERTa-Base, `layers=12`, `width=768`, `positions=514` and a vocabulary of 50,265, has 124,647,170 parameters with
    two classes, of which 1,538 are the head's, ``classifier.out_proj``. `padding` is the number of the token that
    is none.
    """

    def __init__(self, made: Any, padding: int) -> None:
        super().__init__()
        self.roberta, self.classifier, self.padding = made.roberta, made.classifier, padding

    def forward(self, numbers: Tensor) -> Tensor:
        """Class scores, shape (batch, outputs), of token numbers, shape (batch, length), int64."""
        there = numbers.ne(self.padding)
        # Padding has a position of its own; the others count from behind it. For every example by itself, since the
        # gradients of single examples are taken from what goes into a layer.
        places = there.cumsum(1) * there + self.padding
        features = self.roberta(
            numbers, attention_mask=_seen(there), position_ids=places, token_type_ids=torch.zeros_like(numbers)
        )
        scores: Tensor = self.classifier(features.last_hidden_state)
        return scores


class Bert(nn.Module):
    """BERT (Devlin et al., 2019), and a linear classifier of its pooled first token.

    `separator` is the number of the token behind each text; what follows the first one is the second text. None without
    second texts.
    """

    def __init__(self, made: Any, padding: int, separator: int | None) -> None:
        super().__init__()
        self.bert, self.classifier, self.padding, self.separator = made.bert, made.classifier, padding, separator

    def forward(self, numbers: Tensor) -> Tensor:
        """Class scores, shape (batch, outputs), of token numbers, shape (batch, length), int64."""
        there = numbers.ne(self.padding)
        second = torch.zeros_like(numbers)
        if self.separator is not None:
            ends = numbers.eq(self.separator).long()
            second = ((ends.cumsum(1) - ends > 0) & there).long()
        features = self.bert(numbers, attention_mask=_seen(there), position_ids=_places(numbers), token_type_ids=second)
        scores: Tensor = self.classifier(features.pooler_output)
        return scores


def roberta(
    shape: tuple[int, ...], outputs: int, *, vocabulary: Count = 259, padding: Number = 1, layers: Count = 12,
    width: Count = 768, heads: Count | None = None, hidden: Count | None = None, positions: Count | None = None,
    dropout: Share = 0.0,
) -> Roberta:  # fmt: skip
    """See `Roberta`; `shape` is (length,), the tokens of an example. `vocabulary` and `padding` follow from the task.

    A head of attention has by default 64 features, and `hidden`, between the linear layers of a block, are four times
    `width`. `positions` are the rows of the table of positions, `padding` + 1 more than the longest text has; by
    default as many as are needed, of pretrained weights 514. `dropout` is the share left out, also of attention.

    Raises:
        TaskError: Heads, width or positions do not fit.
    """
    config = RobertaConfig(
        vocab_size=vocabulary,
        pad_token_id=padding,
        max_position_embeddings=_rows(positions, shape[0] + padding + 1),
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        **_encoder(layers, width, heads, hidden, dropout, outputs),
    )
    return Roberta(RobertaForSequenceClassification(config), padding)


def bert(
    shape: tuple[int, ...], outputs: int, *, vocabulary: Count = 259, padding: Number = 1,
    separator: Number | None = None, layers: Count = 12, width: Count = 768, heads: Count | None = None,
    hidden: Count | None = None, positions: Count | None = None, dropout: Share = 0.0,
) -> Bert:  # fmt: skip
    """See `Bert`; arguments as for `roberta`, and the number of the token behind each text, `separator`.

    Of pretrained weights `positions` is 512.

    Raises:
        TaskError: Heads, width or positions do not fit.
    """
    config = BertConfig(
        vocab_size=vocabulary,
        pad_token_id=padding,
        max_position_embeddings=_rows(positions, shape[0]),
        **_encoder(layers, width, heads, hidden, dropout, outputs),
    )
    return Bert(BertForSequenceClassification(config), padding, separator)


def _encoder(
    layers: int, width: int, heads: int | None, hidden: int | None, dropout: float, outputs: int
) -> dict[str, Any]:
    """What BERT's and RoBERTa's configurations have in common; a head of attention has 64 features by default."""
    heads = max(1, width // 64) if heads is None else heads
    _check_heads(width, heads)
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": heads,
        "intermediate_size": 4 * width if hidden is None else hidden,
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout,
        "num_labels": outputs,
    }


def _rows(positions: int | None, needed: int) -> int:
    if positions is not None and positions < needed:
        raise TaskError(f"--model-option positions={positions}: texts of this length need {needed}, or leave it out")
    return positions or needed


def _seen(there: Tensor) -> Tensor:
    """What is added to attention's scores: very little where a token is none; shape (batch, 1, length, length).

    Made here, because the library leaves it out of batches in which no text is padded, and so looks at other examples.
    """
    length = there.shape[1]
    added = torch.where(there, 0.0, torch.finfo(torch.float32).min)
    return added[:, None, None, :].expand(-1, 1, length, -1)


def _places(numbers: Tensor) -> Tensor:
    """The place of each token, shape (batch, length): for every example by itself, as in `Roberta.forward`."""
    return torch.arange(numbers.shape[1], device=numbers.device).expand(numbers.shape[0], -1)
