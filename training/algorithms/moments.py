"""Moments that a peer keeps between rounds: the body's part travels and is averaged, the head's part stays at home."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from dpeer.training.blocks import Blocks, Grouping, blocks_of
from dpeer.training.flat import Flat
from dpeer.training.split import Split
from dpeer.training.trainer import Trainer


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
        self._shared, self._body_count = shared, peer.body.count
        self._blocks: list[Blocks | None] = [None, None]
        if shared is not None and not full:
            named = [[(name, parameter) for name, parameter, _ in part.layout] for part in (peer.body, peer.head)]
            self._blocks = [blocks_of(peer.module, named[0], grouping), blocks_of(peer.module, named[1])]
        of_head = self._blocks[1]
        at_home = 0 if shared is None else peer.head.count if of_head is None else len(of_head)
        self._at_home = peer.head.data.new_zeros(at_home)
        if at_home:
            state["at_home"] = self._at_home

    def known(self, flat: Flat) -> Tensor | None:
        """The known moment of each value of the model or the body, zero for nothing; None where nothing is kept."""
        if self._shared is None:
            return None
        found = torch.zeros_like(flat.data)
        body, head = found[: self._body_count], found[self._body_count :]
        _spread(self._blocks[0], self._shared, body)
        if len(head):
            _spread(self._blocks[1], self._at_home, head)
        return found

    def learn(self, second: Tensor) -> None:
        """Take over what the steps of a round have shown."""
        if self._shared is None:
            return
        body, head = second[: self._body_count], second[self._body_count :]
        self._shared.copy_(_means(self._blocks[0], body))
        if len(head):
            self._at_home.copy_(_means(self._blocks[1], head))


def _spread(blocks: Blocks | None, numbers: Tensor, values: Tensor) -> None:
    if blocks is None:
        values.copy_(numbers)
    else:
        blocks.spread(numbers, values)


def _means(blocks: Blocks | None, values: Tensor) -> Tensor:
    return values if blocks is None else blocks.means(values)
