"""A round that ends between any two minibatches goes on there, in another process, with the same bits."""

import itertools
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dpeer.exceptions import CheckpointError, DpeerError, Interrupted
from dpeer.training import Algorithm, Hyperparameters, TorchLearner, Trainer, build_learner
from dpeer.training.algorithms.base import facts_of
from dpeer.training.algorithms.ditto import Ditto
from dpeer.training.flat import Flat
from dpeer.training.gradients import proximal, sam
from dpeer.training.minibatches import Batch
from dpeer.training.sgd import carried, carry_on, momentum
from dpeer.training.state.round_progress import MOST, UnfinishedRound
from tests.thinning import every
from tests.training.algorithm_cases import CASES, ROW, peers
from tests.training.small import NormedNet, SmallNet, small_task

NUMBER = 1
"""The round that is broken off: the last one, so that what comes after it is, too."""


class KilledError(DpeerError):
    """The process ends here."""


class Killing:
    """Breaks a round off at every minibatch in turn; what it has done until then is in a new folder each time."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.folders = folder, list[Path]()

    def ask(self, learner: TorchLearner) -> None:
        """Have the learner's process end after the present minibatch."""

        def take(write: Callable[[Path], None]) -> None:
            self.folders.append(self._folder / str(len(self.folders)))
            self.folders[-1].mkdir()
            write(self.folders[-1])
            raise KilledError

        unfinished(learner).ask(take)

    def hold(self, learner: TorchLearner, skipped: int) -> None:
        """Have the process end after a minibatch, the one after so many forward passes."""
        passes, real = itertools.count(), learner.trainer.outputs

        def outputs(batch: Batch) -> Any:
            if next(passes) == skipped:
                self.ask(learner)
            return real(batch)

        learner.trainer.outputs = outputs

    def advanced(self) -> bool:
        """Whether the last folder has more minibatches than the one before."""
        done = [[call["done"] for call in calls(folder)] for folder in self.folders[-2:]]
        return len(done) == 1 or done[0] != done[1]


class Round:
    """Round `NUMBER` of rank 0: what came before it, and what its neighbors send in it."""

    def __init__(self, make: Callable[[], list[TorchLearner]], folder: Path) -> None:
        self._make, self._before = make, folder / "before"
        learners = make()
        for number in range(NUMBER):
            self._together(learners, number)
        self._before.mkdir(parents=True)
        learners[0].save(self._before)
        self._sent = self._trained(learners, NUMBER)
        self._kept = folder / "kept"
        self._kept.mkdir()

    def _trained(self, learners: list[TorchLearner], number: int) -> dict[int, Any]:
        for learner in learners:
            learner.train(number)
        return {rank: learner.release(number) for rank, learner in enumerate(learners)}

    def _together(self, learners: list[TorchLearner], number: int) -> None:
        sent = self._trained(learners, number)
        for rank, learner in enumerate(learners):
            if learner.shares:
                learner.mix({other: payload for other, payload in sent.items() if other != rank}, ROW)
            learner.evaluate()

    def learner(self) -> TorchLearner:
        """Rank 0 as it was before the round."""
        learner = self._make()[0]
        learner.load(self._before)
        return learner

    def play(self, learner: TorchLearner) -> Iterator[Any]:
        """Play the round, whatever comes after it included; all that comes out of it."""
        yield learner.train(NUMBER)
        sent = learner.release(NUMBER)
        yield [bytes(part) for part in sent or []]
        yield learner.evaluate()
        if learner.shares:
            learner.mix({rank: payload for rank, payload in self._sent.items() if rank}, ROW)
        yield learner.finish(NUMBER)
        yield learner.evaluate()
        yield learner.fine_tune(NUMBER)
        yield learner.gradients
        yield {file.name: file.read_bytes() for file in self._saved(learner)}

    def _saved(self, learner: TorchLearner) -> list[Path]:
        learner.save(self._kept)
        return sorted(self._kept.iterdir())


def unfinished(learner: TorchLearner) -> UnfinishedRound:
    assert learner.unfinished is not None
    return learner.unfinished


def calls(folder: Path) -> list[dict[str, Any]]:
    """The calls in a folder."""
    found: list[dict[str, Any]] = json.loads((folder / "learner.json").read_text())["calls"]
    return found


def no_warning(message: str) -> None:
    pytest.fail(message)


def killed_at_every_minibatch(round_: Round, folder: Path) -> tuple[list[Any], int]:
    """What comes out of a round that ends after each minibatch and goes on in another process; how often it did.

    A minibatch that is not of `fit` is made again each time: the process then ends at a later one.
    """
    killing, skipped = Killing(folder), 0
    while True:
        learner = round_.learner()
        unfinished(learner).keep()
        if killing.folders:
            unfinished(learner).go_on(NUMBER, killing.folders[-1], no_warning)
        killing.hold(learner, skipped)
        try:
            return [*round_.play(learner)], len(killing.folders)
        except KilledError:
            skipped = 0 if killing.advanced() else skipped + 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rounds")


@pytest.mark.slow
@pytest.mark.parametrize("case", every(3, CASES))
def test_a_round_that_ends_after_any_minibatch_goes_on_with_the_same_bits(case: str, tmp_path: Path) -> None:
    round_ = Round(lambda: peers(case, rounds=NUMBER + 1, body_epochs=1, head_epochs=1, finish="all:1"), tmp_path)
    whole = [*round_.play(round_.learner())]
    found, times = killed_at_every_minibatch(round_, tmp_path)
    assert times > 3
    assert found == whole


def drawing(inputs: Tensor, generator: np.random.Generator) -> Tensor:
    """Noise from the generator that is given, and from all global ones."""
    noise = generator.normal() + np.random.normal() + random.random()
    return inputs + 0.1 * torch.rand_like(inputs) * noise


@pytest.mark.slow
@pytest.mark.parametrize("case", ["dfedsmdc", "scaffold", "ditto", "dfedavgm compress=int8"])
def test_random_numbers_batch_statistics_and_augmentation_go_on_too(case: str, tmp_path: Path) -> None:
    normed = {"model": NormedNet, "head": lambda: ("norm", "fc")}
    dropping = {"model": lambda: SmallNet(0.3), "head": lambda: ("fc",)}

    def make() -> list[TorchLearner]:
        task = (normed if case in ("dfedsmdc", "scaffold") else dropping) | {"augment": lambda: drawing}
        return peers(case, task=task, rounds=NUMBER + 1, body_epochs=2, batch_size=8, finish="head:2")

    round_ = Round(make, tmp_path)
    whole = [*round_.play(round_.learner())]
    assert killed_at_every_minibatch(round_, tmp_path)[0] == whole


def begun(folder: Path, **changes: Any) -> Path:
    """The progress of a first round of dfedmdc that ended in its second call, after three minibatches."""
    learner = built(**changes)
    unfinished(learner).keep()
    module, seen = learner.trainer.module, itertools.count()
    hook = module.register_forward_hook(lambda *_: learner.interrupt() if next(seen) == 6 else None)
    with pytest.raises(Interrupted):
        learner.train(0)
    hook.remove()
    folder.mkdir()
    write = unfinished(learner).copied(0)
    assert write is not None
    write(folder)
    return folder


def built(algorithm: Any = "dfedmdc", rank: int = 0, **changes: Any) -> TorchLearner:
    values = {"head_epochs": 1, "body_epochs": 2, "batch_size": 16} | changes
    return build_learner(small_task(rank), algorithm, Hyperparameters(**values), rank=rank, seed=0)


def test_a_stop_leaves_what_was_trained_and_the_next_process_trains_the_rest_alone(tmp_path: Path) -> None:
    whole, resumed = built(), built()
    loss = whole.train(0)
    said = unfinished(resumed).go_on(0, begun(tmp_path / "stopped"), no_warning)
    assert said == "head trained, body at minibatch 3 of 8"
    looked = list[int]()
    resumed.trainer.module.register_forward_hook(lambda *_: looked.append(1))
    assert resumed.train(0) == loss
    assert len(looked) == 5
    assert resumed.gradients == whole.gradients
    assert torch.equal(resumed.trainer.model.data, whole.trainer.model.data)
    assert unfinished(resumed).earlier_seconds > 0


def test_without_being_asked_nothing_is_kept_and_no_other_round_has_it(tmp_path: Path) -> None:
    ours = built()
    ours.train(0)
    assert unfinished(ours).copied(0) is None
    unfinished(ours).keep()
    ours.train(1)
    assert unfinished(ours).copied(0) is None
    assert unfinished(ours).copied(1) is not None
    ours.sit_out(2)
    assert unfinished(ours).copied(1) is unfinished(ours).copied(2) is None


def test_a_process_that_ends_before_it_trains_leaves_the_progress_as_it_was(tmp_path: Path) -> None:
    folder = begun(tmp_path / "first")
    ours = built()
    unfinished(ours).go_on(0, folder, no_warning)
    ours.interrupt()
    with pytest.raises(Interrupted):
        ours.train(0)
    write = unfinished(ours).copied(0)
    assert write is not None
    (tmp_path / "second").mkdir()
    write(tmp_path / "second")
    assert [(one["key"], one["done"], one["ended"]) for one in calls(tmp_path / "second")] == [
        ("train 0", 4, True), ("train 1", 3, False),
    ]  # fmt: skip


def test_the_progress_of_the_round_after_the_next_waits_for_it(tmp_path: Path) -> None:
    """Where rounds overlap, the one before may have to be trained again."""
    whole = built()
    losses = [whole.train(0), whole.train(1)]
    folder = tmp_path / "progress"
    folder.mkdir()
    stopped = built()
    stopped.train(0)
    unfinished(stopped).keep()
    stopped.train(1)
    write = unfinished(stopped).copied(1)
    assert write is not None
    write(folder)
    resumed = built()
    unfinished(resumed).go_on(1, folder, no_warning)
    assert resumed.train(0) == losses[0]
    assert unfinished(resumed).copied(1) is not None, "also for a process that ends now"
    computed = resumed.trainer.figures.gradients
    resumed.trainer.outputs = None  # nothing is computed any more
    assert resumed.train(1) == losses[1]
    assert resumed.trainer.figures.gradients == 2 * computed
    assert torch.equal(resumed.trainer.model.data, whole.trainer.model.data)


def test_other_settings_or_another_beginning_train_the_round_from_its_start(tmp_path: Path) -> None:
    folder, warned = begun(tmp_path / "stopped"), list[str]()
    other, fresh = built(batch_size=8), built(batch_size=8)
    unfinished(other).go_on(0, folder, warned.append)
    assert other.train(0) == fresh.train(0)
    moved, same = built(), built()
    for ours in (moved, same):
        ours.trainer.body.data.add_(1e-6)
    unfinished(moved).go_on(0, folder, warned.append)
    assert moved.train(0) == same.train(0)
    assert torch.equal(moved.trainer.model.data, same.trainer.model.data)
    assert warned == [
        f"the progress of the unfinished round 1 does not fit from 'head' on (its {what} is another): that is trained "
        "from its start"
        for what in ("number of minibatches", "beginning")
    ]


def test_the_progress_of_another_rank_is_refused_also_where_both_begin_alike(tmp_path: Path) -> None:
    ours = built(rank=1)
    with pytest.raises(CheckpointError, match="cannot be read: ValueError: it is of rank 0"):
        unfinished(ours).go_on(0, begun(tmp_path / "stopped"), no_warning)
    assert ours.train(0) == built(rank=1).train(0)


@pytest.mark.parametrize("damage", ["cut", "no file", "other round", "no call"])
def test_progress_that_cannot_be_read_is_refused_and_changes_nothing(damage: str, tmp_path: Path) -> None:
    folder = begun(tmp_path / "stopped")
    described = json.loads((folder / "learner.json").read_text())
    if damage == "cut":
        tensors = folder / "learner.safetensors"
        tensors.write_bytes(tensors.read_bytes()[:-1])
    elif damage == "no file":
        (folder / "learner.safetensors").unlink()
    elif damage == "other round":
        (folder / "learner.json").write_text(json.dumps(described | {"round": 1}))
    else:
        (folder / "learner.json").write_text(json.dumps(described | {"calls": [{"key": "train 0"}]}))
    ours, fresh = built(), built()
    with pytest.raises(CheckpointError, match="cannot be read"):
        unfinished(ours).go_on(0, folder, no_warning)
    assert ours.train(0) == fresh.train(0)


class Often(Algorithm):
    """Trains one epoch after another."""

    shares = "model"
    replayable = True

    def train(self, peer: Trainer) -> None:
        for epoch in range(MOST + 4):
            peer.fit(peer.model, epochs=1, lr=0.1, phase=f"epoch {epoch}")


def test_of_very_many_calls_the_first_are_kept(tmp_path: Path) -> None:
    whole, first, resumed = (built(Often) for _ in range(3))
    whole.train(0)
    unfinished(first).keep()
    first.train(0)
    write = unfinished(first).copied(0)
    assert write is not None
    write(tmp_path)
    assert len(calls(tmp_path)) == MOST
    unfinished(resumed).go_on(0, tmp_path, no_warning)
    resumed.train(0)
    assert torch.equal(resumed.trainer.model.data, whole.trainer.model.data)


class Summing:
    """A gradient and a step of a user's own: both keep what they have seen."""

    def __init__(self, flat: Flat) -> None:
        self._flat, self._inner, self._total = flat, momentum(0.9)(flat), torch.zeros_like(flat.data)

    def step(self, lr: float) -> None:
        self._total.add_(self._flat.grad)
        self._flat.grad.add_(self._total, alpha=0.1)
        self._inner.step(lr)

    def state(self) -> dict[str, Tensor]:
        return {"total": self._total} | {f"inner {name}": one for name, one in carried(self._inner).items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        self._total.copy_(state["total"])
        carry_on(self._inner, {"velocity": state["inner velocity"]})


class OwnSteps(Ditto):
    """Ditto with steps of a user's own."""

    replayable = True

    def train(self, peer: Trainer) -> None:
        received = peer.model.data.clone()
        peer.fit(peer.model, epochs=2, lr=0.05, step=Summing, gradient=sam(0.05))
        with peer.holding(self._personal):
            peer.fit(peer.model, epochs=2, lr=0.05, gradient=proximal(0.5, received, sam(0.05)), phase="personal")
            self._personal = peer.model.data.clone()


def test_an_algorithm_of_a_users_own_goes_on_where_it_says_so(tmp_path: Path) -> None:
    round_ = Round(lambda: [built(OwnSteps, rank) for rank in ROW], tmp_path)
    whole = [*round_.play(round_.learner())]
    assert killed_at_every_minibatch(round_, tmp_path)[0] == whole


def test_an_algorithm_of_a_users_own_that_says_nothing_is_not_kept() -> None:
    class Silent(OwnSteps):
        """Derives from one that says so."""

    assert not facts_of(Silent).replayable
    assert built(Silent).unfinished is None


def test_the_time_that_an_earlier_process_has_used_counts_in_the_rounds_budget(tmp_path: Path) -> None:
    """Each phase of the budget goes on with its steps and seconds; a phase that it has ended stays ended."""
    folder = begun(tmp_path / "stopped")
    described = json.loads((folder / "learner.json").read_text())
    for call, used in zip(described["calls"], ([4, 60.0, False], [3, 50.0, False]), strict=True):
        assert call["plain"]["budget"][0] == used[0]
        assert not call["plain"]["budget"][2]
        call["plain"]["budget"] = used
    (folder / "learner.json").write_text(json.dumps(described))
    ours, more = built(), built()
    for learner in (ours, more):
        unfinished(learner).go_on(0, folder, no_warning)
    ours.train(0, seconds=110.0)
    assert (ours.steps, ours.steps_asked) == ([4, 3], [4, 8]), "a fourth step would not end in time"
    more.train(0, seconds=1000.0)
    assert more.steps == [4, 8]


def test_a_round_with_recorded_steps_goes_on_to_them(tmp_path: Path) -> None:
    whole, resumed = built(), built()
    whole.train(0, recorded=[4, 6])
    unfinished(resumed).go_on(0, begun(tmp_path / "stopped"), no_warning)
    resumed.train(0, recorded=[4, 6])
    assert resumed.steps == whole.steps == [4, 6]
    assert torch.equal(resumed.trainer.model.data, whole.trainer.model.data)
