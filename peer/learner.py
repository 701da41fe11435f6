"""Learner: the interface through which peer/ trains, releases and mixes a model that it never sees as tensors.

`peer/` never sees a tensor. A payload is a sequence of buffers whose meaning only the learner knows; a learner
never sees a socket, a neighbor's state or the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from dpeer.results.records import Evaluation as Evaluation

Buffer = bytes | bytearray | memoryview

Payload = Sequence[Buffer]
"""One released body as it travels: buffers that must never change after `Learner.release` returned them."""

SaveCopy = Callable[[Path], None]
"""Writes a copy of a learner into an existing, empty folder. Any thread may call it, whatever the learner does now."""


class About(Protocol):
    """What a learner states about itself, once."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """Layout of a payload (names, shapes, dtype, offsets): plain JSON values, equal on all peers."""

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the initial body and of the model's frozen values outside the head; equal on all peers."""

    @property
    def payload_bytes(self) -> int:
        """The most bytes that one payload's buffers may have together."""


class Figures(Protocol):
    """Figures of a learner at a moment."""

    @property
    def gradients(self) -> int:
        """For how many samples a gradient has been computed so far in this process."""

    @property
    def steps(self) -> Sequence[int]:
        """How many minibatches each phase of the round's training has taken, in their order."""

    @property
    def steps_asked(self) -> Sequence[int]:
        """How many those are without a limit."""

    @property
    def disagreement(self) -> float | None:
        """Relative distance of the own released body to the last mix; None where it was not measured, or is secret."""

    @property
    def best_round(self) -> int | None:
        """The round whose model `write_model` writes, where the best is kept; None where it is the last."""

    @property
    def kept_point(self) -> str:
        """When in its round that model was as it is: "trained" (before mixing), "mixed" or "finished" (`fine_tune`)."""


class Learner(Protocol):
    """Model, data and algorithm of one peer.

    All methods but `interrupt` and `receive_buffer` are called from one worker thread, one at a time, in the order of
    the round loop: train, release, evaluate, mix, evaluate, (in the last round) fine_tune, copied. In a round that the
    peer sits out `sit_out` takes the place of train and release, and of mix where nothing comes.
    """

    @property
    def finite(self) -> bool:
        """Whether all parameters are finite; called as the other methods are, from the worker."""

    @property
    def about(self) -> About:
        """What the learner states about itself, once."""

    @property
    def figures(self) -> Figures:
        """Figures of the learner as it is now."""

    def receive_buffer(self) -> memoryview | None:
        """Writable memory of `payload_bytes` bytes, in which the chunks of a payload are put together.

        The memory may be given out again as soon as nothing refers to it any more. None if any memory will do. Any
        thread may call this.
        """

    @property
    def privacy(self) -> Mapping[str, Any] | None:
        """Privacy cost of the releases so far, with "epsilon" and "delta", for this peer's files; None without DP."""

    def train(self, number: int, *, share: float = 1.0) -> float | None:
        """Run round `number`'s local steps; return its training loss (None if nothing was trained).

        `share` of the minibatches of each phase, 0 to 1, at least one of each: the same gives the same bits.

        Raises:
            Interrupted: `interrupt` was called; the model is left between two minibatches.
        """

    def release(self, number: int, receivers: Sequence[int] = ()) -> Payload | None:
        """The body that these ranks may get this round; None to send nothing: then nothing is mixed either."""

    def charge_stated(self, rounds: Sequence[int]) -> None:
        """Charge those of these rounds that are not charged: a disk that was lost may have released them.

        Nothing without privacy, and nothing when it is called again.
        """

    def evaluate(self) -> Evaluation:
        """Evaluate the model as it is now on the peer's own test data."""

    def mix_sound(
        self, received: Mapping[int, Payload], weigh: Callable[[Collection[int]], Mapping[int, float]]
    ) -> Mapping[int, str]:
        """Replace the body by the weighted sum of this peer's released one and those received that may be mixed.

        Where nothing was released in the round, the own part is the result of the last mixing.

        Args:
            received: The neighbors' payloads by rank, as they came.
            weigh: Gives the weights of the ranks that are left and of this peer; they sum to one.

        Returns:
            The ranks whose payload was left out, and why ("not-finite", "wrong-size", ...).
        """

    def sit_out(self, number: int) -> None:
        """Let round `number` go by, in which the learner neither trains nor releases."""

    def adopt(
        self, number: int, received: Mapping[int, Payload], weigh: Callable[[Collection[int]], Mapping[int, float]]
    ) -> Mapping[int, str]:
        """Replace the body by the weighted mean of those received that may be mixed, without this peer's own.

        Called in a round that the peer sits out because the others went on without it. The head stays to the bit.
        Nothing is released and charged: all that goes in has been released. With no body that may be mixed nothing
        changes.

        Arguments and result are those of `mix_sound`, but this peer has no weight.
        """

    def fine_tune(self, number: int) -> Evaluation | None:
        """After the last `evaluate`: fine-tune a copy on local data, if asked, and evaluate it.

        Raises:
            Interrupted: `interrupt` was called; nothing has changed.
        """

    def interrupt(self) -> None:
        """Ask `train` to stop after the current minibatch. The only method that any thread may call."""

    def copied(self) -> SaveCopy:
        """Copy everything that a resumed run needs of the learner, as it is now. The copy before is needed no more."""

    def load(self, directory: Path) -> None:
        """Take up the state that a copy has left in the folder."""

    def write_model(self, path: Path) -> None:
        """Write the model that predicts to a safetensors file under the model's own state names."""

    def card(self) -> Mapping[str, Any]:
        """The model card's content, plain JSON values; "metrics" has its figures, or None."""
