"""Base class of algorithms, and the facts that a class states of what leaves the peer.

Whether noise has to cover what leaves a peer follows from these facts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from dpeer.training.settings import Hyperparameters
from dpeer.training.split import Shares, Split
from dpeer.training.trainer import Trainer

_LEAVES = {"model": "the whole model", "body": "the body", "nothing": "nothing"}


@dataclass(frozen=True)
class NoOptions:
    """The `Options` of an algorithm without options."""


class Algorithm(ABC):
    """One peer's algorithm; the learner releases and mixes whatever it shares.

    A class needs `shares` and `train`; all else has a default. See "Write your own" in docs/algorithms.md.

    Args:
        options: An instance of the class's `Options`; one with their defaults if None.

    Attributes:
        shares: "model", "body" or "nothing".
        Options: A frozen dataclass of the settings that only it has; see `dpeer.training.algorithms.options`.
        options: An instance of `Options`: what it was made with.
        defaults: Hyperparameters of its own, which are used where the user gives none.
        uses: Hyperparameters that have an effect on it, but not on all algorithms.
        mixed_uses_data: Whether `mixed` may look at the peer's data, its head, or anything else that is not a function
            of what peers have released; privacy refuses that. False holds for the very class that says it, and for no
            class that derives from it.
        state: The tensors, by name, that a resumed run needs besides body, extras and head, between two rounds. What
            `start` puts there must be in the checkpoint. One named "personal" counts as the peer's own head.
        name: What ``--algorithm`` calls it; by default the name of the class.
        summary: A line about the algorithm; by default the first one of the class's docstring.
        paper: The paper that it is from.
        leaves: What of the model leaves the peer, in words; by default what `shares` says. Where that depends on the
            options, an instance says it more exactly.
    """

    shares: ClassVar[Shares]
    Options: ClassVar[type[Any]] = NoOptions
    defaults: ClassVar[Mapping[str, Any]] = {}
    uses: ClassVar[tuple[str, ...]] = ()
    mixed_uses_data: ClassVar[bool] = True
    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    leaves: str

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        own = vars(cls)
        for name, value in (("name", cls.__name__), ("summary", _first_line(cls)), ("paper", "")):
            if name not in own:
                setattr(cls, name, value)
        if "shares" in own and "leaves" not in own:
            cls.leaves = _LEAVES.get(str(own["shares"]), "")
        # What a class says of its own code does not hold for the code of a class that derives from it.
        # (A class that has no `mixed` of its own may still change what an inherited one calls.)
        if "mixed_uses_data" not in own:
            cls.mixed_uses_data = True

    def __init__(self, options: Any = None) -> None:
        self.options: Any = self.Options() if options is None else options
        self.state: dict[str, Tensor] = {}

    def extras(self, split: Split) -> Mapping[str, int]:
        """Values that travel and are mixed beside the body, in ``peer.extras``: their number by name.

        Control variates and moments, for example. They are float32, start at zero, and must be equally many on all
        peers. An algorithm that shares nothing has none. A number is a `Tracker` where the sum over all peers has a
        meaning.

        Args:
            split: The model's trainable parameters, divided.
        """
        return {}

    def start(self, peer: Trainer) -> None:  # noqa: B027 - most have nothing to prepare
        """Prepare for the first round; called once, with the model as the task made it.

        Raises:
            TaskError: The task's model or data do not suit the algorithm.
        """

    @abstractmethod
    def train(self, peer: Trainer) -> None:
        """Run the local steps of round ``peer.number``."""

    def mixed(self, peer: Trainer) -> None:  # noqa: B027
        """Do what is left to do after round ``peer.number`` has been mixed; not called where nothing was.

        Where a sample of the peers sends to all, the others mix what it sent without having trained.
        """

    def adopted(self, peer: Trainer) -> None:  # noqa: B027
        """Follow an adoption: body and extras are the means of the neighbors', in round ``peer.number``.

        Unlike `mixed` it is no step of the algorithm, and must not look at data. What was kept of the own body and of
        earlier rounds' changes is out of date. Trackers stay as they are.
        """

    def predictor(self, peer: Trainer) -> Tensor | None:
        """The parameters that predict, shape (peer.model.count,); None where the trained ones do."""
        return None

    def gradients(self, h: Hyperparameters) -> float:
        """How many gradients of the loss are computed for a sample in a round of whole epochs, for listings."""
        return h.body_epochs + (h.head_epochs if "head_epochs" in self.uses else 0)


def _first_line(cls: type) -> str:
    text = (cls.__doc__ or "").strip()
    return text.splitlines()[0] if text else ""
