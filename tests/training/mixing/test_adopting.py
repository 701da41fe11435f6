"""Adoption: the mean of the received bodies without the own, under every rule of mixing, and in every algorithm."""

from collections.abc import Collection, Iterable, Mapping

import numpy as np
import pytest
import torch

from dpeer.training import ALGORITHMS, TorchLearner
from dpeer.training.codecs import Dense
from dpeer.training.flat import Flat
from dpeer.training.mixing.gossip import Gossip
from dpeer.training.mixing.guard import Guard
from dpeer.training.setting_texts import Robust
from tests.training.algorithm_cases import peers
from tests.training.small import gossip

COUNT = 3000
WEIGHTS = {0: 0.5, 2: 0.3, 5: 0.2}


def weigh(ranks: Collection[int]) -> Mapping[int, float]:
    total = sum(WEIGHTS[rank] for rank in ranks)
    return {rank: WEIGHTS[rank] / total for rank in sorted(ranks)}


def bodies() -> dict[int, np.ndarray]:
    rng = np.random.default_rng(1)
    return {rank: rng.standard_normal(COUNT).astype(np.float32) for rank in WEIGHTS}


def adopt(
    received: Mapping[int, np.ndarray], robust: str = "none", max_norm: float | None = None
) -> tuple[np.ndarray, dict[int, str]]:
    """The body of rank 1 after it has adopted, which began as thousands, and whom it left out."""
    flat = Flat("body", [("w", torch.nn.Parameter(torch.full((COUNT,), 1000.0)))])
    mixing = Gossip(flat, 1, Dense(flat.data, 1), Guard(1, Robust.parse(robust), max_norm))
    refused = mixing.adopt({rank: [body.tobytes()] for rank, body in received.items()}, weigh)
    return flat.data.numpy().copy(), refused


def median_of(values: np.ndarray, weights: Mapping[int, float]) -> np.ndarray:
    """The weighted median of each column, one value after the other."""
    found = []
    for column in values.T:
        order = np.argsort(column)
        sums = np.cumsum(np.array([*weights.values()])[order])
        lower = column[order][np.argmax(sums > 0.5 - 1e-6)]
        upper = column[order][np.argmax(sums > 0.5 + 1e-6)]
        found.append((lower + upper) / 2)
    return np.array(found)


def test_the_body_is_the_weighted_mean_of_the_received_without_the_own() -> None:
    sent = bodies()
    found, refused = adopt(sent)
    np.testing.assert_allclose(found, sum(WEIGHTS[rank] * sent[rank] for rank in sent), rtol=1e-5, atol=1e-6)
    assert refused == {}
    alone, _ = adopt({2: sent[2]})
    np.testing.assert_array_equal(alone, sent[2])


def test_a_body_that_is_not_finite_or_of_another_size_is_left_out_and_its_weight_goes_to_the_others() -> None:
    sent = bodies()
    sent[0][7], sent[2] = np.nan, sent[2][:-1]
    found, refused = adopt(sent)
    assert refused == {0: "not-finite", 2: "wrong-size"}
    np.testing.assert_array_equal(found, sent[5])


def test_with_nothing_that_can_be_mixed_the_body_stays() -> None:
    found, refused = adopt({0: np.full(COUNT, np.inf, np.float32)})
    assert refused == {0: "not-finite"}
    np.testing.assert_array_equal(found, np.full(COUNT, 1000.0))


@pytest.mark.parametrize(
    ("robust", "limit"),
    [("median", None), ("clip:5", None), ("trimmed-mean:2", None), ("median", 500.0), ("none", 500.0)],
)
def test_under_a_guard_it_is_the_median_of_the_received_however_far_one_is(robust: str, limit: float | None) -> None:
    sent = bodies()
    sent[5] = sent[5] + 1000
    found, refused = adopt(sent, robust, limit)
    assert refused == ({} if limit is None else {5: "too-far"})
    np.testing.assert_allclose(found, median_of(np.stack([*sent.values()]), WEIGHTS), rtol=1e-5)


def test_nothing_is_adopted_where_no_body_is_within_the_limit() -> None:
    """Half of the weight is far from the other half."""
    sent = bodies()
    sent |= {rank: sent[rank] + 1000 for rank in (2, 5)}
    found, refused = adopt(sent, max_norm=500.0)
    assert refused == dict.fromkeys(sent, "too-far")
    np.testing.assert_array_equal(found, np.full(COUNT, 1000.0))


# -- algorithms --------------------------------------------------------------------------------------------------------


def body_of(learner: TorchLearner, payload: Iterable[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(bytes(part) for part in payload), np.float32)


def back(name: str, **changes: object) -> tuple[list[TorchLearner], dict[int, list[bytes]]]:
    """Three peers that have trained together for a round, and two of them for another; and what those sent in it."""
    learners = peers(name, **changes)
    gossip(learners, 1)
    sent = {}
    for rank in (1, 2):
        learners[rank].train(1)
        sent[rank] = [bytes(part) for part in learners[rank].release(1) or []]
    learners[0].sit_out(1)
    return learners, sent


def halves(ranks: Collection[int]) -> Mapping[int, float]:
    return dict.fromkeys(sorted(ranks), 1 / len(ranks))


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in ("local", "localadamw", "dis-pfl")])
def test_every_algorithm_adopts_the_mean_of_the_bodies_and_leaves_its_head(name: str) -> None:
    learners, sent = back(name)
    learner, trainer = learners[0], learners[0].trainer
    head, kept = trainer.head.data.clone(), [trainer.extras.data[part].clone() for part in trainer.extras.trackers]
    state = {n: values.clone() for n, values in learner.algorithm.state.items()}
    assert learner.adopt(1, sent, halves) == {}
    body = np.mean([body_of(learner, payload) for payload in sent.values()], axis=0)[-trainer.body.count :]
    np.testing.assert_allclose(trainer.body.data.numpy(), body, rtol=1e-5, atol=1e-7)
    assert torch.equal(trainer.head.data, head)
    assert all(map(torch.equal, kept, [trainer.extras.data[part] for part in trainer.extras.trackers]))
    assert state.keys() == learner.algorithm.state.keys()
    learner.train(2)
    assert learner.release(2) is not None
    assert learner.finite


def test_scaffold_keeps_its_variates_so_that_their_sum_over_all_peers_stays() -> None:
    learners, sent = back("scaffold")
    learners[0].adopt(1, sent, halves)
    tracked = sum(one.trainer.extras["variates"] for one in learners)
    own = sum(one.algorithm.state["own"] for one in learners)
    np.testing.assert_allclose(tracked, own, atol=1e-6)


def test_dis_pfl_goes_on_with_its_own_sparse_model() -> None:
    learners, sent = back("dis-pfl")
    before = learners[0].trainer.model.data.clone()
    assert learners[0].adopt(1, sent, halves) == {}
    assert torch.equal(learners[0].trainer.model.data, before)


def test_fedopt_and_smoothing_count_the_next_change_from_the_adopted_body() -> None:
    for name in ("fedopt", "fedavg-ls"):
        learners, sent = back(name)
        learner = learners[0]
        learner.adopt(1, sent, halves)
        adopted = learner.trainer.body.data.clone()
        learner.release(2)
        learner.mix_sound({}, lambda ranks: {0: 1.0})  # nothing was trained: nothing may change
        np.testing.assert_allclose(learner.trainer.body.data, adopted, atol=1e-6)
