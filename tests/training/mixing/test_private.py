"""What leaves a peer with --privacy client, against a computation of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm

from dpeer.exceptions import CheckpointError
from dpeer.privacy import ClientSession, Guarantee, Ledger
from dpeer.privacy.noise import grid
from dpeer.training import ALGORITHMS, Hyperparameters, TorchLearner, build_learner
from tests.training.dp_learners import client
from tests.training.small import floats as values_of
from tests.training.small import mix, small_task

H = Hyperparameters(body_epochs=2, batch_size=16)
COUNT = 6 * 8 + 8


def floats(payload: Any) -> np.ndarray:
    assert all(memoryview(buffer).readonly for buffer in payload)
    return values_of(payload)


Peer = Callable[..., TorchLearner]


@pytest.fixture
def peer(tmp_path: Path) -> Peer:
    def make(
        rank: int = 0, *, sigma: float = 1e-7, algorithm: str = "dfedmdc", name: str = "privacy",
        compress: str = "float32", **more: Any,
    ) -> TorchLearner:  # fmt: skip
        session = client(tmp_path / f"{name}-{rank}", sigma, **more)
        h = H.model_copy(update={"compress": compress})
        return build_learner(small_task(rank), algorithm, h, rank=rank, seed=0, session=session)

    return make


def plain(rank: int = 0, algorithm: str = "dfedmdc") -> TorchLearner:
    return build_learner(small_task(rank), algorithm, H, rank=rank, seed=0)


def body(learner: TorchLearner) -> np.ndarray:
    return learner.body.double().numpy()


def shared(learner: TorchLearner) -> np.ndarray:
    """The body with what is sent beside it."""
    return learner.trainer.shared.data.double().numpy().copy()


def test_the_release_is_the_common_start_plus_the_clipped_update(peer: Peer) -> None:
    learner, other = peer(), plain()
    start = body(learner)
    learner.train(0)
    other.train(0)
    assert np.array_equal(body(learner), body(other)), "training knows nothing of privacy"
    update = body(other) - start
    assert np.linalg.norm(update) > 0.05
    expected = start + update * 0.05 / np.linalg.norm(update)
    assert np.allclose(floats(learner.release(0)), expected, atol=1e-6)
    assert np.array_equal(body(learner), body(other)), "the own body is evaluated as trained"


def test_the_own_part_of_the_mix_is_the_noised_body_and_the_next_update_starts_from_the_mix(peer: Peer) -> None:
    learner, neighbor = peer(0, sigma=10.0), peer(1, sigma=10.0)
    for number in range(3):
        sent = []
        for one in (learner, neighbor):
            one.train(number)
            sent.append(one.release(number))
        trained = body(learner)
        own, other = floats(sent[0]), floats(sent[1])
        assert np.linalg.norm(own - trained) > 1, "sigma 10 x clip norm 0.05 on 56 values"
        mix(learner, {1: sent[1]}, {0: 0.75, 1: 0.25})
        mix(neighbor, {0: sent[0]}, {0: 0.5, 1: 0.5})
        assert np.allclose(body(learner), 0.75 * own + 0.25 * other, atol=1e-5)
        start = body(learner)
    learner.train(3)
    update = body(learner) - start
    noise = floats(learner.release(3)) - start - update * min(1, 0.05 / np.linalg.norm(update))
    assert 0.3 < noise.std() < 0.7, "the noise's deviation is 0.5"


def test_two_runs_with_the_same_seed_have_unrelated_noise(tmp_path: Path) -> None:
    noises = []
    for run in range(2):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(6, 4000), torch.nn.Linear(4000, 3))
        session = client(tmp_path / str(run), 1.0, 1.0)
        learner = build_learner(small_task(model=model, head=("1",)), "dfedmdc", H, rank=0, seed=0, session=session)
        start = body(learner)
        learner.train(0)
        noises.append(floats(learner.release(0)) - start)
    assert abs(np.corrcoef(*noises)[0, 1]) < 0.03


def test_epsilon_and_what_clipping_met_are_the_peers_own_to_know(peer: Peer) -> None:
    learner = peer(sigma=2.0)
    assert learner.privacy["epsilon"] == 0
    for number in range(2):
        learner.train(number)
        sent = learner.release(number)
        mix(learner, {}, {0: 1.0})
        assert sent is not None
    spent = learner.privacy
    # mu = sqrt(2) 2C / (2C): the epsilon at which the closed form of Gaussian DP gives this delta.
    mu, epsilon = 2**0.5, spent["epsilon"]
    delta = norm.cdf(-epsilon / mu + mu / 2) - np.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
    assert delta == pytest.approx(1e-5, rel=1e-6)
    assert (spent["delta"], spent["releases"], spent["clipped"], spent["not_finite"]) == (1e-5, 2, True, False)
    assert spent["update_norm"] > 0.05


def test_an_update_that_is_not_finite_is_sent_as_noise_and_charged(peer: Peer) -> None:
    learner = peer(sigma=1.0)
    start = body(learner)
    learner.train(0)
    with torch.no_grad():
        next(iter(learner.trainer.module.body.parameters())).fill_(float("nan"))
    sent = floats(learner.release(0))
    assert np.isfinite(sent).all()
    assert 0 < np.abs(sent - start).max() < 0.05 * 6
    assert learner.privacy["not_finite"]
    assert learner.privacy["releases"] == 1


def test_when_the_budget_is_spent_the_last_release_is_sent_again_for_nothing(peer: Peer) -> None:
    allowed = Guarantee(2.0, 0.05, 1e-5).epsilon(2)
    learner = peer(sigma=2.0, budget=allowed + 1e-9)
    sent = []
    for number in range(5):
        learner.train(number)
        sent.append(floats(learner.release(number)).tolist())
        mix(learner, {}, {0: 1.0})
        assert np.allclose(body(learner), sent[-1])
    assert (learner.privacy["releases"], learner.privacy["epsilon"]) == (2, allowed)
    assert sent[0] != sent[1]
    assert sent[1] == sent[2] == sent[3] == sent[4]
    assert learner.privacy["sent_again"]


@pytest.mark.parametrize("compress", ["float32", "bfloat16"])
def test_a_round_that_was_interrupted_after_its_release_sends_the_same_bytes(
    peer: Peer, compress: str, tmp_path: Path
) -> None:
    learner = peer(sigma=3.0, compress=compress)
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    learner.train(0)
    learner.release(0)
    mix(learner, {}, {0: 1.0})
    learner.save(folder)
    learner.train(1)
    sent = bytes(learner.release(1)[0])
    assert len(sent) == learner.about.payload_bytes
    assert (tmp_path / "privacy-0" / "released-00000001.bin").read_bytes() == sent
    again = peer(sigma=3.0, compress=compress, resume=True)
    again.load(folder)
    again.train(1)
    assert bytes(again.release(1)[0]) == sent
    for one in (again, learner):
        mix(one, {1: [sent]}, {0: 0.75, 1: 0.25})
    assert np.array_equal(body(again), body(learner))
    assert again.privacy["releases"] == 2
    other = peer(sigma=3.0, compress="float32" if compress == "bfloat16" else "bfloat16", resume=True)
    other.train(1)
    with pytest.raises(CheckpointError):
        other.release(1)  # of floats of another kind


def test_a_round_that_was_charged_and_lost_is_silent_and_its_base_stays(peer: Peer, tmp_path: Path) -> None:
    learner = peer(sigma=1e-7)
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    learner.save(first)
    start = body(learner)
    Ledger(tmp_path / "privacy-0", {}, resume=False).release(0, lambda: b"killed before this was on disk")
    (tmp_path / "privacy-0" / "released-00000000.bin").unlink()
    again = peer(sigma=1e-7, resume=True)
    again.load(first)
    again.train(0)
    assert again.release(0) is None
    again.save(second)
    later = peer(sigma=1e-7, resume=True)
    later.load(second)
    for one in (again, later):
        one.train(1)
        update = body(one) - start  # of both rounds: the first one's has not been released
        expected = start + update * 0.05 / np.linalg.norm(update)
        assert np.allclose(floats(one.release(1)), expected, atol=1e-6)


def test_a_random_mask_is_of_the_seed_and_the_round(peer: Peer) -> None:
    a, b = peer(0, sigma=1.0, sparsify="random:0.25"), peer(1, sigma=1.0, sparsify="random:0.25")
    step = grid(1.0 * 0.05)
    start = np.rint(body(a) / step) * step  # the rest stays where it was, on the grid
    changed = []
    for one in (a, b):
        one.train(0)
        changed.append((floats(one.release(0)) != start).tolist())
    assert changed[0] == changed[1], "the same for all peers of a round"
    assert sum(changed[0]) == round(COUNT / 4)


@pytest.mark.parametrize(
    ("algorithm", "compress", "sparsify"),
    [("scaffold", "float32", None), ("dfedmdc", "bfloat16", "top-k:0.4"), ("dfedmdc", "float16", "random:0.4")],
)
def test_every_value_that_travels_is_on_the_grid(
    peer: Peer, algorithm: str, compress: str, sparsify: str | None
) -> None:
    """Extras, too, as noise leaves no value where it was."""
    learner = peer(sigma=30.0, algorithm=algorithm, compress=compress, sparsify=sparsify)
    for number in range(3):
        learner.train(number)
        payload = learner.release(number)
        sent = torch.frombuffer(bytearray(payload[0]), dtype=getattr(torch, compress)).double()
        steps = sent / grid(30.0 * 0.05)
        assert torch.equal(steps, steps.round())
        mix(learner, {}, {0: 1.0})
        assert np.array_equal(shared(learner), sent), "the own part of the mix is what travels"


@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name not in ("local", "dis-pfl")])
def test_no_release_of_any_algorithm_is_further_from_its_base_than_the_clip_norm(peer: Peer, algorithm: str) -> None:
    learner = peer(algorithm=algorithm)
    for number in range(3):
        base = shared(learner)
        learner.train(number)
        moved = np.linalg.norm(shared(learner) - base)
        sent = floats(learner.release(number))
        assert 0 < np.linalg.norm(sent - base) <= min(0.05, moved) * (1 + 1e-4)
        mix(learner, {}, {0: 1.0})
    assert learner.privacy["releases"] == 3


def test_who_shares_nothing_has_nothing_to_protect(peer: Peer) -> None:
    learner = peer(algorithm="local")
    learner.train(0)
    assert learner.release(0) is None
    assert learner.privacy is None


@pytest.mark.parametrize("algorithm", ["dfedmdc", "scaffold", "fedopt"])
def test_after_an_adoption_updates_are_counted_from_the_mean_of_releases_and_nothing_is_charged(
    peer: Peer, algorithm: str
) -> None:
    """Trained and never released values are in neither the body nor what the next update is counted from."""
    learner = peer(algorithm=algorithm)
    sent = {}
    for rank in (1, 2):
        other = peer(rank, algorithm=algorithm, name="other")
        other.train(0)
        sent[rank] = other.release(0)
    learner.train(0)  # and cut off before its release
    session = learner.session
    assert isinstance(session, ClientSession)
    charged = session.ledger.releases
    assert learner.adopt(0, sent, lambda ranks: dict.fromkeys(ranks, 0.5)) == {}
    assert session.ledger.releases == charged
    mean = np.mean([floats(one) for one in sent.values()], axis=0)[-learner.trainer.body.count :]
    np.testing.assert_allclose(body(learner), mean, atol=1e-6)
    released = floats(learner.release(1))  # without training: what was adopted, and noise
    extras = len(released) - learner.trainer.body.count
    np.testing.assert_allclose(released[extras:], mean, atol=1e-5)
    assert np.linalg.norm(released[:extras]) <= 0.05 + 1e-4, "what is kept of the rest is clipped like any update"


def test_a_release_costs_the_same_however_many_steps_a_round_budget_allowed(peer: Peer) -> None:
    """The noise covers the whole update, and the clip bounds it: of two steps as of twelve."""
    found = []
    for name, share in (("cut", 0.0), ("whole", 1.0)):
        learner = peer(name=name, sigma=1.0)
        learner.train(0, share=share)
        start = body(learner)
        assert np.linalg.norm(floats(learner.release(0)) - start) > 0
        found.append((learner.privacy["epsilon"], learner.privacy["delta"]))
    assert found[0] == found[1]
