"""The hook after mixing: when it is called, what it is to a private release, and that a resumed run has what it did."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dpeer.privacy import ClientSession, Guarantee, Ledger
from dpeer.training import Algorithm, Hyperparameters, Task, TorchLearner, Trainer, build_learner

Make = Callable[..., Task]
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


def test_it_is_called_after_mixing_with_what_mixing_gave(make_task: Make, gossip: Any) -> None:
    ours = [build_learner(make_task(rank), Adjusting, H, rank=rank, seed=0) for rank in range(SIZE)]
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


def test_it_is_not_called_where_nothing_was_mixed(make_task: Make) -> None:
    class Alone(Adjusting):
        shares = "nothing"

    sits, alone = (build_learner(make_task(), algorithm, H, rank=0, seed=0) for algorithm in (Adjusting, Alone))
    sits.sit_out(0)
    alone.train(0)
    alone.release(0)
    alone.finish(0)
    assert sits.algorithm.seen == alone.algorithm.seen == []


def protected(make_task: Make, folder: Path, algorithm: type[Algorithm], *, resume: bool = False) -> TorchLearner:
    session = ClientSession(Guarantee(1e-7, CLIP, 1e-5), Ledger(folder, {}, resume=resume), None)
    return build_learner(make_task(), algorithm, H, rank=0, seed=0, session=session)


def values(payload: Any) -> np.ndarray:
    return np.frombuffer(payload[0], "<f4").astype(np.float64)


def body(learner: TorchLearner) -> np.ndarray:
    return learner.body.double().numpy()


@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("algorithm", [Adjusting, Released])
def test_only_what_it_made_of_releases_alone_is_no_part_of_the_next_update(
    algorithm: type[Algorithm], resumed: bool, make_task: Make, tmp_path: Path
) -> None:
    ours = protected(make_task, tmp_path / "ledger", algorithm)
    ours.train(0)
    first = values(ours.release(0))
    ours.mix({}, {0: 1.0})
    np.testing.assert_allclose(body(ours), first + 1, rtol=0, atol=1e-6)
    if resumed:
        (tmp_path / "checkpoint").mkdir()
        ours.save(tmp_path / "checkpoint")
        ours = protected(make_task, tmp_path / "ledger", algorithm, resume=True)
        ours.load(tmp_path / "checkpoint")
        np.testing.assert_allclose(body(ours), first + 1, rtol=0, atol=1e-6)
    base = first + 1 if algorithm is Released else first
    ours.train(1)
    update = body(ours) - base
    sent = values(ours.release(1))
    assert np.linalg.norm(sent - base) <= CLIP * (1 + 1e-4), "nobody learns more of a peer than the clip norm allows"
    expected = update * min(1.0, CLIP / np.linalg.norm(update))
    np.testing.assert_allclose(sent - base, expected, rtol=0, atol=1e-6)
    # Adjusting moved every coordinate by one, which is what is left of its update.
    assert (np.std(expected) < 0.1 * abs(np.mean(expected))) == (algorithm is Adjusting)
