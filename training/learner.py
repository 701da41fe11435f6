"""The learner: model, data and algorithm of one peer, behind the methods that the round loop calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from dpeer.privacy import Session
from dpeer.training.algorithms import Algorithm
from dpeer.training.algorithms.plugins import blamed, is_built_in
from dpeer.training.combinations import has_mixed
from dpeer.training.device import Compute, host
from dpeer.training.evaluation import Evaluation, Rows
from dpeer.training.fine_tuning import Finishing
from dpeer.training.mixing.gossip import Gossip, Weigh
from dpeer.training.mixing.weighted_sum import all_finite
from dpeer.training.payload import Payload
from dpeer.training.randomness import GlobalGenerators, Purpose
from dpeer.training.state.checkpoints import Checkpoints
from dpeer.training.state.kept_model import Keeping, ModelSelection, Point, input_shape
from dpeer.training.step_pace import RoundPace
from dpeer.training.trainer import Trainer


@dataclass(frozen=True)
class About:
    """What a learner states about itself, once.

    Attributes:
        manifest: The content of a payload: ``{"dtype", "count", "parameters": [{"name", "shape", "offset"}, ...]}``.
            With "extras", their number by name, where the algorithm has any.
        digest: SHA-256 (hex) of the bytes of extras and initial body, and of what is frozen outside the head if any.
        payload_bytes: The most bytes that one payload may have.
        shares: Whether anything leaves the peer at all.
        samples: The number of training samples.
        body_parameters: The number of trained parameters that neighbors get.
        shared_values: The number of values that neighbors get: the body's parameters and the algorithm's extras.
        head_parameters: The number of trained parameters that stay on the peer: the head's, and those of a personal
            model.
        trained_together: The most parameters that a step of a round trains.
        one_by_one: Whether privacy at sample level computes each record by itself because of the task's model or loss.
        finish_rate: The learning rate with which the model is finished; None where it is not.
        compute: The device, precision and memory layout that the peer computes with.
    """

    manifest: Mapping[str, Any]
    digest: str
    payload_bytes: int
    shares: bool
    samples: int
    body_parameters: int
    shared_values: int
    head_parameters: int
    trained_together: int
    one_by_one: bool
    finish_rate: float | None
    compute: Compute


@dataclass(frozen=True)
class Figures:
    """Figures of a learner at a moment.

    Attributes:
        gradients: For how many samples a gradient has been computed since the learner was made.
        pace: The steps of the last round that was trained whole; None where they are not timed.
        steps: The minibatches of each phase of the round's training, in their order; none in a round that is sat out.
        steps_asked: How many those are without a budget.
        disagreement: Relative distance of the own released body to the last mix; None where it was not measured. It is
            a function of releases, so it costs no privacy.
        best_round: The round of the best model so far; None without ``keep="best"`` or before the first.
        best_loss: That model's loss on the validation data.
        kept_point: When in its round the model that is kept was as it is: trained, mixed or finished.
    """

    gradients: int
    pace: RoundPace | None
    steps: Sequence[int]
    steps_asked: Sequence[int]
    disagreement: float | None
    best_round: int | None
    best_loss: float | None
    kept_point: Point


@dataclass(kw_only=True, eq=False)
class TorchLearner:
    """Trains, releases, mixes and evaluates one peer's model; implements the `Learner` protocol of dpeer.peer.

    All methods but `interrupt` and `receive_buffer` are called from one thread at a time, in the round loop's order:
    train, release, evaluate, mix, evaluate, save. The task's model becomes the learner's own.

    Attributes:
        trainer: The trainer that the algorithm steers.
        generators: The random numbers that the task's and the algorithm's code may draw.
        gossip: Releases and mixes.
        selection: Measures, and knows the best model so far.
        finishing: Trains at home after the last round, as ``finish`` asks.
        keeping: Evaluates the model that predicts, and writes the one that is kept.
        checkpoints: Save and load everything that changes.
        session: The peer's privacy; None trains and sends without noise and record.
        about: What it states about itself.
    """

    algorithm: Algorithm
    trainer: Trainer
    generators: GlobalGenerators
    gossip: Gossip
    selection: ModelSelection
    finishing: Finishing
    keeping: Keeping
    checkpoints: Checkpoints
    session: Session | None
    about: About
    _mixed: bool = field(default=False, init=False)

    @contextmanager
    def _calling(self, purpose: Purpose, number: int) -> Iterator[None]:
        """Context of the task's code: its random numbers can be repeated, the device's errors are reported."""
        with self.generators.kept(purpose, number), self.about.compute.reporting():
            yield

    @contextmanager
    def _training(self, purpose: Purpose, number: int, method: str) -> Iterator[None]:
        """Context of the algorithm's and the task's code that may train."""
        with self._calling(purpose, number), blamed(self.algorithm, method):
            yield

    def _drawing(self, purpose: Purpose, number: int) -> AbstractContextManager[None]:
        """Context in which the algorithm's code may run, not the task's: what it draws can be repeated."""
        return nullcontext() if is_built_in(type(self.algorithm)) else self.generators.kept(purpose, number)

    # The round loop's steps, in its order.

    def train(self, number: int, *, share: float = 1.0) -> float | None:
        """Run round `number`'s local steps, of each phase's minibatches a share of 0 to 1, but one at least.

        Returns:
            The sample-weighted mean of the minibatch losses of the last local epoch, not finite when training has
            diverged; None when nothing was trained. The same share gives the same bits.

        Raises:
            Interrupted: `interrupt` was called; the model is as after the last whole minibatch.
            TaskError: The task's model, loss or data raised.
        """
        self.trainer.begin(number)
        self._mixed = False
        self.finishing.forget()
        if (pace := self.trainer.pace) is not None:
            pace.begin()
        with self._training(Purpose.TRAIN, number, "train"), self.trainer.budget.limiting(share):
            self.algorithm.train(self.trainer)
        if pace is not None:
            pace.end(number)
        return self.trainer.figures.loss

    def release(self, number: int, receivers: Sequence[int] = ()) -> Payload | None:
        """This round's body, for every neighbor and for this peer's own part of the mix; None where nothing is shared.

        Read-only buffers that never change again; only the codec knows what is in them. None also where the bytes of a
        private release are gone from the disk: the peer stays silent in that round. The ledger has the receivers.
        """
        if not self.about.shares:
            return None
        self.gossip.codec.buffers.settle()
        self.trainer.source.before_release()
        return self.gossip.release(number, receivers)

    def charge_stated(self, rounds: Sequence[int]) -> None:
        """Charge those of these rounds that are not charged: a disk that was lost may have released them."""
        if self.session is not None:
            self.session.charge_stated(rounds)

    def evaluate(self) -> Evaluation:
        """Evaluate the model as it is now on this peer's test data.

        With ``keep="best"`` it is also measured on the validation data, and kept if it is the best so far.

        Raises:
            TaskError: The task's model, loss, metrics or data raised.
        """
        with self._calling(Purpose.EVALUATE, self.trainer.number), self.trainer.source.unchanged():
            return self.keeping.evaluate(self.keeping.point(mixed=self._mixed))

    def mix_sound(self, received: Mapping[int, Payload], weigh: Weigh) -> dict[int, str]:
        """Body <- sum over ranks j, in rank order, of row[j] * z_j, the own z being what was released.

        What cannot be mixed is left out. (A robust rule or a sparse algorithm mixes otherwise: see
        `dpeer.training.mixing`.) `weigh` gives the weights of the ranks that are left and of this peer.

        Returns:
            The ranks whose payload was left out, and why.
        """
        refused = self.gossip.mix(received, weigh)
        self._mixed = True
        if has_mixed(self.algorithm):
            with self._training(Purpose.MIXED, self.trainer.number, "mixed"):
                self.algorithm.mixed(self.trainer)
            self.gossip.rebase()  # the next update starts from what it left
        return refused

    def sit_out(self, number: int) -> None:
        """Let round `number` go by in which this peer does not train; others' bodies may be mixed in it."""
        self.trainer.begin(number)
        self.finishing.forget()

    def adopt(self, number: int, received: Mapping[int, Payload], weigh: Weigh) -> dict[int, str]:
        """Replace the body by the weighted mean of the payloads that can be mixed, in a round that is sat out.

        The head stays to the bit, and so do trackers among the extras. Nothing is released and charged. Under
        privacy at client level the mean, which has been made of releases, is what the next update is counted from.

        Returns:
            The ranks whose payload was left out, and why. An algorithm whose bodies have no mean takes none.
        """
        if not (self.about.shares and self.gossip.adopts):
            return {}
        refused = self.gossip.adopt(received, weigh)
        if len(refused) < len(received):
            self._mixed = True
            if type(self.algorithm).adopted is not Algorithm.adopted:
                with self._drawing(Purpose.MIXED, number), blamed(self.algorithm, "adopted"):
                    self.algorithm.adopted(self.trainer)
                self.gossip.rebase()
        return refused

    def fine_tune(self, number: int) -> Evaluation | None:
        """Train a copy of the model that predicts as ``finish`` asks, after round `number`, the last; evaluate it.

        Returns:
            How well the copy does, which predicts from now on; None where ``finish`` asks for nothing.

        Raises:
            Interrupted: `interrupt` was called; nothing has changed.
            TaskError: The task's model, loss, metrics or data raised.
        """
        if not self.finishing.asked:
            return None
        self.trainer.begin(number)
        self.gossip.codec.buffers.trim()
        with self._calling(Purpose.FINE_TUNE, number), self.trainer.at_home():
            self.finishing.train()
        return self.evaluate()

    def interrupt(self) -> None:
        """Ask `train` to stop after the current minibatch, now and in every later call. Any thread may call this."""
        self.trainer.interrupt()

    # Files.

    def copied(self) -> Callable[[Path], None]:
        """Copy everything that a resumed run needs. The copy before must be needed no more: its memory is used again.

        Returns:
            Writes the copy into an existing, empty folder, whatever the learner does meanwhile. Any thread may call it.
        """
        with self._drawing(Purpose.SAVE, self.trainer.number):
            return self.checkpoints.take()

    def save(self, directory: Path) -> None:
        """Write everything that a resumed run needs, into an existing, empty folder.

        Raises:
            OSError: The folder cannot be written.
        """
        self.copied()(directory)

    def load(self, directory: Path) -> None:
        """Take up the state that `save` left in the folder; the learner is as it was then, to the bit.

        Raises:
            CheckpointError: The files are missing, damaged, or of another run, task or algorithm.
        """
        with self._drawing(Purpose.LOAD, self.trainer.number):
            self.checkpoints.load(directory)
        self._mixed = True  # a checkpoint is of the end of a round

    def write_model(self, path: Path) -> None:
        """Write the model that is kept to a safetensors file, under the model's own state names.

        With ``keep="best"`` that is the best one so far; the model that trains on stays as it is.

        Raises:
            OSError: The file cannot be written.
        """
        with self._drawing(Purpose.WRITE, self.trainer.number):
            self.keeping.write(path)

    @contextmanager
    def kept(self) -> Iterator[nn.Module]:
        """Context in which the task's model, which it gives, has the values that `write_model` writes."""
        with self._calling(Purpose.EVALUATE, self.trainer.number), self.keeping.kept():
            yield self.trainer.module

    def card(self) -> dict[str, Any]:
        """Entries of the model card for the model that `write_model` writes: see `dpeer.training.state.kept_model`.

        Raises:
            TaskError: The task's model or data raised.
        """
        with self.kept():
            found, shape = self.selection.predictions(), input_shape(self.trainer.task)
        # Outside, for it imports libraries, of which some draw random numbers when they are imported.
        return self.keeping.about(found, shape)

    def rows(self) -> tuple[Evaluation, Rows | None]:
        """Measure the model that `write_model` writes, and how it does on each row of what `evaluate` uses.

        Raises:
            TaskError: The task's model, loss, metrics or data raised.
        """
        with self.kept():
            return self.selection.rows()

    def receive_buffer(self) -> memoryview | None:
        """Writable memory of `About.payload_bytes` to put a payload's pieces together in; None if none is needed.

        It is page-locked where the body is on a GPU. It may be given out again when nothing refers to it any more. Any
        thread may call this.
        """
        return self.gossip.codec.receive_buffer()

    # Facts and figures: for the handshake, the logs and the files.

    @property
    def figures(self) -> Figures:
        """Figures of the learner as it is now."""
        trainer, selection = self.trainer, self.selection
        return Figures(
            gradients=trainer.figures.gradients,
            pace=None if trainer.pace is None else trainer.pace.last,
            steps=trainer.budget.taken,
            steps_asked=trainer.budget.asked,
            disagreement=self.gossip.disagreement,
            best_round=selection.best_round,
            best_loss=None if selection.best is None else selection.best_loss,
            kept_point=selection.best_point or self.keeping.point(mixed=self._mixed),
        )

    @property
    def finite(self) -> bool:
        """Whether all parameters are finite, as they are now, and those of a finished model."""
        finished = self.finishing.state.get("values")
        return all_finite([self.trainer.model.data] + ([] if finished is None else [finished]))

    @property
    def privacy(self) -> dict[str, Any] | None:
        """The privacy cost of the releases so far, JSON values with "epsilon" and "delta"; None without DP."""
        return self.trainer.source.spent() or self.gossip.spent

    @property
    def body(self) -> Tensor:
        """A copy of the body as it is now, shape (About.body_parameters,), on the host; for consensus distances."""
        return host(self.trainer.body.data)
