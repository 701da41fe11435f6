"""Moments that a peer keeps between rounds, of each parameter or each block of parameters that are alike.

The body's part travels and is averaged, the head's part stays at home. A block, for which one number can stand, is a
layer, weight and bias together, but for attention: there each head's slice of the query, of the key and of the value is
one, as in DP-FedAdamW, section 5.1.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from dpeer.exceptions import TaskError
from dpeer.training.flat import Flat
from dpeer.training.split import Named, Split, is_under
from dpeer.training.trainer import Trainer

_SEPARATE = ({"query", "key", "value"}, {"q_proj", "k_proj", "v_proj"}, {"q_lin", "k_lin", "v_lin"})
_TOGETHER = "qkv"
_SIZES = ("head_dim", "attention_head_size")
_NUMBERS = ("num_attention_heads", "num_heads", "n_heads", "n_head")
_OWN = {"weight", "bias", "base_layer.weight", "base_layer.bias"}


Slice = tuple[str, tuple[int, ...], tuple[Any, ...]]
"""A block's name, a shape of the parameter, and the index of the block's values in that shape."""


def _by_heads(modules: Mapping[str, nn.Module], name: str, shape: tuple[int, ...]) -> list[Slice] | None:
    """How a parameter is divided by heads; None for one that does not make queries, keys or values.

    Of low-rank adapters (``lora_A``, ``lora_B``) of such a layer the second is divided: its rows are the outputs.
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
        if rest not in _OWN and not ("lora_B" in rest.split(".") and len(shape) == 2):
            return None
        parts = tuple(_TOGETHER) if called == _TOGETHER else ("",)
        outputs, uneven = divmod(shape[0], len(parts))
        size = 0 if uneven else _head_size(modules, above, outputs)
        # The weight that an adapter is beside has the adapter's module below its own, and is no block with it.
        own = layer if rest in _OWN else path
        return _divided(own, shape, parts, size)
    return None


def _of_torch(attention: nn.MultiheadAttention, path: str, leaf: str, shape: tuple[int, ...]) -> list[Slice] | None:
    size = attention.head_dim
    if leaf in ("in_proj_weight", "in_proj_bias"):
        return _divided(path, shape, tuple(_TOGETHER), size)
    if leaf in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
        return _divided(path, shape, (leaf[0],), size)
    return None


def _is_projection(above: nn.Module, called: str) -> bool:
    there = {name for name, _ in above.named_children()}
    return called == _TOGETHER or any(called in names and names <= there for names in _SEPARATE)


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


def _divided(path: str, shape: tuple[int, ...], parts: tuple[str, ...], size: int) -> list[Slice] | None:
    """The outputs, the first dimension, as three: parts, heads, and outputs of a head."""
    if not size or shape[0] % (len(parts) * size):
        return None
    cut = (len(parts), shape[0] // (len(parts) * size), size, *shape[1:])
    named = itertools.product(enumerate(parts), range(cut[1]))
    return [(".".join(filter(None, (path, part, str(head)))), cut, (number, head)) for (number, part), head in named]


Grouping = Literal["layer", "residual"]
"""The unit of a block: a layer, or a whole residual block where the model has such."""

_LISTS = nn.Sequential | nn.ModuleList


@dataclass(frozen=True)
class Piece:
    """Some of a vector's values: ``vector[place].view(shape)[index]``."""

    place: slice
    shape: tuple[int, ...]
    index: tuple[Any, ...] = ()

    def of(self, vector: Tensor) -> Tensor:
        """The values, as a view of the vector."""
        return vector[self.place].view(self.shape)[self.index]


@dataclass(frozen=True)
class Blocks:
    """The blocks of one vector; each of its values is in one of them.

    Attributes:
        pieces: The pieces of each block, by the block's name.
    """

    pieces: dict[str, list[Piece]]

    def __len__(self) -> int:
        return len(self.pieces)

    def means(self, vector: Tensor) -> Tensor:
        """The mean of each block's values, shape (blocks,), float32; summed in float64."""
        found = []
        for pieces in self.pieces.values():
            views = [piece.of(vector) for piece in pieces]
            total = torch.stack([view.sum(dtype=torch.float64) for view in views]).sum()
            found.append(total / sum(view.numel() for view in views))
        return torch.stack(found).float() if found else vector[:0].clone()

    def spread(self, means: Tensor, vector: Tensor) -> None:
        """Give every value of a block the block's number."""
        for mean, pieces in zip(means, self.pieces.values(), strict=True):
            for piece in pieces:
                piece.of(vector).fill_(mean)


def blocks_of(model: nn.Module, named: Named, grouping: Grouping = "layer") -> Blocks:
    """The blocks of parameters that lie one behind the other in a vector.

    "residual" takes each element of a list of modules (`torch.nn.Sequential`, `ModuleList`) that has layers of its own
    as one block, as ResNets list their residual blocks; what is in none is divided by layers.

    Raises:
        TaskError: Residual blocks are asked for, and the model lists none.
    """
    modules = dict(model.named_modules())
    residual = _residual_blocks(modules) if grouping == "residual" else []
    if grouping == "residual" and not any(is_under(name, residual) for name, _ in named):
        raise TaskError(
            "--algorithm-option blocks=residual: the model has no residual blocks, which are elements of an "
            "nn.Sequential or nn.ModuleList with layers of their own: use blocks=layer"
        )
    pieces: dict[str, list[Piece]] = {}
    offset = 0
    for name, parameter in named:
        place = slice(offset, offset + parameter.numel())
        offset = place.stop
        if not parameter.numel():
            continue
        shape = tuple(parameter.shape)
        around = next((prefix for prefix in residual if is_under(name, (prefix,))), None)
        cut = None if around is not None else _by_heads(modules, name, shape)
        for key, viewed, index in cut or [(around or _layer(modules, name), shape, ())]:
            pieces.setdefault(key, []).append(Piece(place, viewed, index))
    return Blocks(pieces)


def _layer(modules: dict[str, nn.Module], name: str) -> str:
    """The layer that a parameter is of; one that a module with layers of its own has beside these is by itself."""
    path = name.rpartition(".")[0]
    module = modules.get(path)
    return name if module is None or next(module.children(), None) is not None else path


def _residual_blocks(modules: dict[str, nn.Module]) -> Sequence[str]:
    found: list[str] = []
    for path, module in modules.items():  # outer ones come first
        parent = modules.get(path.rpartition(".")[0])
        listed = isinstance(parent, _LISTS) and parent is not module and not isinstance(module, _LISTS)
        if listed and next(module.children(), None) is not None and not is_under(path, found):
            found.append(path)
    return found


class Moments:
    """Moments and the like of each trained parameter, zero at first."""

    def __init__(self, names: Sequence[str], peer: Trainer, state: dict[str, Tensor]) -> None:
        self._home = {name: torch.zeros_like(peer.head.data) for name in names}
        if peer.head.count:
            state |= {f"head {name}": home for name, home in self._home.items()}

    def take(self, peer: Trainer) -> dict[str, Tensor]:
        """Copies of the vectors by name, each of shape (peer.model.count,): the body's part first."""
        return {name: torch.cat([peer.extras[name], home]) for name, home in self._home.items()}

    def keep(self, peer: Trainer, vectors: Mapping[str, Tensor]) -> None:
        """Take over what has become of such copies: the body's part is to be sent."""
        for name, home in self._home.items():
            peer.extras[name].copy_(vectors[name][: peer.body.count])
            home.copy_(vectors[name][peer.body.count :])


def second_moment_count(split: Split, full: bool, grouping: Grouping) -> int:
    """How many second moments of a body travel: one for each block, or with `full` for each value.

    Raises:
        TaskError: The model has no such blocks.
    """
    return split.body_count if full else len(blocks_of(split.model, split.body, grouping))


class SecondMoments:
    """The second moments of body and head, in one number for each block or each value.

    None are kept from round to round without a vector that is shared. The head's blocks are its layers.
    """

    def __init__(
        self, peer: Trainer, shared: Tensor | None, full: bool, grouping: Grouping, state: dict[str, Tensor]
    ) -> None:
        self._parts: list[tuple[slice, Tensor, Blocks | None]] = []
        if shared is None:
            return
        body, head = peer.body, peer.head
        blocks: list[Blocks | None] = [None, None]
        if not full:
            named = [[(name, parameter) for name, parameter, _ in part.layout] for part in (body, head)]
            blocks = [blocks_of(peer.module, named[0], grouping), blocks_of(peer.module, named[1])]
        at_home = head.data.new_zeros(head.count if blocks[1] is None else len(blocks[1]))
        if len(at_home):
            state["at_home"] = at_home
        self._parts = [(slice(0, body.count), shared, blocks[0]), (slice(body.count, None), at_home, blocks[1])]

    def known(self, flat: Flat) -> Tensor | None:
        """The known moment of each value of the model or the body, zero for nothing; None where nothing is kept."""
        found = torch.zeros_like(flat.data)
        for here, numbers, blocks in self._parts:
            if not len(found[here]):
                continue
            if blocks is None:
                found[here] = numbers
            else:
                blocks.spread(numbers, found[here])
        return found if self._parts else None

    def learn(self, second: Tensor) -> None:
        """Take over what the steps of a round have shown."""
        for here, numbers, blocks in self._parts:
            if len(second[here]):
                numbers.copy_(second[here] if blocks is None else blocks.means(second[here]))
