"""Facts: what a class says of itself is read once, and what it does not say is taken as the safer case."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dpeer.exceptions import AlgorithmError
from dpeer.privacy import ClientSession, Guarantee, Ledger
from dpeer.training import Algorithm, Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.mixing import guard, private

Make = Callable[..., Task]
H = Hyperparameters(body_epochs=1, batch_size=16)
SECRET = 12345.0


class Plain(Algorithm):
    shares = "body"

    def train(self, peer: Any) -> None:
        peer.fit(peer.body, epochs=1, lr=0.01)


class Public(Plain):
    """Halves what mixing gave, and says that this uses no data."""

    mixed_uses_data = False

    def mixed(self, peer: Any) -> None:
        self.change(peer)

    def change(self, peer: Any) -> None:
        peer.body.data.mul_(0.5)


class Tells:
    """A mixin that knows nothing of the promise."""

    def mixed(self, peer: Any) -> None:
        peer.body.data[0] = SECRET


class MixedIn(Tells, Public):
    pass


class Helped(Public):
    def change(self, peer: Any) -> None:
        peer.body.data[0] = SECRET


class Replaced(Public):
    pass


Replaced.mixed = lambda self, peer: peer.body.data[:1].fill_(SECRET)


def protected(make_task: Make, algorithm: type[Algorithm], folder: Path) -> TorchLearner:
    resume = (folder / "ledger.jsonl").exists()
    session = ClientSession(Guarantee(1e-3, 1.0, 1e-5), Ledger(folder, {}, resume=resume), None)
    return build_learner(make_task(), algorithm, H, rank=0, seed=0, session=session)


def largest_sent(learner: TorchLearner, number: int = 0) -> float:
    """The largest value that leaves in a round, which then is mixed."""
    learner.train(number)
    sent = learner.release(number)
    assert sent is not None
    learner.mix({}, {0: 1.0})
    return float(np.abs(np.frombuffer(sent[0], "<f4")).max())


@pytest.mark.parametrize("algorithm", [MixedIn, Helped, Replaced])
def test_a_promise_holds_for_the_class_that_makes_it_alone(
    algorithm: type[Algorithm], make_task: Make, tmp_path: Path
) -> None:
    one = protected(make_task, algorithm, tmp_path)
    assert largest_sent(one) < 3
    assert largest_sent(one, 1) < 3
    assert one.body.max() == SECRET, "mixed was called"


class Personal(Plain):
    """Begins each round with a body of its own, and puts it back when it is resumed."""

    def start(self, peer: Any) -> None:
        self.peer, self.own = peer, peer.body.data.clone()

    def train(self, peer: Any) -> None:
        peer.body.data.copy_(self.own)
        super().train(peer)
        peer.body.data[0] += 5000.0
        self.own = peer.body.data.clone()

    def state(self) -> Mapping[str, Tensor]:
        return {"own": self.own}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.own = state["own"]
        self.peer.body.data.copy_(self.own)


def test_what_restore_writes_to_the_body_is_no_base(make_task: Make, tmp_path: Path) -> None:
    first = protected(make_task, Personal, tmp_path / "ledger")
    assert largest_sent(first) < 3
    body = first.body
    (tmp_path / "saved").mkdir()
    first.save(tmp_path / "saved")
    second = protected(make_task, Personal, tmp_path / "ledger")
    second.load(tmp_path / "saved")
    assert torch.equal(second.body, body)
    assert largest_sent(second, 1) < 3


def test_what_is_clipped_is_a_copy(make_task: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = protected(make_task, Plain, tmp_path)
    real, shared = private.privatize, []

    def privatize(base: Any, body: Any, *rest: Any, **more: Any) -> Any:
        shared.append(np.shares_memory(body, one.trainer.body.data.numpy()))
        return real(base, body, *rest, **more)

    monkeypatch.setattr(private, "privatize", privatize)
    largest_sent(one)
    assert shared == [False]


def test_the_base_is_the_mix_whoever_writes_to_the_body(
    make_task: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, real = protected(make_task, Plain, tmp_path), guard.weighted_sum

    def mix(*arguments: Any) -> bool:
        found = real(*arguments)
        one.trainer.body.data.add_(SECRET)  # as a thread would that train has left behind
        return found

    monkeypatch.setattr(guard, "weighted_sum", mix)
    largest_sent(one)
    assert one.gossip.state()["base"].abs().max() < 3


class Extending(Plain):
    def extras(self, split: Any) -> dict[str, int]:
        split.body[0][1].data.fill_(SECRET)
        return {}


class Coding(Plain):
    def codec(self, peer: Any) -> None:
        peer.body.data.fill_(peer.num_samples)


class Thawing(Plain):
    def start(self, peer: Any) -> None:
        peer.module.fixed.data.fill_(peer.num_samples)


@pytest.mark.parametrize("algorithm", [Extending, Coding, Thawing])
def test_what_peers_compare_is_made_without_data(algorithm: type[Algorithm], make_task: Make) -> None:
    task = make_task()
    task.model.fixed = nn.Parameter(torch.ones(2), requires_grad=False)
    with pytest.raises(AlgorithmError):
        build_learner(task, algorithm, H, rank=0, seed=0)
