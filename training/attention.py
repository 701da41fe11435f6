"""Query, key and value parameters of attention layers, and their slices by attention head.

Known are torch.nn.MultiheadAttention, and modules that have, beside the size or number of their heads, layers that are
called as in the common libraries (transformers, timm, torchvision): three of them, or one that gives all three.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

_SEPARATE = ({"query", "key", "value"}, {"q_proj", "k_proj", "v_proj"}, {"q_lin", "k_lin", "v_lin"})
_TOGETHER = {"qkv", "c_attn"}
_SIZES = ("head_dim", "attention_head_size")
_NUMBERS = ("num_attention_heads", "num_heads", "n_heads", "n_head")
_OWN = {"weight", "bias", "base_layer.weight", "base_layer.bias"}
_PARTS = "qkv"


@dataclass(frozen=True)
class Projection:
    """A parameter that is divided by heads.

    Attributes:
        path: The module that it is of.
        shape: Its shape, with the dimension of outputs as three: parts, heads, and outputs of a head.
        dimension: Where that is.
        parts: The names of the parts, one letter each; one empty name for a single part.
    """

    path: str
    shape: tuple[int, ...]
    dimension: int
    parts: tuple[str, ...]

    def slices(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """A name and an index of each part's heads."""
        before = (slice(None),) * self.dimension
        for number, part in enumerate(self.parts):
            for head in range(self.shape[self.dimension + 1]):
                yield ".".join(filter(None, (self.path, part, str(head)))), (*before, number, head)


def projection_of(modules: Mapping[str, nn.Module], name: str, shape: tuple[int, ...]) -> Projection | None:
    """How a parameter is divided by heads; None for one that does not make queries, keys or values.

    Of low-rank adapters (``lora_A``, ``lora_B``) of such a layer the second is divided: its rows are the outputs.

    Args:
        modules: The model's modules by name.
        name: The parameter's name.
        shape: Its shape.
    """
    path, _, leaf = name.rpartition(".")
    if isinstance(attention := modules.get(path), nn.MultiheadAttention):
        return _of_torch(attention, path, leaf, shape)
    steps = name.split(".")
    for end in range(1, len(steps)):
        layer, called, rest = ".".join(steps[:end]), steps[end - 1], ".".join(steps[end:])
        above = ".".join(steps[: end - 1])
        if layer not in modules or above not in modules:
            continue
        if not _is_projection(modules[above], called):
            continue
        dimension = _dimension(modules[layer], rest, len(shape))
        if dimension is None:
            return None
        parts = tuple(_PARTS) if called in _TOGETHER else ("",)
        outputs, uneven = divmod(shape[dimension], len(parts))
        size = 0 if uneven else _head_size(modules, above, outputs)
        # The weight that an adapter is beside has the adapter's module below its own, and is no block with it.
        own = layer if rest in _OWN else path
        return _divided(own, shape, dimension, parts, size)
    return None


def _of_torch(attention: nn.MultiheadAttention, path: str, leaf: str, shape: tuple[int, ...]) -> Projection | None:
    size = attention.head_dim
    if leaf in ("in_proj_weight", "in_proj_bias"):
        return _divided(path, shape, 0, tuple(_PARTS), size)
    if leaf in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
        return _divided(path, shape, 0, (leaf[0],), size)
    return None


def _is_projection(above: nn.Module, called: str) -> bool:
    there = {name for name, _ in above.named_children()}
    if called in _TOGETHER:
        return "q_attn" not in there  # GPT-2's attention to another sequence: keys and values alone
    return any(called in names and names <= there for names in _SEPARATE)


def _dimension(layer: nn.Module, rest: str, dimensions: int) -> int | None:
    """The dimension of outputs; None for a parameter that has none, or of which nothing is known."""
    if rest in _OWN:
        plain = getattr(layer, "base_layer", layer)
        inputs_first = dimensions == 2 and hasattr(plain, "nf")  # the Conv1D of transformers: (inputs, outputs)
        return 1 if inputs_first else 0
    return 0 if "lora_B" in rest.split(".") and dimensions == 2 else None


def _head_size(modules: Mapping[str, nn.Module], above: str, outputs: int) -> int:
    """Outputs of one head; 0 where no module states them."""
    around = [modules[above], *([modules[above.rpartition(".")[0]]] if above else [])]
    for module in around:
        for name in _SIZES:
            if (size := _number(module, name)) and outputs % size == 0:
                return size
        for name in _NUMBERS:
            if (heads := _number(module, name)) and outputs % heads == 0:
                return outputs // heads
    return 0


def _number(module: nn.Module, name: str) -> int:
    found = getattr(module, name, 0)
    return found if type(found) is int and found > 0 else 0


def _divided(path: str, shape: tuple[int, ...], dimension: int, parts: tuple[str, ...], size: int) -> Projection | None:
    if not size or shape[dimension] % (len(parts) * size):
        return None
    heads = shape[dimension] // (len(parts) * size)
    whole = (*shape[:dimension], len(parts), heads, size, *shape[dimension + 1 :])
    assert math.prod(whole) == math.prod(shape)
    return Projection(path, whole, dimension, parts)
