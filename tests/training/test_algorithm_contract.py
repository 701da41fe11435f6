"""The contract of every algorithm: facts, a common start, releases, mixing, and resuming to the bit."""

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from dpeer.exceptions import CheckpointError, Interrupted
from dpeer.training import (
    ALGORITHMS,
    Algorithm,
    Hyperparameters,
    TorchLearner,
    find_algorithm,
    make_options,
    source_hash,
)
from tests.training.algorithm_cases import CASES, SIZE, made
from tests.training.algorithm_cases import peers as learners_of
from tests.training.small import NormedNet, gossip, left_out, mix, small_task

pytestmark = pytest.mark.slow


NORMED = "dfedsmdc with dropout and batch statistics"


def peers(case: str, keep: Any = "last", **changes: Any) -> list[TorchLearner]:
    task = {"model": NormedNet, "head": lambda: ("norm", "fc")} if case == NORMED else None
    settings = {"body_epochs": 1, "finish": "all:1"} | changes
    return learners_of("dfedsmdc" if case == NORMED else case, keep=keep, task=task, **settings)


def saved(learners: Sequence[TorchLearner], folder: Path) -> list[Path]:
    for rank, ours in enumerate(learners):
        (folder / str(rank)).mkdir(parents=True)
        ours.save(folder / str(rank))
    return sorted(folder.iterdir())


def reloaded(learners: Sequence[TorchLearner], fresh: Sequence[TorchLearner], folder: Path) -> Sequence[TorchLearner]:
    """Fresh learners that go on from what the others have saved."""
    for one, where in zip(fresh, saved(learners, folder), strict=True):
        one.load(where)
    return fresh


def assert_all_same(one: Sequence[TorchLearner], other: Sequence[TorchLearner], folder: Path) -> None:
    for a, b in zip(one, other, strict=True):
        assert torch.equal(a.trainer.model.data, b.trainer.model.data)
        assert a.figures.best_round == b.figures.best_round
    assert_same(one[0], other[0], folder)


def assert_same(one: TorchLearner, other: TorchLearner, folder: Path) -> None:
    assert one.evaluate() == other.evaluate()
    files = folder / "one.safetensors", folder / "other.safetensors"
    for ours, file in zip((one, other), files, strict=True):
        ours.write_model(file)
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_facts_are_stated(name: str) -> None:
    found = find_algorithm(name)
    assert (found.name, find_algorithm(found)) == (name, found)
    assert found.summary
    assert "\n" not in found.summary
    assert found.leaves
    assert source_hash(found) == hashlib.sha256().hexdigest(), "dpeer's own code is no plug-in"
    assert {*found.uses, *found.defaults} <= {*Hyperparameters.model_fields}
    assert found().gradients(Hyperparameters()) > 0
    assert make_options(found, {}) == found.Options()


@pytest.mark.parametrize("case", CASES)
def test_peers_start_alike_train_and_mix_what_they_share_alone(case: str, tmp_path: Path) -> None:
    learners = peers(case, "best")
    one, shares = learners[0], learners[0].algorithm.shares
    assert len({ours.about.digest for ours in learners}) == 1
    assert all(torch.equal(ours.body, one.body) for ours in learners)
    assert all(ours.about.manifest == one.about.manifest for ours in learners)
    assert one.about.shares == (shares != "nothing")
    assert all(math.isfinite(ours.train(0)) for ours in learners)

    before = one.trainer.model.data.clone(), one.trainer.shared.data.clone()
    assert one.evaluate() == one.evaluate()
    one.write_model(tmp_path / "model.safetensors")
    assert torch.equal(one.trainer.model.data, before[0]), "evaluating and writing change nothing"
    assert torch.equal(one.trainer.shared.data, before[1])

    payloads = {rank: ours.release(0) for rank, ours in enumerate(learners)}
    if not one.about.shares:
        assert {*payloads.values()} == {None}
        assert one.about.payload_bytes == 0
        return
    for rank, ours in enumerate(learners):
        head = ours.trainer.head.data.clone()
        received = {other: payload for other, payload in payloads.items() if payload is not None and other != rank}
        assert len(received) == SIZE - 1
        for other, payload in received.items():
            assert all(memoryview(buffer).readonly for buffer in payload)
            assert sum(memoryview(buffer).nbytes for buffer in payload) <= ours.about.payload_bytes
            assert left_out(ours, other, payload) is None
            assert left_out(ours, other, [b"x"]) == "wrong-size"
        assert ours.mix_sound(received, lambda ranks: dict.fromkeys(range(SIZE), 1 / SIZE)) == {}
        own_hook = type(ours.algorithm).mixed is not Algorithm.mixed
        assert shares == "model" or own_hook or torch.equal(ours.trainer.head.data, head)
        assert ours.finite
    if case not in ("dis-pfl", "dis-pfl adamw") and "compress" not in case:
        assert all(torch.equal(ours.body, one.body) for ours in learners), "equal weights on a full graph"


@pytest.mark.parametrize("case", [NORMED, "dis-pfl", "fedbabu", "fedrod personal=hypernetwork"])
def test_an_interrupted_end_has_changed_nothing(case: str) -> None:
    ours = peers(case)[0]
    ours.train(0)
    ours.release(0)
    mix(ours, {}, {0: 1.0})
    before, found = {name: one.clone() for name, one in ours.trainer.module.state_dict().items()}, ours.evaluate()
    hook = ours.trainer.module.register_forward_hook(lambda *_: ours.interrupt())
    with pytest.raises(Interrupted):
        ours.fine_tune(0)
    hook.remove()
    assert all(torch.equal(one, before[name]) for name, one in ours.trainer.module.state_dict().items())
    assert (ours.evaluate(), ours.figures.kept_point) == (found, "mixed")


@pytest.mark.parametrize(
    ("case", "finished"),
    [
        pytest.param(case, finished, marks=[] if at % 2 == finished else [pytest.mark.long])
        for at, case in enumerate([*CASES, NORMED])
        for finished in (False, True)
    ],
)
def test_two_rounds_and_two_more_are_four(case: str, finished: bool, tmp_path: Path) -> None:
    """To the bit, in a resumed run, and in one that goes on after its end, of which no neighbor hears anything."""
    whole, first, fresh = (peers(case, "last" if finished else "best") for _ in range(3))
    gossip(whole, 4, evaluate=not finished)
    gossip(first, 2, evaluate=not finished)
    if finished:
        assert all(ours.fine_tune(1) is not None for ours in first)
    resumed = reloaded(first, fresh, tmp_path / "once")
    for folder, again in zip(sorted((tmp_path / "once").iterdir()), saved(resumed, tmp_path / "again"), strict=True):
        for file in folder.iterdir():
            assert file.read_bytes() == (again / file.name).read_bytes()
    assert_all_same(first, resumed, tmp_path)
    a, b = first[0], resumed[0]
    assert a.figures.kept_point == b.figures.kept_point
    assert (a.figures.kept_point == "finished") == finished
    assert a.rows()[0] == b.rows()[0]
    for learners in (first, resumed) if finished else (resumed,):
        gossip(learners, 2, start=2, evaluate=not finished)
        assert_all_same(whole, learners, tmp_path)
    assert whole[0].fine_tune(3) == resumed[0].fine_tune(3)
    assert_same(whole[0], resumed[0], tmp_path)


@pytest.mark.parametrize("case", ["ditto", "dis-pfl", "fedrod personal=hypernetwork"])
def test_the_best_model_is_resumed_too(case: str, tmp_path: Path) -> None:
    """Learning rates that explode, by steps that do not, make an early round the best."""
    first, fresh = (peers(case, "best", lr_decay=200.0, grad_clip=1.0) for _ in range(2))
    gossip(first, 3, evaluate=True)
    resumed = reloaded(first, fresh, tmp_path / "saved")
    for a, b in zip(first, resumed, strict=True):
        assert_same(a, b, tmp_path)
        last = load_file(tmp_path / "one.safetensors")
        assert any(not torch.equal(last[name], value) for name, value in a.trainer.module.state_dict().items())
    for learners in (first, resumed):
        gossip(learners, 1, start=3, evaluate=True)
    assert all(ours.figures.best_round in (0, 1) for ours in first)
    assert_all_same(first, resumed, tmp_path)


ADAMW = {"optimizer": "adamw", "body_lr": 0.01}
NAMES: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("fedavg", {}, "dfedavgm", {}),
    ("fedsam", {}, "dfedsam", {}),
    ("fedrep", {}, "dfedmdc", {}),
    ("dfedsmdc", {"rho": 0.0}, "dfedmdc", {}),
    ("dfedsam", {"rho": 0.0}, "dfedavgm", {}),
    ("localadamw", ADAMW, "fedper", ADAMW),
    ("localadamw", ADAMW | {"head": ()}, "dfedavgm", ADAMW | {"head": ()}),
    (
        "fedadamw", {"body_lr": 0.01, "options": {"aggregate": "none", "gamma": 0.0, "correct": False}},
        "localadamw", ADAMW,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("one", "changes", "other", "others"), NAMES)
def test_the_same_rounds_by_another_name_to_the_bit(
    one: str, changes: dict[str, Any], other: str, others: dict[str, Any]
) -> None:
    found = []
    for name, settings in ((one, changes), (other, others)):
        head = settings.get("head", ("fc",))
        found.append([made(small_task(rank, head=head), name, settings, rank=rank, seed=0) for rank in range(SIZE)])
        gossip(found[-1], 3)
    for a, b in zip(*found, strict=True):
        assert torch.equal(a.trainer.model.data, b.trainer.model.data)
        assert a.evaluate() == b.evaluate()


KEPT = {
    "ditto": "last/rest/algorithm/personal",
    "fedrod": "last/rest/algorithm/personal",
    "fedadamw": "last/rest/algorithm/covered",
    "fedadamw aggregate=full": "last/rest/algorithm/at_home",
    "dis-pfl": "last/rest/algorithm/mask",
}


@pytest.mark.parametrize("case", KEPT)
def test_what_an_algorithm_keeps_is_checked(case: str, tmp_path: Path) -> None:
    learners = peers(case)
    gossip(learners, 1)
    folder = saved(learners, tmp_path)[0]
    file = folder / "learner.safetensors"
    whole, name = load_file(file), KEPT[case]
    for wrong in (whole | {name: whole[name][:-1].clone()}, {key: one for key, one in whole.items() if key != name}):
        save_file(wrong, file)
        with pytest.raises(CheckpointError) as caught:
            peers(case)[0].load(folder)
        assert caught.value.exit_code == 2
    save_file(whole, file)
    peers(case)[0].load(folder)
