"""The learner: model, data and algorithm of one peer, behind the methods that the round loop calls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal

from dpeer.exceptions import ConfigurationError, TaskError
from dpeer.privacy import ClientSession, NoiselessSession, SampleSession, Session
from dpeer.training.algorithms import Algorithm, find_algorithm
from dpeer.training.algorithms.facts import Facts, facts_of
from dpeer.training.algorithms.plugins import blamed, extras_of, is_built_in, new_algorithm
from dpeer.training.checkpoints import Checkpoints
from dpeer.training.description import Description
from dpeer.training.device import HOST, Compute
from dpeer.training.dpsgd_trainer import DPSGDTrainer
from dpeer.training.evaluation import Evaluation
from dpeer.training.fine_tuning import Finishing
from dpeer.training.hyperparameters import Hyperparameters
from dpeer.training.initial_digest import Beginning
from dpeer.training.mixing.building import build_gossip
from dpeer.training.mixing.gossip import Weigh
from dpeer.training.model_export import Keeping
from dpeer.training.payload import Payload
from dpeer.training.per_row_metrics import Rows
from dpeer.training.privacy_mark import Origin
from dpeer.training.randomness import GlobalGenerators, Purpose
from dpeer.training.sample_level import SampledReleases, check_sound, planned_phases
from dpeer.training.selection import ModelSelection
from dpeer.training.snapshots import Snapshots, Stateful
from dpeer.training.split import frozen_alike, split
from dpeer.training.task import Task, claim
from dpeer.training.trainer import Trainer


class TorchLearner(Description):
    """Trains, releases, mixes and evaluates one peer's model; implements the `Learner` protocol of dpeer.peer.

    All methods but `interrupt` and `room` are called from one thread at a time, in the round loop's order: train,
    release, evaluate, mix, evaluate, save. The task's model becomes the learner's own.

    Args:
        task: The model and the data, as a task factory returned them.
        algorithm: Its name, one of `ALGORITHMS`, or what else `find_algorithm` takes, such as a class.
        hyperparameters: The numbers that steer training.
        rank: This peer.
        seed: The federation's seed, not negative; equal on all peers.
        keep: Which model `write_model` writes: the "last", or the "best" by the loss on the task's validation data
            among those that were evaluated, before and after mixing, and finished at the end.
        evaluate_on: Which of the task's data `evaluate` uses.
        training_accuracy: Whether `evaluate` measures accuracy on the training data, too.
        patience: After how many evaluations without a better validation loss a peer that trains alone trains no more.
        steady: Whether the peer exchanges with the same neighbors in every round.
        sampled_share: The share of all peers whose bodies a mixing takes the mean of, where a sample of them sends to
            all; 1 elsewhere.
        compute: On which device, where the model and the data are moved to, and how.
        session: Differential privacy, of messages or of each record in local training, or the record of a run without
            noise; None trains and sends without noise and record.
        options: The algorithm's options, by name; its defaults for those that are not given.

    Raises:
        UnknownName: No such algorithm, or option of it.
        AlgorithmError: A class that cannot be used as an algorithm, or an option that cannot be what was given.
        TaskError: The model cannot be trained by it, or ``keep="best"`` without validation data.
        ConfigurationError: The algorithm has a way of its own to send bodies and cannot quantize or protect them, or
            patience where others wait for this peer's bodies, or without ``keep="best"``.
    """

    def __init__(
        self,
        task: Task,
        algorithm: str | type[Algorithm],
        hyperparameters: Hyperparameters | None = None,
        *,
        rank: int,
        seed: int,
        keep: Literal["last", "best"] = "last",
        evaluate_on: Literal["test", "validation"] = "test",
        training_accuracy: bool = False,
        patience: int | None = None,
        steady: bool = True,
        sampled_share: float = 1.0,
        compute: Compute = HOST,
        session: Session | None = None,
        options: Any = None,
    ) -> None:
        for option, value, other in (("keep", keep, "last"), ("evaluate-on", evaluate_on, "test")):
            if value in ("best", "validation") and task.validation is None:
                raise TaskError(
                    f"--{option} {value} needs validation data: hold some out with --validation 0.1 (your own task: "
                    f"give it `validation=`), or use --{option} {other}"
                )
        found = find_algorithm(algorithm)
        facts = self._facts = facts_of(found)
        if patience is not None:
            _check_patience(patience, facts, keep)
        self._patience = patience
        self._generators = GlobalGenerators(seed, rank, compute.device, draws=True if facts.draws else task.draws)
        self._rank, self._model = rank, task.model
        self._session = session
        sampling = session if isinstance(session, SampleSession) else None
        with self._drawing(Purpose.START, 0):
            made = self._algorithm = new_algorithm(found, {} if options is None else options)
            if sampling is not None:
                check_sound(made, facts.shares, sampling, keep=keep, patience=patience)
            claim(task.model)
            parts = split(task.model, task.head, facts.shares, facts.name)
            began = Beginning(parts, frozen_alike(task.model, task.head) if self.shares else {})
            h = hyperparameters or Hyperparameters()
            with compute.reporting():
                if not compute.on_host:
                    task.model.to(compute.device)  # parameters stay the same objects
                self._trainer = _trainer(
                    sampling, task, parts, h, rank=rank, seed=seed, compute=compute, generators=self._generators,
                    extras=extras_of(made, parts),
                )  # fmt: skip
                self._selection = ModelSelection(task, keep, evaluate_on, compute, self._trainer.loss_function)
            self._digest = began.digest(self._trainer)
            self._trainer.sampled_share = sampled_share
            with blamed(made, "start"):
                made.start(self._trainer)
            self._gossip = build_gossip(made, self._trainer, session, steady=steady)
            self._sampled = None
            if isinstance(self._trainer, DPSGDTrainer):
                of_releases = found.mixed is Algorithm.mixed or not facts.mixed_uses_data
                self._sampled = SampledReleases(self._trainer, of_releases=of_releases)
                with blamed(made, "train"):
                    planned = planned_phases(found, {} if options is None else options, self._trainer)
                self._trainer.prepare(planned)
        if not is_built_in(found):
            began.check(self._trainer, facts.name)
        self._finishing = Finishing(made, self._trainer)
        origin = Origin.of_run(
            client=isinstance(session, ClientSession), sample=sampling is not None,
            post=sampling is not None and sampling.head == "post",
            first=None if task.initial is None else task.initial.origin,
        )  # fmt: skip
        self._keeping = Keeping(
            self._trainer, self._finishing, self._selection, shares=self.shares, origin=origin,
            training=training_accuracy,
        )  # fmt: skip
        kept: dict[str, Stateful] = {
            "algorithm": made, "extras": self._trainer.extras, "codec": self._gossip, "finish": self._finishing,
        }  # fmt: skip
        if self._sampled is not None:
            kept["sampled"] = self._sampled
        self._snapshots = Snapshots(self._trainer, kept)
        self._checkpoints = Checkpoints(made, self._trainer, self._snapshots, self._selection, session)
        self._mixed = False

    @contextmanager
    def _calling(self, purpose: Purpose, number: int) -> Iterator[None]:
        """Within it the task's code may run: its random numbers can be repeated, the device's errors are reported."""
        with self._generators.kept(purpose, number), self.compute.reporting():
            yield

    def _drawing(self, purpose: Purpose, number: int) -> AbstractContextManager[None]:
        """Within it the algorithm's code may run, not the task's: what it draws can be repeated."""
        return self._generators.kept(purpose, number) if self._facts.draws else nullcontext()

    # The round loop's steps, in its order.

    def start_over(self) -> None:
        """Begin a new run: put aside the record of what an earlier run in the same folder has released."""
        if self._session is not None and (self.shares or not isinstance(self._session, ClientSession)):
            self._session.begin()

    def train(self, number: int) -> float | None:
        """Run round `number`'s local steps.

        Returns:
            The sample-weighted mean of the minibatch losses of the last local epoch, not finite when training has
            diverged; None when nothing was trained, as when patience has run out.

        Raises:
            Interrupted: `interrupt` was called; the model is as after the last whole minibatch.
            TaskError: The task's model, loss or data raised.
        """
        self._trainer.begin(number)
        self._mixed = False
        self._finishing.forget()
        if self._patience is not None and self._selection.worse >= self._patience:
            return None
        with self._calling(Purpose.TRAIN, number), blamed(self._algorithm, "train"):
            self._algorithm.train(self._trainer)
        return self._trainer.figures.loss

    def release(self, number: int) -> Payload | None:
        """This round's body, for every neighbor and for this peer's own part of the mix; None where nothing is shared.

        Returns:
            Read-only buffers that never change again; only the codec knows what is in them. None also where a
            private release was lost when the process ended: the peer stays silent in that round.
        """
        if not self.shares:
            return None
        if isinstance(self._session, NoiselessSession):
            self._session.record()
        if self._sampled is not None:
            self._sampled.before()
        return self._gossip.release(number)

    def evaluate(self) -> Evaluation:
        """Evaluate the model as it is now on this peer's test data.

        With ``keep="best"`` it is also measured on the validation data, and kept if it is the best so far.

        Raises:
            TaskError: The task's model, loss, metrics or data raised.
        """
        still = self._trainer.unchanged() if isinstance(self._trainer, DPSGDTrainer) else nullcontext()
        with self._calling(Purpose.EVALUATE, self._trainer.number), still:
            return self._keeping.evaluate(self._keeping.point(mixed=self._mixed))

    def check(self, rank: int, received: Payload) -> str | None:
        """Why a payload of this rank must not be mixed ("wrong-size", "not-finite", ...), or None; never raises."""
        return self._gossip.check(rank, received)

    def mix(self, received: Mapping[int, Payload], row: Mapping[int, float]) -> None:
        """Body <- sum over ranks j, in rank order, of row[j] * z_j, the own z being what was released.

        (A robust rule or a sparse algorithm mixes otherwise: see `dpeer.training.mixing`.)

        Args:
            received: Payloads by rank, each of which `check` let pass; without the own.
            row: Weights for exactly the ranks in `received` and the own.

        Raises:
            ValueError: The ranks or sizes do not fit.
        """
        if row.keys() != received.keys() | {self._rank}:
            raise ValueError(f"weights are for ranks {sorted(row)}, bodies from {sorted(received)} and own")

        def weigh(sound: Collection[int]) -> Mapping[int, float]:
            if len(sound) < len(received):
                raise ValueError(f"only ranks {sorted(sound)} of {sorted(received)} sent what can be mixed")
            return row

        self.mix_sound(received, weigh)

    def mix_sound(self, received: Mapping[int, Payload], weigh: Weigh) -> dict[int, str]:
        """Mix as `mix` does, of any payloads those that `check` lets pass.

        Args:
            received: Payloads by rank, without the own.
            weigh: Gives the weights of the ranks that are left and of this peer.

        Returns:
            The ranks whose payload was left out, and why.
        """
        refused = self._gossip.mix(received, weigh)
        self._after_mixing()
        return refused

    def _after_mixing(self) -> None:
        """Call the algorithm's `mixed`; if that looks at nothing private, the next update starts from what it left."""
        self._mixed = True
        if type(self._algorithm).mixed is Algorithm.mixed:
            return
        with self._calling(Purpose.MIXED, self._trainer.number), blamed(self._algorithm, "mixed"):
            self._algorithm.mixed(self._trainer)
        if not self._facts.mixed_uses_data:
            self._gossip.rebase()

    def sit_out(self, number: int) -> None:
        """Let round `number` go by in which this peer does not train; others' bodies may be mixed in it."""
        self._trainer.begin(number)
        with self._drawing(Purpose.SIT_OUT, number):
            self._algorithm.sit_out()
        self._finishing.forget()

    def finish(self, number: int) -> float | None:
        """Do what the algorithm leaves for the end, after round `number`, the last, has been mixed.

        Returns:
            The training loss, as `train` gives it; None when nothing was trained.

        Raises:
            Interrupted: `interrupt` was called; nothing has changed.
            TaskError: The task's model, loss or data raised.
        """
        self._trainer.begin(number)
        # Of a class from outside nobody knows whether it trains a copy, so its last steps are protected like others.
        freely = self._at_home() if is_built_in(self._facts.algorithm) else nullcontext()
        with self._calling(Purpose.FINISH, number), blamed(self._algorithm, "finish"), freely:
            self._algorithm.finish(self._trainer)
        return self._trainer.figures.loss

    def fine_tune(self, number: int) -> Evaluation | None:
        """Train a copy of the model that predicts as ``finish`` asks, after round `number`, the last; evaluate it.

        Returns:
            How well the copy does, which predicts from now on; None where ``finish`` asks for nothing.

        Raises:
            Interrupted: `interrupt` was called; nothing has changed.
            TaskError: The task's model, loss, metrics or data raised.
        """
        if not self._finishing.asked:
            return None
        self._trainer.begin(number)
        with self._calling(Purpose.FINE_TUNE, number), self._at_home():
            self._finishing.train()
        return self.evaluate()

    def _at_home(self) -> AbstractContextManager[None]:
        """Within it a copy of the model is trained that no neighbor hears of: without noise, whatever is protected."""
        return self._trainer.freely() if isinstance(self._trainer, DPSGDTrainer) else nullcontext()

    def interrupt(self) -> None:
        """Ask `train` to stop after the current minibatch, now and in every later call. Any thread may call this."""
        self._trainer.interrupt()

    # Files.

    def copied(self) -> Callable[[Path], None]:
        """Copy everything that a resumed run needs. The copy before must be needed no more: its memory is used again.

        Returns:
            Writes the copy into an existing, empty folder, whatever the learner does meanwhile. Any thread may call it.
        """
        with self._drawing(Purpose.SAVE, self._trainer.number):
            return self._checkpoints.take().save

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
        with self._drawing(Purpose.LOAD, self._trainer.number):
            self._checkpoints.load(directory)
        self._mixed = True  # a checkpoint is of the end of a round

    def write_model(self, path: Path) -> None:
        """Write the model that is kept to a safetensors file, under the model's own state names.

        With ``keep="best"`` that is the best one so far; the model that trains on stays as it is.

        Raises:
            OSError: The file cannot be written.
        """
        with self._drawing(Purpose.WRITE, self._trainer.number):
            self._keeping.write(path)

    def card(self) -> dict[str, Any]:
        """What there is to say of the model that `write_model` writes: see `dpeer.training.card_entries`.

        Raises:
            TaskError: The task's model or data raised.
        """
        with self._calling(Purpose.EVALUATE, self._trainer.number):
            found = self._keeping.predictions()
        # Outside, for it imports libraries, of which some draw random numbers when they are imported.
        return self._keeping.about(*found)

    def rows(self) -> tuple[Evaluation, Rows | None]:
        """Measure the model that `write_model` writes, and how it does on each row of what `evaluate` uses.

        Raises:
            TaskError: The task's model, loss, metrics or data raised.
        """
        with self._calling(Purpose.EVALUATE, self._trainer.number):
            return self._keeping.rows()

    def measure_training_accuracy(self) -> float | None:
        """The accuracy of the model that `write_model` writes on the training data.

        Raises:
            TaskError: The task's model, loss, metrics or data raised.
        """
        with self._calling(Purpose.EVALUATE, self._trainer.number):
            return self._keeping.training_accuracy()

    def constant_loss(self) -> float | None:
        """The loss of always answering the mean of the own training targets; None where they are no such numbers."""
        return self._selection.constant_loss(self._trainer.data)


def _trainer(session: SampleSession | None, *given: Any, **named: Any) -> Trainer:
    return Trainer(*given, **named) if session is None else DPSGDTrainer(*given, **named, session=session)


def _check_patience(patience: int, facts: Facts, keep: str) -> None:
    """Refuse early stopping where it would hold up others, or cannot tell when.

    Raises:
        ConfigurationError: Says what would be right.
    """
    if facts.shares != "nothing":
        raise ConfigurationError(
            f"--patience {patience} is for peers that train alone: with {facts.name} the neighbors need this peer's "
            "body in every round; --keep best keeps the model of the best round there"
        )
    if keep != "best":
        raise ConfigurationError(f"--patience {patience} needs --keep best, and validation data (--validation 0.1)")
