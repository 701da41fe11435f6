"""Vectors over the whole model of which neighbors average the body's part, and the head's part stays at home."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from dpeer.training.split import Split
from dpeer.training.trainer import Trainer


def body_sized(names: Sequence[str], split: Split) -> dict[str, int]:
    """Extras of as many values as the body has, by name: see `Algorithm.extras`."""
    return dict.fromkeys(names, sum(parameter.numel() for _, parameter in split.body))


class Moments:
    """Moments and the like of each trained parameter, zero at first.

    Args:
        names: What they are called; the parts of the body are extras of these names.
        peer: The trainer.
    """

    def __init__(self, names: Sequence[str], peer: Trainer) -> None:
        self._home = {name: torch.zeros_like(peer.head.data) for name in names}

    def take(self, peer: Trainer) -> dict[str, Tensor]:
        """Copies of the vectors by name, each of shape (peer.model.count,): the body's part first."""
        return {name: torch.cat([peer.extras[name], home]) for name, home in self._home.items()}

    def keep(self, peer: Trainer, vectors: Mapping[str, Tensor]) -> None:
        """Take over what has become of such copies: the body's part is to be sent."""
        for name, home in self._home.items():
            peer.extras[name].copy_(vectors[name][: peer.body.count])
            home.copy_(vectors[name][peer.body.count :])

    def state(self) -> Mapping[str, Tensor]:
        """What a resumed run needs besides the extras; nothing where no head stays at home."""
        return {f"head {name}": home for name, home in self._home.items() if home.numel()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take up what `state` gave.

        Raises:
            KeyError, RuntimeError: It is not of such a model.
        """
        for name, home in self._home.items():
            if home.numel():
                home.copy_(state[f"head {name}"].view(home.shape))
