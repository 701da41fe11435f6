"""Dividing parameters into blocks that are alike, so that one number can stand for each block.

A block is a layer, weight and bias together, but for attention: there each head's slice of the query, of the key and of
the value is one (`dpeer.training.attention`), as in DP-FedAdamW, section 5.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from dpeer.exceptions import TaskError
from dpeer.training.attention import projection_of
from dpeer.training.split import Named, is_under

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
        """The mean of each block's values.

        Args:
            vector: Shape (count,), float32.

        Returns:
            Shape (blocks,), float32; summed in float64.
        """
        found = []
        for pieces in self.pieces.values():
            views = [piece.of(vector) for piece in pieces]
            total = torch.stack([view.sum(dtype=torch.float64) for view in views]).sum()
            found.append(total / sum(view.numel() for view in views))
        return torch.stack(found).float() if found else vector[:0].clone()

    def spread(self, means: Tensor, vector: Tensor) -> None:
        """Give every value of a block the block's number.

        Args:
            means: Shape (blocks,).
            vector: Shape (count,), changed in place.
        """
        for mean, pieces in zip(means, self.pieces.values(), strict=True):
            for piece in pieces:
                piece.of(vector).fill_(mean)


def blocks_of(model: nn.Module, named: Named, grouping: Grouping = "layer") -> Blocks:
    """The blocks of parameters that lie one behind the other in a vector.

    Args:
        model: The model that they are of.
        named: The parameters with their names in it, in the vector's order.
        grouping: "residual" takes each element of a list of modules (`torch.nn.Sequential`, `ModuleList`) that has
            layers of its own as one block, as ResNets list their residual blocks; what is in none is divided by layers.

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
        cut = None if around is not None else projection_of(modules, name, shape)
        if cut is None:
            pieces.setdefault(around or _layer(modules, name), []).append(Piece(place, shape))
            continue
        for key, index in cut.slices():
            pieces.setdefault(key, []).append(Piece(place, cut.shape, index))
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
