"""`Algorithm.mixed`: its calls, its effect on private releases, and its repetition on resume."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dpeer.exceptions import AlgorithmError, ConfigurationError
from dpeer.privacy import ClientSession, Guarantee, Ledger
from dpeer.training import Algorithm, Hyperparameters, TorchLearner, Trainer, build_learner
from dpeer.training.mixing import guard, private
from tests.error_texts import refused
from tests.training.dp_learners import sampled
from tests.training.small import small_task

H = Hyperparameters(body_epochs=1, head_epochs=1, batch_size=16)
CLIP, SIZE = 0.05, 3


class Adjusting(Algorithm):
    """Moves what mixing gave by a common vector; trains little."""

    shares = "body"

    def start(self, peer: Trainer) -> None:
        self.seen: list[Tensor] = []

    def train(self, peer: Trainer) -> None:
        peer.fit(peer.body, epochs=1, lr=0.001)

    def mixed(self, peer: Trainer) -> None:
        self.seen.append(peer.body.data.clone())
        peer.body.data.add_(1.0 + peer.number)


class Released(Adjusting):
    """The same, and says that it looks at nothing but what was released."""

    mixed_uses_data = False


def test_it_is_called_after_mixing_with_what_mixing_gave() -> None:
    ours = [build_learner(small_task(rank), Adjusting, H, rank=rank, seed=0) for rank in range(SIZE)]
    for number in range(2):
        for learner in ours:
            learner.train(number)
        bodies = torch.stack([learner.body for learner in ours])
        sent = [learner.release(number) or [] for learner in ours]
        row = dict.fromkeys(range(SIZE), 1 / SIZE)
        for rank, learner in enumerate(ours):
            received = {j: sent[j] for j in row if j != rank}
            if number:
                assert learner.mix_sound(received, lambda ranks: dict.fromkeys([*ranks, rank], 1 / SIZE)) == {}  # noqa: B023
            else:
                learner.mix(received, row)
            torch.testing.assert_close(learner.algorithm.seen[number], bodies.mean(dim=0), rtol=0, atol=1e-6)
            torch.testing.assert_close(learner.body, bodies.mean(dim=0) + 1 + number, rtol=0, atol=1e-6)
    assert [len(learner.algorithm.seen) for learner in ours] == [2] * SIZE


def test_it_is_not_called_where_nothing_was_mixed() -> None:
    class Alone(Adjusting):
        shares = "nothing"

    sits, alone = (build_learner(small_task(), algorithm, H, rank=0, seed=0) for algorithm in (Adjusting, Alone))
    sits.sit_out(0)
    alone.train(0)
    alone.release(0)
    assert sits.algorithm.seen == alone.algorithm.seen == []


def protected(folder: Path, algorithm: type[Algorithm], *, resume: bool = False) -> TorchLearner:
    session = ClientSession(Guarantee(1e-7, CLIP, 1e-5), Ledger(folder, {}, resume=resume), None)
    return build_learner(small_task(), algorithm, H, rank=0, seed=0, session=session)


def values(payload: Any) -> np.ndarray:
    return np.frombuffer(payload[0], "<f4").astype(np.float64)


def body(learner: TorchLearner) -> np.ndarray:
    return learner.body.double().numpy()


@pytest.mark.parametrize("resumed", [False, True])
def test_what_it_made_of_releases_is_no_part_of_the_next_update(resumed: bool, tmp_path: Path) -> None:
    ours = protected(tmp_path / "ledger", Released)
    ours.train(0)
    first = values(ours.release(0))
    ours.mix({}, {0: 1.0})
    np.testing.assert_allclose(body(ours), first + 1, rtol=0, atol=1e-6)
    if resumed:
        (tmp_path / "checkpoint").mkdir()
        ours.save(tmp_path / "checkpoint")
        ours = protected(tmp_path / "ledger", Released, resume=True)
        ours.load(tmp_path / "checkpoint")
        np.testing.assert_allclose(body(ours), first + 1, rtol=0, atol=1e-6)
    base = first + 1
    ours.train(1)
    update = body(ours) - base
    sent = values(ours.release(1))
    assert np.linalg.norm(sent - base) <= CLIP * (1 + 1e-4), "nobody learns more of a peer than the clip norm allows"
    expected = update * min(1.0, CLIP / np.linalg.norm(update))
    np.testing.assert_allclose(sent - base, expected, rtol=0, atol=1e-6)


def test_with_privacy_it_must_use_releases_alone(tmp_path: Path) -> None:
    with refused(ConfigurationError, "--privacy client cannot be used with Adjusting, whose `mixed` may look at data"):
        protected(tmp_path / "client", Adjusting)
    with refused(ConfigurationError, "--privacy sample cannot be used with Adjusting, whose `mixed` may look at data"):
        sampled(small_task(), tmp_path / "sample", Adjusting)
    sampled(small_task(), tmp_path / "released", Released)


# Facts: what a class says of itself is read once, and what it does not say is taken as the safer case.


H_FACTS = Hyperparameters(body_epochs=1, batch_size=16)
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


def protected_facts(algorithm: type[Algorithm], folder: Path) -> TorchLearner:
    resume = (folder / "ledger.jsonl").exists()
    session = ClientSession(Guarantee(1e-3, 1.0, 1e-5), Ledger(folder, {}, resume=resume), None)
    return build_learner(small_task(), algorithm, H_FACTS, rank=0, seed=0, session=session)


def largest_sent(learner: TorchLearner, number: int = 0) -> float:
    """The largest value that leaves in a round, which then is mixed."""
    learner.train(number)
    sent = learner.release(number)
    assert sent is not None
    learner.mix({}, {0: 1.0})
    return float(np.abs(np.frombuffer(sent[0], "<f4")).max())


@pytest.mark.parametrize("algorithm", [MixedIn, Helped, Replaced])
def test_a_promise_holds_for_the_class_that_makes_it_alone(algorithm: type[Algorithm], tmp_path: Path) -> None:
    with refused(ConfigurationError, "whose `mixed` may look at data"):
        protected_facts(algorithm, tmp_path)
    protected_facts(Public, tmp_path)


def test_what_is_clipped_is_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = protected_facts(Plain, tmp_path)
    real, shared = private.privatize, []

    def privatize(base: Any, body: Any, *rest: Any, **more: Any) -> Any:
        shared.append(np.shares_memory(body, one.trainer.body.data.numpy()))
        return real(base, body, *rest, **more)

    monkeypatch.setattr(private, "privatize", privatize)
    largest_sent(one)
    assert shared == [False]


def test_the_base_is_the_mix_whoever_writes_to_the_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, real = protected_facts(Plain, tmp_path), guard.weighted_sum

    def mix(*arguments: Any) -> bool:
        found = real(*arguments)
        one.trainer.body.data.add_(SECRET)  # as a thread would that train has left behind
        return found

    monkeypatch.setattr(guard, "weighted_sum", mix)
    largest_sent(one)
    assert one.gossip.state["base"].abs().max() < 3


class Extending(Plain):
    def extras(self, split: Any) -> dict[str, int]:
        split.body[0][1].data.fill_(SECRET)
        return {}


class Thawing(Plain):
    def start(self, peer: Any) -> None:
        peer.module.fixed.data.fill_(len(peer.data))


@pytest.mark.parametrize("algorithm", [Extending, Thawing])
def test_what_peers_compare_is_made_without_data(algorithm: type[Algorithm]) -> None:
    task = small_task()
    task.model.fixed = nn.Parameter(torch.ones(2), requires_grad=False)
    with pytest.raises(AlgorithmError):
        build_learner(task, algorithm, H_FACTS, rank=0, seed=0)
