"""`Algorithm.mixed`: its calls, its effect on private releases, on resume, and what is believed of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dpeer.exceptions import AlgorithmError, ConfigurationError
from dpeer.training import Algorithm, Hyperparameters, TorchLearner, Trainer, build_learner
from dpeer.training.mixing import guard, private
from tests.error_texts import refused
from tests.training.dp_learners import client, sampled
from tests.training.small import BodyOnly, floats, mix, small_task

H = Hyperparameters(body_epochs=1, head_epochs=1, batch_size=16)
CLIP, SIZE, SECRET = 0.05, 3, 12345.0


class Adjusting(BodyOnly):
    """Moves what mixing gave by a common vector; trains little, and sends two values beside the body."""

    def start(self, peer: Trainer) -> None:
        self.seen: list[Tensor] = []

    def extras(self, split: Any) -> dict[str, int]:
        return {"beside": 2}

    def train(self, peer: Trainer) -> None:
        peer.fit(peer.body, epochs=1, lr=0.001)
        peer.extras["beside"].add_(0.04)

    def mixed(self, peer: Trainer) -> None:
        self.seen.append(peer.body.data.clone())
        self.change(peer)

    def change(self, peer: Trainer) -> None:
        peer.body.data.add_(1.0 + peer.number)


class Released(Adjusting):
    """The same, and says that it looks at nothing but what was released."""

    mixed_uses_data = False

    def mixed(self, peer: Trainer) -> None:
        self.change(peer)


def protected(folder: Path, algorithm: type[Algorithm], clip: float = CLIP) -> TorchLearner:
    session = client(folder, 1e-7, clip, resume=(folder / "ledger.jsonl").exists())
    return build_learner(small_task(), algorithm, H, rank=0, seed=0, session=session)


def shared(learner: TorchLearner) -> np.ndarray:
    return learner.trainer.shared.data.double().numpy().copy()


def test_it_is_called_after_mixing_with_what_mixing_gave() -> None:
    ours = [build_learner(small_task(rank), Adjusting, H, rank=rank, seed=0) for rank in range(SIZE)]
    for number in range(2):
        for learner in ours:
            learner.train(number)
        mean = torch.stack([learner.body for learner in ours]).mean(dim=0)
        sent = [learner.release(number) or [] for learner in ours]
        row = dict.fromkeys(range(SIZE), 1 / SIZE)
        for rank, learner in enumerate(ours):
            received = {j: sent[j] for j in row if j != rank}
            mix(learner, received, row)
            torch.testing.assert_close(learner.algorithm.seen[number], mean, rtol=0, atol=1e-6)
            torch.testing.assert_close(learner.body, mean + 1 + number, rtol=0, atol=1e-6)
    assert [len(learner.algorithm.seen) for learner in ours] == [2] * SIZE


@pytest.mark.parametrize("resumed", [False, True])
def test_what_it_made_of_releases_is_no_part_of_the_next_update(resumed: bool, tmp_path: Path) -> None:
    """And extras are clipped with the body, as one vector."""
    ours = protected(tmp_path / "ledger", Released)
    ours.train(0)
    base = floats(ours.release(0))
    mix(ours, {}, {0: 1.0})
    base[2:] += 1.0
    if resumed:
        (tmp_path / "checkpoint").mkdir()
        ours.save(tmp_path / "checkpoint")
        ours = protected(tmp_path / "ledger", Released)
        ours.load(tmp_path / "checkpoint")
    np.testing.assert_allclose(shared(ours), base, rtol=0, atol=1e-6)
    ours.train(1)
    update = shared(ours) - base
    assert min(np.linalg.norm(update[:2]), 20 * np.linalg.norm(update[2:])) > CLIP
    sent = floats(ours.release(1))
    assert np.linalg.norm(sent - base) <= CLIP * (1 + 1e-4), "nobody learns more of a peer than the clip norm allows"
    np.testing.assert_allclose(sent - base, update * CLIP / np.linalg.norm(update), rtol=0, atol=1e-6)


# What a class says of itself is read once, and what it does not say is taken as the safer case.


class Tells:
    """A mixin that knows nothing of the promise."""

    def mixed(self, peer: Any) -> None:
        peer.body.data[0] = SECRET


class MixedIn(Tells, Released):
    pass


class Helped(Released):
    def change(self, peer: Any) -> None:
        peer.body.data[0] = SECRET


class Replaced(Released):
    pass


Replaced.mixed = lambda self, peer: peer.body.data[:1].fill_(SECRET)


class Same(Released):
    pass


@pytest.mark.parametrize("algorithm", [Adjusting, MixedIn, Helped, Replaced, Same])
def test_a_promise_holds_for_the_class_that_makes_it_alone(algorithm: type[Algorithm], tmp_path: Path) -> None:
    for level, make in (("client", protected), ("sample", lambda *of: sampled(small_task(), *of))):
        with refused(ConfigurationError, f"--privacy {level} cannot be used with ", "whose `mixed` may look at data"):
            make(tmp_path / level, algorithm)
        make(tmp_path / level, Released)


def play(learner: TorchLearner) -> None:
    """A round without neighbors."""
    learner.train(0)
    learner.release(0)
    mix(learner, {}, {0: 1.0})


def test_what_is_clipped_is_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = protected(tmp_path, BodyOnly, 1.0)
    real, same = private.privatize, []

    def privatize(base: Any, body: Any, *rest: Any, **more: Any) -> Any:
        same.append(np.shares_memory(body, one.trainer.body.data.numpy()))
        return real(base, body, *rest, **more)

    monkeypatch.setattr(private, "privatize", privatize)
    play(one)
    assert same == [False]


def test_the_base_is_the_mix_whoever_writes_to_the_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, real = protected(tmp_path, BodyOnly, 1.0), guard.weighted_sum

    def mix(*arguments: Any) -> bool:
        found = real(*arguments)
        one.trainer.body.data.add_(SECRET)  # as a thread would that train has left behind
        return found

    monkeypatch.setattr(guard, "weighted_sum", mix)
    play(one)
    assert one.gossip.state["base"].abs().max() < 3


class Extending(BodyOnly):
    def extras(self, split: Any) -> dict[str, int]:
        split.body[0][1].data.fill_(SECRET)
        return {}


class Thawing(BodyOnly):
    def start(self, peer: Any) -> None:
        peer.module.fixed.data.fill_(len(peer.data))


@pytest.mark.parametrize("algorithm", [Extending, Thawing])
def test_what_peers_compare_is_made_without_data(algorithm: type[Algorithm]) -> None:
    task = small_task()
    task.model.fixed = nn.Parameter(torch.ones(2), requires_grad=False)
    with pytest.raises(AlgorithmError):
        build_learner(task, algorithm, H, rank=0, seed=0)
