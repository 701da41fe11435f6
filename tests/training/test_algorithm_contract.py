"""The contract of every algorithm: facts, a common start, releases, mixing, and resuming to the bit."""

import hashlib
import math
from collections.abc import Callable, Sequence
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
from dpeer.training.algorithms.base import facts_of
from tests.thinning import every
from tests.training.algorithm_cases import CASES, SIZE, made
from tests.training.algorithm_cases import peers as learners_of
from tests.training.small import NormedNet, gossip, small_task

pytestmark = pytest.mark.slow

Peers = Callable[..., list[TorchLearner]]


@pytest.fixture
def peers() -> Peers:
    def make(case: str, keep: Any = "last", **changes: Any) -> list[TorchLearner]:
        return learners_of(case, keep=keep, **{"body_epochs": 2, "finish": "all:1"} | changes)

    return make


def saved(learners: Sequence[TorchLearner], folder: Path) -> list[Path]:
    found = []
    for rank, ours in enumerate(learners):
        found.append(folder / str(rank))
        found[-1].mkdir(parents=True)
        ours.save(found[-1])
    return found


def assert_same(one: TorchLearner, other: TorchLearner, folder: Path) -> None:
    assert torch.equal(one.trainer.model.data, other.trainer.model.data)
    assert one.evaluate() == other.evaluate()
    assert one.figures.best_round == other.figures.best_round
    files = folder / "one.safetensors", folder / "other.safetensors"
    for ours, file in zip((one, other), files, strict=True):
        ours.write_model(file)
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_facts_are_stated(name: str) -> None:
    found = find_algorithm(name)
    facts = facts_of(found)
    assert (facts.name, facts.algorithm, find_algorithm(found)) == (name, found, found)
    assert found.summary
    assert "\n" not in found.summary
    assert found.leaves
    assert source_hash(found) == hashlib.sha256().hexdigest(), "dpeer's own code is no plug-in"
    assert {*found.uses, *found.defaults} <= {*Hyperparameters.model_fields}
    assert found().gradients(Hyperparameters()) > 0
    assert make_options(found, {}) == found.Options()


@pytest.mark.parametrize("case", CASES)
def test_peers_start_alike_train_and_mix_what_they_share_alone(case: str, peers: Peers) -> None:
    learners = peers(case)
    one, shares = learners[0], facts_of(type(learners[0].algorithm)).shares
    assert len({ours.about.digest for ours in learners}) == 1
    assert all(torch.equal(ours.body, one.body) for ours in learners)
    assert all(ours.about.manifest == one.about.manifest for ours in learners)
    assert one.about.shares == (shares != "nothing")
    for ours in learners:
        loss = ours.train(0)
        assert loss is not None
        assert math.isfinite(loss)
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
            assert ours.check(other, payload) is None
            assert ours.check(other, [b"x"]) == "wrong-size"
        assert ours.mix_sound(received, lambda ranks: dict.fromkeys(range(SIZE), 1 / SIZE)) == {}
        assert (
            shares == "model"
            or torch.equal(ours.trainer.head.data, head)
            or type(ours.algorithm).mixed is not (Algorithm.mixed)
        )
        assert ours.finite
    if case not in ("dis-pfl", "dis-pfl adamw") and "compress" not in case:
        assert all(torch.equal(ours.body, one.body) for ours in learners), "equal weights on a full graph"


@pytest.mark.parametrize("case", CASES)
def test_evaluating_and_writing_change_nothing(case: str, peers: Peers, tmp_path: Path) -> None:
    ours = peers(case, "best")[0]
    ours.train(0)
    before = ours.trainer.model.data.clone(), ours.trainer.shared.data.clone()
    assert ours.evaluate() == ours.evaluate()
    ours.write_model(tmp_path / "model.safetensors")
    assert torch.equal(ours.trainer.model.data, before[0])
    assert torch.equal(ours.trainer.shared.data, before[1])


@pytest.mark.parametrize("case", ["dfedavgm", "dis-pfl", "fedbabu", "fedrod personal=hypernetwork"])
def test_an_interrupted_end_has_changed_nothing(case: str, peers: Peers) -> None:
    ours = peers(case)[0]
    ours.train(0)
    ours.release(0)
    ours.mix({}, {0: 1.0})
    before, found = ours.trainer.model.data.clone(), ours.evaluate()
    hook = ours.trainer.module.register_forward_hook(lambda *_: ours.interrupt())
    with pytest.raises(Interrupted):
        ours.fine_tune(0)
    hook.remove()
    assert torch.equal(ours.trainer.model.data, before)
    assert (ours.evaluate(), ours.figures.kept_point) == (found, "mixed")


@pytest.mark.parametrize("case", every(2, CASES))
def test_two_rounds_and_two_more_are_four(case: str, peers: Peers, tmp_path: Path) -> None:
    whole, first, resumed = (peers(case, "best") for _ in range(3))
    gossip(whole, 4, evaluate=True)
    gossip(first, 2, evaluate=True)
    for fresh, folder in zip(resumed, saved(first, tmp_path), strict=True):
        fresh.load(folder)
    for a, b in zip(first, resumed, strict=True):
        assert_same(a, b, tmp_path)
    gossip(resumed, 2, start=2, evaluate=True)
    for a, b in zip(whole, resumed, strict=True):
        assert_same(a, b, tmp_path)


def test_a_model_that_draws_and_counts_is_resumed_too(tmp_path: Path) -> None:
    normed: dict[str, Any] = {"model": NormedNet, "head": lambda: ("norm", "fc")}
    whole, first, resumed = (learners_of("dfedsmdc", task=normed) for _ in range(3))
    gossip(whole, 4, evaluate=True)
    gossip(first, 2, evaluate=True)
    for fresh, folder in zip(resumed, saved(first, tmp_path), strict=True):
        fresh.load(folder)
    gossip(resumed, 2, start=2, evaluate=True)
    for a, b in zip(whole, resumed, strict=True):
        assert_same(a, b, tmp_path)


@pytest.mark.parametrize("case", every(2, [*CASES][1:]))
def test_a_finished_run_is_as_it_was_and_can_be_continued(case: str, peers: Peers, tmp_path: Path) -> None:
    """A neighbor hears nothing of an end: a run that goes on after it is one without it, to the bit."""
    whole, first, resumed = (peers(case) for _ in range(3))
    gossip(whole, 4)
    gossip(first, 2)
    for ours in first:
        ours.fine_tune(1)
    folders = saved(first, tmp_path)
    for fresh, folder in zip(resumed, folders, strict=True):
        fresh.load(folder)
    for folder, again in zip(folders, saved(resumed, tmp_path / "again"), strict=True):
        for file in folder.iterdir():
            assert file.read_bytes() == (again / file.name).read_bytes()
    for a, b in zip(first, resumed, strict=True):
        assert_same(a, b, tmp_path)
        assert a.figures.kept_point == b.figures.kept_point == "finished"
        assert a.rows()[0] == b.rows()[0]
    gossip(resumed, 2, start=2)
    for a, b in zip(whole, resumed, strict=True):
        assert_same(a, b, tmp_path)
        for ours in (a, b):
            ours.fine_tune(3)
        assert_same(a, b, tmp_path)


@pytest.mark.parametrize("case", ["ditto", "dis-pfl", "fedrod personal=hypernetwork"])
def test_the_best_model_is_resumed_too(case: str, peers: Peers, tmp_path: Path) -> None:
    """Learning rates that explode, by steps that do not, make an early round the best."""
    first, resumed = (peers(case, "best", lr_decay=200.0, grad_clip=1.0) for _ in range(2))
    gossip(first, 3, evaluate=True)
    assert all(ours.figures.best_round in (0, 1) for ours in first)
    for fresh, folder in zip(resumed, saved(first, tmp_path), strict=True):
        fresh.load(folder)
    for a, b in zip(first, resumed, strict=True):
        assert_same(a, b, tmp_path)
        last = load_file(tmp_path / "one.safetensors")
        assert any(not torch.equal(last[name], value) for name, value in a.trainer.module.state_dict().items())
    gossip(first, 1, start=3, evaluate=True)
    gossip(resumed, 1, start=3, evaluate=True)
    for a, b in zip(first, resumed, strict=True):
        assert b.figures.best_round in (0, 1)
        assert_same(a, b, tmp_path)


def test_what_is_kept_is_of_use(peers: Peers, tmp_path: Path) -> None:
    """A learner that forgot what an algorithm keeps beside body and head would go on differently."""
    for case in ("ditto", "fedrod", "dis-pfl"):
        learners, forgetful = peers(case), peers(case)
        gossip(learners, 2)
        for ours, other in zip(learners, forgetful, strict=True):
            other.trainer.model.data.copy_(ours.trainer.model.data)
            assert ours.algorithm.state or ours.gossip.state
        gossip(learners, 1, start=2)
        gossip(forgetful, 1, start=2)
        assert learners[0].evaluate() != forgetful[0].evaluate()


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


def refused(learner: TorchLearner, folder: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        learner.load(folder)
    assert caught.value.exit_code == 2


KEPT = {
    "ditto": "last/rest/algorithm/personal",
    "fedrod": "last/rest/algorithm/personal",
    "fedadamw": "last/rest/algorithm/covered",
    "fedadamw aggregate=full": "last/rest/algorithm/at_home",
    "dis-pfl": "last/rest/algorithm/mask",
}


@pytest.mark.parametrize("case", KEPT)
def test_what_an_algorithm_keeps_is_checked(case: str, peers: Peers, tmp_path: Path) -> None:
    learners = peers(case)
    gossip(learners, 1)
    folder = saved(learners, tmp_path)[0]
    file = folder / "learner.safetensors"
    whole, name = load_file(file), KEPT[case]
    save_file(whole | {name: whole[name][:-1].clone()}, file)  # of a smaller model
    refused(peers(case)[0], folder)
    save_file({key: value for key, value in whole.items() if key != name}, file)
    refused(peers(case)[0], folder)
    save_file(whole, file)
    peers(case)[0].load(folder)


def test_a_peers_own_setting_is_no_part_of_the_run(peers: Peers, tmp_path: Path) -> None:
    folder = saved(peers("fedrep"), tmp_path)[0]
    peers("fedrep", head_epochs=7)[0].load(folder)
