import hashlib
import json
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from dpeer.exceptions import CheckpointError, Interrupted, TaskError, UnknownName
from dpeer.peer.learner import Learner
from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner

Make = Callable[..., Task]
H = Hyperparameters(body_epochs=2, batch_size=16)


@pytest.fixture
def make(make_task: Make) -> Callable[..., TorchLearner]:
    def learner(rank: int = 0, algorithm: str = "dfedmdc", **changes: Any) -> TorchLearner:
        keep = changes.pop("keep", "last")
        return build_learner(make_task(rank, **changes), algorithm, H, rank=rank, seed=0, keep=keep)

    return learner


def everything(learner: TorchLearner) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in learner.trainer.module.parameters()])


def payload_of(values: Any) -> list[bytes]:
    return [np.asarray(values, dtype="<f4").tobytes()]


# What travels.


def test_the_learner_is_what_the_round_loop_expects(make: Callable[..., TorchLearner]) -> None:
    learner: Learner = make()
    assert all(hasattr(learner, name) for name in vars(Learner) if not name.startswith("_"))


def test_unknown_algorithm_names_the_nearest(make: Callable[..., TorchLearner]) -> None:
    with pytest.raises(UnknownName, match="unknown algorithm 'dfedmcd': did you mean 'dfedmdc'"):
        make(algorithm="dfedmcd")


def test_all_peers_start_alike(make: Callable[..., TorchLearner]) -> None:
    a, b = make(0), make(1)
    assert a.digest == b.digest == hashlib.sha256(a.body.numpy().tobytes()).hexdigest()
    assert a.manifest == b.manifest == json.loads(json.dumps(a.manifest))
    assert a.manifest == {
        "dtype": "float32",
        "count": 56,
        "parameters": [
            {"name": "body.0.weight", "shape": [8, 6], "offset": 0},
            {"name": "body.0.bias", "shape": [8], "offset": 48},
        ],
    }
    a.train(0)
    assert a.digest == b.digest


def test_local_shares_nothing(make: Callable[..., TorchLearner]) -> None:
    learner = make(algorithm="local")
    assert not learner.shares
    assert learner.payload_bytes == 0
    assert learner.manifest["parameters"] == []
    assert learner.digest == hashlib.sha256(b"").hexdigest()
    assert math.isfinite(learner.train(0) or math.nan)
    assert learner.release(0) is None
    assert learner.check(1, [b"abcd"]) == "wrong-size"
    before = everything(learner)
    learner.mix({}, {0: 1.0})
    assert torch.equal(everything(learner), before)


def test_nothing_of_the_head_is_released(make: Callable[..., TorchLearner]) -> None:
    learner = make(algorithm="dfedsmdc")
    for number in range(3):
        learner.train(number)
        sent = set(np.frombuffer((learner.release(number) or [])[0], "<f4").tolist())
        assert not sent & set(learner.trainer.head.data.tolist())
        learner.mix({}, {0: 1.0})


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (payload_of(np.ones(56)), None),
        (payload_of(np.ones(24)) + payload_of(np.ones(32)), None),
        (payload_of(np.full(56, 3e38)), None),
        ([], "wrong-size"),
        ([b""], "wrong-size"),
        (payload_of(np.ones(55)), "wrong-size"),
        (payload_of(np.ones(57)), "wrong-size"),
        ([b"x" * 223], "wrong-size"),
        ([b"x" * 2, b"x" * 222], "wrong-size"),
        ([memoryview(bytes(448))[::2]], "wrong-size"),
        (["text"], "wrong-size"),
        ([None], "wrong-size"),
        (payload_of([*np.ones(55), np.nan]), "not-finite"),
        (payload_of([np.inf, *np.ones(55)]), "not-finite"),
        (payload_of([np.inf, -np.inf, *np.ones(54)]), "not-finite"),
    ],
)
def test_check(make: Callable[..., TorchLearner], payload: Any, reason: str | None) -> None:
    assert make().check(1, payload) == reason


def test_mix_sums_in_rank_order_with_the_own_released_body(make: Callable[..., TorchLearner]) -> None:
    rng = np.random.default_rng(0)
    others = {rank: rng.normal(size=56).astype(np.float32) for rank in (3, 0, 7)}
    row = {0: 0.1, 2: 0.3, 3: 0.25, 7: 0.35}
    learner = make(2)
    learner.train(0)
    (own,) = learner.release(0) or []
    learner.trainer.body.data.fill_(99.0)  # only what was released counts
    received = {rank: [memoryview(bytearray(values.tobytes()))] for rank, values in others.items()}
    learner.mix(received, row)

    expected = torch.zeros(56)
    for rank in sorted(row):
        z = np.frombuffer(own, "<f4") if rank == 2 else others[rank]
        expected.add_(torch.tensor(z), alpha=row[rank])
    assert torch.equal(learner.body, expected)
    exact = sum(row[r] * (np.frombuffer(own, "<f4") if r == 2 else others[r]).astype(np.float64) for r in row)
    np.testing.assert_allclose(learner.body.numpy(), exact, rtol=0, atol=1e-6)


def test_mix_gives_the_same_bits_however_a_payload_is_cut(make: Callable[..., TorchLearner]) -> None:
    values = np.random.default_rng(1).normal(size=56).astype(np.float32).tobytes()
    unaligned = memoryview(b"." + values)[1:]
    results = []
    for payload in ([values], [unaligned], [values[:12], values[12:96], b"", values[96:]]):
        learner = make(0)
        learner.release(0)
        learner.mix({1: payload}, {0: 1 / 3, 1: 2 / 3})
        results.append(learner.body)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_mix_leaves_the_head_alone_and_refuses_other_ranks(make: Callable[..., TorchLearner]) -> None:
    learner = make(0)
    head = learner.trainer.head.data.clone()
    learner.release(0)
    learner.mix({1: payload_of(np.ones(56))}, {0: 0.5, 1: 0.5})
    assert torch.equal(learner.trainer.head.data, head)
    with pytest.raises(ValueError, match="weights are for ranks"):
        learner.mix({1: payload_of(np.ones(56))}, {0: 0.5, 2: 0.5})
    with pytest.raises(ValueError, match="what can be mixed"):
        learner.mix({1: [b""]}, {0: 0.5, 1: 0.5})


# Training.


def test_diverging_is_told_by_the_loss(make_task: Make) -> None:
    wild = Hyperparameters(body_lr=1e30, head_lr=1e30, batch_size=16, grad_clip=None)
    learner = build_learner(make_task(), "dfedmdc", wild, rank=0, seed=0)
    losses = [learner.train(number) for number in range(2)]
    assert isinstance(losses[-1], float)
    assert not math.isfinite(losses[-1])
    assert learner.check(1, learner.release(1) or []) == "not-finite"


def test_training_nothing_has_no_loss(make_task: Make) -> None:
    idle = Hyperparameters().model_copy(update={"body_epochs": 0, "head_epochs": 0})
    assert build_learner(make_task(), "dfedmdc", idle, rank=0, seed=0).train(0) is None


def test_sharing_everything_with_an_empty_head(make: Callable[..., TorchLearner]) -> None:
    learner = make(head=())
    assert (learner.body_parameters, learner.head_parameters) == (83, 0)
    assert learner.train(0) is not None


def test_interrupt_stops_between_two_minibatches(make_task: Make) -> None:
    calls = 0

    def loss(outputs: Any, targets: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 5:
            learner.interrupt()
        return nn.functional.cross_entropy(outputs, targets)

    learner = build_learner(make_task(loss=loss), "dfedsmdc", H, rank=0, seed=0)
    with pytest.raises(Interrupted):
        learner.train(0)
    # 4 head steps, then one SAM step of two gradients: the step under way is finished, none is begun.
    assert calls == 6
    assert learner.trainer.body.data.isfinite().all()
    with pytest.raises(Interrupted):
        learner.train(0)


# Files.


class Counting(nn.Module):
    """A head with a buffer that training changes."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 4)
        self.norm = nn.BatchNorm1d(4)
        self.fc = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.norm(self.body(x)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [
        ("dfedsmdc", "plain"),
        ("dfedsmdc", "dropout"),
        ("dfedsmdc", "batchnorm"),
        ("dfedmdc", "dropout"),
        ("dfedavgm", "plain"),
        ("dfedavgm", "dropout"),
        ("local", "batchnorm"),
    ],
)
def test_a_resumed_run_continues_with_the_same_bits(
    make_task: Make, gossip: Callable[..., None], tmp_path: Path, algorithm: str, kind: str
) -> None:
    def peers() -> list[TorchLearner]:
        found = []
        for rank in range(3):
            task = make_task(rank, dropout=0.5 * (kind == "dropout"))
            torch.manual_seed(0)
            if kind == "batchnorm":
                task = Task(Counting(), ("norm", "fc"), task.train, task.test, validation=task.test)
            task.validation = task.test
            found.append(build_learner(task, algorithm, H, rank=rank, seed=0, keep="best"))
        return found

    whole, first, resumed = peers(), peers(), peers()
    gossip(whole, 5, evaluate=True)
    gossip(first, 2, evaluate=True)
    for learner, fresh in zip(first, resumed, strict=True):
        folder = tmp_path / f"{learner.trainer.rank}"
        folder.mkdir()
        learner.save(folder)
        fresh.load(folder)
    gossip(resumed, 3, start=2, evaluate=True)
    for a, b in zip(whole, resumed, strict=True):
        assert torch.equal(everything(a), everything(b))
        assert a.evaluate() == b.evaluate()
        assert a.best_round == b.best_round is not None
        a.write_model(tmp_path / "a")
        b.write_model(tmp_path / "b")
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_load_of_what_is_missing_damaged_or_of_another_run(
    make: Callable[..., TorchLearner], make_task: Make, tmp_path: Path
) -> None:
    make().save(tmp_path)

    def refused(message: str, learner: TorchLearner | None = None) -> None:
        with pytest.raises(CheckpointError, match=message) as caught:
            (learner or make()).load(tmp_path)
        assert "\n" not in str(caught.value)

    make().load(tmp_path)
    refused('its algorithm is "dfedmdc", this run\'s is "dfedsmdc"', make(algorithm="dfedsmdc"))
    refused("its rank is 0, this run's is 1", make(1))
    refused("its body is one of 56 parameters in 2 tensors, this run's is one of 83", make(head=()))
    tensors, rest = tmp_path / "learner.safetensors", tmp_path / "learner.json"
    whole = tensors.read_bytes()
    tensors.write_bytes(whole[:-10])
    refused("cannot be read: SafetensorError")
    tensors.write_bytes(b"")
    refused("cannot be read")
    tensors.write_bytes(whole)
    text = rest.read_text()
    rest.write_text(text[: len(text) // 2])
    refused("cannot be read: JSONDecodeError")
    rest.write_text("[]")
    refused("cannot be read")
    rest.write_text(text.replace('"last"', '"lost"'))
    refused("cannot be read: KeyError")
    rest.write_text(text.replace('"round": 0', '"round": null'))
    refused("damaged")
    rest.unlink()
    refused("cannot be read: FileNotFoundError")


def test_write_model_loads_into_the_users_own_model(
    make: Callable[..., TorchLearner], make_task: Make, tmp_path: Path
) -> None:
    learner = make()
    learner.train(0)
    learner.write_model(tmp_path / "model.safetensors")
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]
    model = make_task().model
    model.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(torch.cat([p.detach().reshape(-1) for p in model.parameters()]), everything(learner))


def test_write_model_with_tied_head(make_task: Make, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(6, 3), nn.Linear(3, 3), nn.Linear(3, 3))
    model[2].weight = model[1].weight
    learner = build_learner(make_task(model=model, head=("1", "2")), "dfedmdc", H, rank=0, seed=0)
    learner.train(0)
    assert model[2].weight is model[1].weight
    learner.write_model(tmp_path / "m")
    saved = load_file(tmp_path / "m")
    assert torch.equal(saved["1.weight"], saved["2.weight"])


def test_keep_best_needs_validation_data(make: Callable[..., TorchLearner]) -> None:
    with pytest.raises(TaskError, match="--keep best needs validation data"):
        make(keep="best")


def test_keep_best_writes_the_best_model(make_task: Make, tmp_path: Path) -> None:
    task = make_task()
    task.validation = task.test
    learner = build_learner(task, "dfedmdc", H, rank=0, seed=0, keep="best")
    losses, bodies = [], []
    for number in range(6):
        learner.train(number)
        learner.release(number)
        losses.append(learner.evaluate().test_loss)
        bodies.append(everything(learner))
        # Later rounds are made worse on purpose.
        learner.mix({}, {0: 1.0 if number < 3 else 5.0})
        losses.append(learner.evaluate().test_loss)
        bodies.append(everything(learner))
    best = int(np.argmin(losses))
    assert (learner.best_round, learner.kept_point) == (best // 2, ("trained", "mixed")[best % 2])
    assert learner.best_round != 5
    learner.write_model(tmp_path / "m")
    saved = torch.cat([t.reshape(-1) for _, t in sorted(load_file(tmp_path / "m").items())])
    order = sorted(name for name, _ in task.model.named_parameters())
    shapes = {name: p.numel() for name, p in task.model.named_parameters()}
    pieces = dict(zip(shapes, bodies[best].split(list(shapes.values())), strict=True))
    assert torch.equal(saved, torch.cat([pieces[name] for name in order]))
    assert torch.equal(everything(learner), bodies[-1])


def test_a_round_that_is_sat_out_can_be_the_one_whose_model_is_kept(make_task: Make) -> None:
    """Where not every round is evaluated, the model of an earlier one may first be measured then."""
    task = make_task()
    task.validation = task.test
    learner = build_learner(task, "dfedmdc", H, rank=0, seed=0, keep="best")
    learner.train(0)
    learner.release(0)
    learner.mix({}, {0: 1.0})
    learner.sit_out(1)
    learner.evaluate()
    assert learner.best_round == 1


def test_what_is_left_for_the_end_tells_its_loss(make: Callable[..., TorchLearner]) -> None:
    losses = {}
    for algorithm in ("fedbabu", "dfedmdc"):
        learner = make(algorithm=algorithm)
        losses[algorithm] = learner.train(0), learner.finish(0)
    assert losses["dfedmdc"][1] is None
    body, whole = losses["fedbabu"]
    assert body is not None
    assert whole is not None
    assert whole < body, "fine-tuning goes on from there, with the head too"


def test_a_model_fine_tuned_for_an_earlier_end_predicts_no_more(make: Callable[..., TorchLearner]) -> None:
    learner = make(algorithm="fedbabu")
    learner.train(0)
    shared = learner.evaluate()
    learner.finish(0)
    assert learner.evaluate() != shared
    learner.sit_out(1)
    assert learner.evaluate() == shared


# Side by side.


def test_learners_in_threads_give_the_same_bits(make: Callable[..., TorchLearner], gossip: Callable[..., None]) -> None:
    alone, together = [make(rank) for rank in range(4)], [make(rank) for rank in range(4)]
    gossip(alone, 3)
    with ThreadPoolExecutor(4) as pool:
        for number in range(3):
            list(pool.map(lambda learner, n=number: learner.train(n), together))
            sent = list(pool.map(lambda learner, n=number: learner.release(n), together))
            for i, learner in enumerate(together):
                near = [(i - 1) % 4, (i + 1) % 4]
                learner.mix({j: sent[j] for j in near}, dict.fromkeys([*near, i], 1 / 3))
    for a, b in zip(alone, together, strict=True):
        assert torch.equal(everything(a), everything(b))
