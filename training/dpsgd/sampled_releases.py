"""Sample-level DP around a learner's rounds: checks, planned steps, and the last body when the budget has ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from dpeer.exceptions import ConfigurationError
from dpeer.privacy import SampleSession
from dpeer.privacy.sample_level import Phase
from dpeer.training.algorithms import Algorithm
from dpeer.training.algorithms.fedbabu import FedBABU
from dpeer.training.algorithms.plugins import new_algorithm
from dpeer.training.dpsgd.trainer import DPSGDTrainer
from dpeer.training.split import Shares


def check_sound(algorithm: Algorithm, shares: Shares, session: SampleSession, *, keep: str) -> None:
    """Refuse what reads the data past the steps that are protected, or chooses by it.

    Raises:
        ConfigurationError: Says what it is, and what would be right.
    """
    name = algorithm.name
    if algorithm.past_fit:
        raise ConfigurationError(
            f"--privacy sample cannot be used with {name}, which computes {algorithm.past_fit}: choose another "
            "--algorithm, such as dfedmdc, fedper or ditto"
        )
    if session.head == "post" and shares != "body":
        raise ConfigurationError(
            f"--dp-head {session.head}: {name} keeps no head at home that it trains by itself; use --dp-head joint, "
            "or an algorithm that does, such as dfedmdc"
        )
    if session.head != "post" and isinstance(algorithm, FedBABU):
        raise ConfigurationError(
            f"--dp-head {session.head}: {name} trains its model without noise after the last round: use --dp-head post"
        )
    if keep == "best":
        raise ConfigurationError(
            "--keep best cannot be used with --privacy sample: which model is the best is read off data without noise; "
            "leave it out"
        )


def planned_phases(algorithm: type[Algorithm], options: Any, peer: DPSGDTrainer) -> list[Phase]:
    """The steps of a round, as a second instance of the algorithm asks for them; nothing is trained.

    Args:
        algorithm: Its class.
        options: Its options.
        peer: The trainer.
    """
    probe = new_algorithm(algorithm, options)
    values, extras = peer.model.data.clone(), peer.extras.data.clone()

    def train() -> None:
        with peer.holding(values):
            try:
                probe.start(peer)
                probe.train(peer)
            finally:
                peer.extras.data.copy_(extras)

    return [phase for phase in peer.phases(train) if phase.steps]


class SampledReleases:
    """The body that the last steps made, which is sent again when the budget allows none any more.

    Extras are sent as the last mixing left them, where they are made of releases alone then: the change of a round
    without steps is zero, and of what is tracked the sum over all peers must be kept. An algorithm whose `mixed` may
    look at the data, or at a head that was trained at home, sends its last extras again, too.

    Args:
        trainer: The peer's.
        of_releases: Whether extras are a function of what peers have released when a round begins.
    """

    def __init__(self, trainer: DPSGDTrainer, *, of_releases: bool) -> None:
        self._trainer, self._of_releases = trainer, of_releases
        self._last: Tensor | None = None
        self._again = False
        self._spent: dict[str, Any] = {}

    def before(self) -> None:
        """Look at what is about to be released: a round without a step has nothing new to say.

        What the steps have cost is computed here, on the thread that trains: an epsilon takes a tenth of a second.
        """
        peer = self._trainer
        self._again = peer.refused and not peer.taken and self._last is not None
        if self._again:
            assert self._last is not None
            with torch.no_grad():
                peer.shared.data.copy_(self._last)
                if self._of_releases:
                    peer.extras.data.copy_(peer.began)
        else:
            self._last = peer.shared.data.detach().clone()
        self._spent = peer.session.spent()

    @property
    def spent(self) -> dict[str, Any]:
        """See `TorchLearner.privacy`."""
        met = self._trainer.figures.met
        if self._spent.get("steps") != self._trainer.session.ledger.steps:
            self._spent = self._trainer.session.spent()
        found = {**self._spent, "sent_again": self._again}
        if self._trainer.taken and met is not None:
            found |= {
                "records_drawn": met.units,
                "clipped_share": met.clipped / met.units if met.units else 0.0,
                "not_finite_gradients": met.not_finite,
            }
        return found

    def state(self) -> Mapping[str, Tensor]:
        """See `Stateful`."""
        return {} if self._last is None else {"last": self._last}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """See `Stateful`."""
        self._last = state.get("last")
