"""The contract of every algorithm: facts, a common start, releases, mixing, and resuming to the bit."""

import hashlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from dpeer.exceptions import CheckpointError
from dpeer.training import (
    ALGORITHMS,
    Algorithm,
    Hyperparameters,
    Task,
    TorchLearner,
    build_learner,
    find_algorithm,
    make_options,
    options_among,
    source_hash,
)
from dpeer.training.algorithms.facts import facts_of
from dpeer.training.models.scaling import standardize
from tests.thinning import every

pytestmark = pytest.mark.slow

Make = Callable[..., Task]
Gossip = Callable[..., None]
Peers = Callable[..., list[TorchLearner]]
SIZE = 3

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in ALGORITHMS},
    "dfedavgm quantize=8": ("dfedavgm", {"quantize": 8}),
    "ditto quantize=4": ("ditto", {"quantize": 4}),
    "dfedsmdc sam=both": ("dfedsmdc", {"sam": "both"}),
    "dfedmdc local_steps=7": ("dfedmdc", {"local_steps": 7}),
    "dfedsam grad_clip=0.5": ("dfedsam", {"grad_clip": 0.5}),
    "fedrod grad_clip=0.5": ("fedrod", {"grad_clip": 0.5}),
    "fedrod personal=hypernetwork": ("fedrod", {"options": {"personal": "hypernetwork"}}),
    "fedadamw aggregate=full": ("fedadamw", {"options": {"aggregate": "full"}, "body_lr": 0.01}),
    **{
        f"{name} adamw": (
            name,
            {"optimizer": "adamw", "warmup": 3, "body_lr": 1e-4, "head_lr": 1e-4, "weight_decay": 0.1},
        )
        for name in ("dfedsmdc", "dis-pfl", "fedrod", "ditto")
    },
}


def made(task: Task, algorithm: str, settings: dict[str, Any], **more: Any) -> TorchLearner:
    """A learner whose hyperparameters and options are among the settings; a decay may be one that explodes."""
    h = Hyperparameters().model_copy(update={n: v for n, v in settings.items() if n in Hyperparameters.model_fields})
    options = {**options_among(find_algorithm(algorithm), settings), **settings.get("options", {})}
    return build_learner(task, algorithm, h, options=options, **more)


@pytest.fixture
def peers(make_task: Make) -> Peers:
    def make(case: str, keep: Any = "last", **changes: Any) -> list[TorchLearner]:
        algorithm, settings = CASES[case]
        expected = {"body_epochs": 2, "batch_size": 16, "lr_decay": 0.9, "rounds": 4} | settings | changes
        tasks = [make_task(rank, samples=30) for rank in range(SIZE)]
        for task in tasks:
            task.validation = task.test
        return [made(task, algorithm, expected, rank=rank, seed=0, keep=keep) for rank, task in enumerate(tasks)]

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
    assert one.best_round == other.best_round
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
    assert not facts.draws, "what dpeer's own algorithms draw comes from named streams"
    assert source_hash(found) == hashlib.sha256().hexdigest(), "dpeer's own code is no plug-in"
    assert {*found.uses, *found.defaults} <= {*Hyperparameters.model_fields}
    assert found().gradients(Hyperparameters()) > 0
    assert make_options(found, {}) == found.Options()


@pytest.mark.parametrize("case", CASES)
def test_peers_start_alike_train_and_mix_what_they_share_alone(case: str, peers: Peers, gossip: Gossip) -> None:
    learners = peers(case)
    one, shares = learners[0], facts_of(type(learners[0].algorithm)).shares
    assert len({ours.digest for ours in learners}) == 1
    assert all(torch.equal(ours.body, one.body) for ours in learners)
    assert all(ours.manifest == one.manifest for ours in learners)
    assert one.shares == (shares != "nothing")
    for ours in learners:
        loss = ours.train(0)
        assert loss is not None
        assert math.isfinite(loss)
    payloads = {rank: ours.release(0) for rank, ours in enumerate(learners)}
    if not one.shares:
        assert {*payloads.values()} == {None}
        assert one.payload_bytes == 0
        return
    for rank, ours in enumerate(learners):
        head = ours.trainer.head.data.clone()
        received = {other: payload for other, payload in payloads.items() if payload is not None and other != rank}
        assert len(received) == SIZE - 1
        for other, payload in received.items():
            assert all(memoryview(buffer).readonly for buffer in payload)
            assert sum(memoryview(buffer).nbytes for buffer in payload) <= ours.payload_bytes
            assert ours.check(other, payload) is None
            assert ours.check(other, [b"x"]) == "wrong-size"
        assert ours.mix_sound(received, lambda ranks: dict.fromkeys(range(SIZE), 1 / SIZE)) == {}
        assert (
            shares == "model"
            or torch.equal(ours.trainer.head.data, head)
            or type(ours.algorithm).mixed is not (Algorithm.mixed)
        )
        assert ours.finite
    if case not in ("dis-pfl", "dis-pfl adamw") and "quantize" not in case:
        assert all(torch.equal(ours.body, one.body) for ours in learners), "equal weights on a full graph"


@pytest.mark.parametrize("case", every(2, CASES))
def test_two_rounds_and_two_more_are_four(case: str, peers: Peers, gossip: Gossip, tmp_path: Path) -> None:
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
    for learners in (whole, resumed):
        for ours in learners:
            ours.finish(3)
    for a, b in zip(whole, resumed, strict=True):
        assert_same(a, b, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("case", every(2, CASES))
def test_a_finished_run_is_as_it_was_and_can_be_continued(
    case: str, peers: Peers, gossip: Gossip, tmp_path: Path
) -> None:
    whole, first, resumed = (peers(case) for _ in range(3))
    gossip(whole, 4)
    gossip(first, 2)
    for ours in first:
        ours.finish(1)
    folders = saved(first, tmp_path)
    for fresh, folder in zip(resumed, folders, strict=True):
        fresh.load(folder)
    for folder, again in zip(folders, saved(resumed, tmp_path / "again"), strict=True):
        for file in folder.iterdir():
            assert file.read_bytes() == (again / file.name).read_bytes()
    for a, b in zip(first, resumed, strict=True):
        assert_same(a, b, tmp_path)
    gossip(resumed, 2, start=2)
    for a, b in zip(whole, resumed, strict=True):
        assert_same(a, b, tmp_path)
        a.finish(3)
        b.finish(3)
        assert_same(a, b, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("case", every(2, CASES))
def test_the_best_model_is_resumed_too(case: str, peers: Peers, gossip: Gossip, tmp_path: Path) -> None:
    """Learning rates that explode, by steps that do not, make an early round the best."""
    first, resumed = (peers(case, "best", lr_decay=200.0, grad_clip=1.0) for _ in range(2))
    gossip(first, 3, evaluate=True)
    assert all(ours.best_round in (0, 1) for ours in first)
    for fresh, folder in zip(resumed, saved(first, tmp_path), strict=True):
        fresh.load(folder)
    for a, b in zip(first, resumed, strict=True):
        assert_same(a, b, tmp_path)
        last = load_file(tmp_path / "one.safetensors")
        assert any(not torch.equal(last[name], value) for name, value in a.trainer.module.state_dict().items())
    gossip(first, 1, start=3, evaluate=True)
    gossip(resumed, 1, start=3, evaluate=True)
    for a, b in zip(first, resumed, strict=True):
        assert b.best_round in (0, 1)
        assert_same(a, b, tmp_path)


def test_what_is_kept_is_of_use(peers: Peers, gossip: Gossip, tmp_path: Path) -> None:
    """A learner that forgot what an algorithm keeps beside body and head would go on differently."""
    for case in ("ditto", "fedrod", "dis-pfl", "dfedavgm quantize=8"):
        learners, forgetful = peers(case), peers(case)
        gossip(learners, 2)
        for ours, other in zip(learners, forgetful, strict=True):
            other.trainer.model.data.copy_(ours.trainer.model.data)
            assert ours.algorithm.state() or ours.gossip.state()
        gossip(learners, 1, start=2)
        gossip(forgetful, 1, start=2)
        assert learners[0].evaluate() != forgetful[0].evaluate()


def refused(learner: TorchLearner, folder: Path, message: str) -> None:
    with pytest.raises(CheckpointError, match=message) as caught:
        learner.load(folder)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("algorithm", every(3, ALGORITHMS))
def test_checkpoints_of_another_algorithm_are_refused(algorithm: str, peers: Peers, tmp_path: Path) -> None:
    folder = saved(peers(algorithm), tmp_path)[0]
    for other in ALGORITHMS:
        if other != algorithm:
            refused(peers(other)[0], folder, f'its algorithm is "{algorithm}", this run\'s is "{other}"')


def test_a_model_with_other_buffers_names_the_settings_that_make_them(make_task: Make, tmp_path: Path) -> None:
    tasks = [make_task(), make_task()]
    standardize(tasks[1].model, tasks[1].train.tensors[0])
    plain, scaled = (build_learner(task, "dfedmdc", rank=0, seed=0) for task in tasks)
    folders = saved([plain, scaled], tmp_path)
    for ours, folder, which in ((plain, folders[1], "it"), (scaled, folders[0], "this one")):
        expected = f"{which} alone has the buffer 'input_mean' \\(--standardize, .*use what the run began with"
        refused(ours, folder, expected)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_damaged_checkpoints_are_refused(algorithm: str, peers: Peers, gossip: Gossip, tmp_path: Path) -> None:
    learners = peers(algorithm)
    gossip(learners, 1)
    folder = saved(learners, tmp_path)[0]
    tensors, rest = folder / "learner.safetensors", folder / "learner.json"
    whole = tensors.read_bytes()
    for damaged in (whole[:-4], whole[: len(whole) // 2], whole[:7], b""):
        tensors.write_bytes(damaged)
        refused(peers(algorithm)[0], folder, "cannot be read")
    tensors.write_bytes(whole)
    text = rest.read_text()
    rest.write_text(text[:-20])
    refused(peers(algorithm)[0], folder, "cannot be read")
    rest.write_text(text)
    peers(algorithm)[0].load(folder)


KEPT = {
    "ditto": "last/rest/algorithm/personal",
    "fedrod": "last/rest/algorithm/personal",
    "fedadamw": "last/rest/algorithm/covered",
    "fedadamw aggregate=full": "last/rest/algorithm/at_home",
    "fedbabu": "last/rest/algorithm/tuned",
    "dis-pfl": "last/rest/codec/held",
    "dfedavgm quantize=8": "last/rest/codec/1/0",
}


@pytest.mark.parametrize("case", KEPT)
def test_what_an_algorithm_keeps_is_checked(case: str, peers: Peers, gossip: Gossip, tmp_path: Path) -> None:
    learners = peers(case)
    gossip(learners, 1)
    learners[0].finish(0)
    folder = saved(learners, tmp_path)[0]
    file = folder / "learner.safetensors"
    whole, name = load_file(file), KEPT[case]
    save_file(whole | {name: whole[name][:-1].clone()}, file)  # of a smaller model
    refused(peers(case)[0], folder, "the checkpoint.*of another")
    if case not in ("fedbabu", "dfedavgm quantize=8"):  # there may be none
        save_file({key: value for key, value in whole.items() if key != name}, file)
        refused(peers(case)[0], folder, "the checkpoint.*of another")
    save_file(whole, file)
    peers(case)[0].load(folder)


def test_the_number_of_rounds_is_part_of_dis_pfl(peers: Peers, tmp_path: Path) -> None:
    folder = saved(peers("dis-pfl"), tmp_path)[0]
    refused(peers("dis-pfl", rounds=5)[0], folder, "its number of rounds, by which masks settle, is 4, this run's is 5")
    other = saved(peers("dfedavgm"), tmp_path / "other")[0]
    peers("dfedavgm", rounds=5)[0].load(other)


@pytest.mark.parametrize(
    ("case", "name", "was", "other"),
    [("dfedsmdc", "rho", "0.05", 0.5), ("dfedsmdc", "sam", '"body"', "both"), ("ditto", "ditto_lambda", "0.75", 1.0)],
)
def test_an_option_that_peers_share_is_part_of_the_run(
    case: str, name: str, was: str, other: Any, peers: Peers, tmp_path: Path
) -> None:
    folder = saved(peers(case), tmp_path)[0]
    refused(peers(case, **{name: other})[0], folder, f"its option {name} is {was}, this run's is ")


def test_a_peers_own_option_is_not(peers: Peers, tmp_path: Path) -> None:
    folder = saved(peers("fedbabu"), tmp_path)[0]
    peers("fedbabu", finetune_epochs=7)[0].load(folder)
