"""Mixing with hostile bodies, each rule against a computation of its own in numpy."""

import itertools
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from dpeer.training import Hyperparameters, TorchLearner, build_learner
from dpeer.training.codecs import Dense, Quantized
from dpeer.training.flat import Flat
from dpeer.training.mixing import guard
from dpeer.training.mixing.gossip import Gossip
from dpeer.training.mixing.guard import Guard, clipped, distance, trimmed_mean, weighted_median
from dpeer.training.setting_texts import Robust
from dpeer.training.settings import WireDtype
from tests.training.dp_learners import client
from tests.training.small import small_task

COUNT = 5000
OWN = 2
ROW = {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.15, 4: 0.25}
RULES = ("clip", "clip:3", "trimmed-mean:1", "trimmed-mean:2", "median")
EQUAL = dict.fromkeys(ROW, 0.2)
every_rule = pytest.mark.parametrize("rule", RULES)


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BLOCK", 1999)


def values(seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(COUNT, dtype=np.float32))


def sent(vector: torch.Tensor, cuts: Collection[int] = ()) -> list[bytes]:
    whole = vector.numpy().tobytes()
    return [whole[a:b] for a, b in itertools.pairwise([0, *cuts, len(whole)])]


def dense(rule: str, max_norm: float | None = None, dtype: WireDtype = "float32") -> tuple[Gossip, Flat]:
    body = Flat("body", [("w", torch.nn.Parameter(values(OWN)))])
    return Gossip(body, OWN, Dense(body.data, OWN, dtype), Guard(OWN, Robust.parse(rule), max_norm)), body


def weigh(ranks: Collection[int]) -> Mapping[int, float]:
    left = {rank: weight for rank, weight in ROW.items() if rank in ranks and rank != OWN}
    return dict(sorted({**left, OWN: 1 - sum(left.values())}.items()))


def mixed(
    rule: str, changes: Mapping[int, torch.Tensor] | None = None, max_norm: float | None = None, cuts: Any = ()
) -> tuple[np.ndarray[Any, Any], dict[int, str]]:
    """What a peer has after mixing the other four, of which some are changed; and whom it left out."""
    step, body = dense(rule, max_norm)
    step.release(0)
    bodies = {rank: values(rank) for rank in ROW if rank != OWN} | (changes or {})
    refused = step.mix({rank: sent(one, cuts) for rank, one in bodies.items()}, weigh)
    return body.data.numpy().copy(), refused


# -- what it is written as ----------------------------------------


def test_it_is_read_as_it_is_written() -> None:
    assert Robust.parse("clip") == Robust("clip")
    assert Robust.parse("clip:0.25") == Robust("clip", 0.25)
    assert Robust.parse("trimmed-mean:12") == Robust("trimmed-mean", trim=12)
    for text in ("none", "clip", "clip:2.5", "clip:1e-07", "clip:0.1234567890123", "trimmed-mean:2", "median"):
        assert str(Robust.parse(text)) == text
    assert Hyperparameters(robust="clip:1.0").robust == Hyperparameters(robust="clip:1").robust


@pytest.mark.parametrize(
    "text",
    ["", "clip:", "clip:0", "clip:nan", "clip:inf", "none:1", "median:", "trimmed-mean", "trimmed-mean:-1",
     "trimmed-mean:1.5", "krum"],
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        Hyperparameters(robust=text)


# -- each rule, against numpy ----------------------------------------


@pytest.mark.parametrize(("rule", "tau"), [("clip:40", 40.0), ("clip:3", 3.0), ("clip", None)])
def test_clipping_is_the_papers_sum_of_clipped_differences(rule: str, tau: float | None) -> None:
    changes = {4: values(4) * 100, 0: values(0) * 0.2}
    found, refused = mixed(rule, changes)
    bodies = {rank: changes.get(rank, values(rank)).double().numpy() for rank in ROW}
    lengths = {rank: np.linalg.norm(bodies[rank] - bodies[OWN]) for rank in ROW if rank != OWN}
    if tau is None:
        tau = np.sort([0, *lengths.values()])[2]
    expected = bodies[OWN].copy()
    for rank, length in lengths.items():
        expected += ROW[rank] * min(1, tau / length) * (bodies[rank] - bodies[OWN])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert refused == {}


@pytest.mark.parametrize("trim", [1, 2])
def test_the_trimmed_mean_leaves_out_the_ends_of_each_coordinate(trim: int) -> None:
    found, _ = mixed(f"trimmed-mean:{trim}", {3: values(3) * 1000})
    expected = np.empty(COUNT)
    table = np.stack([(values(rank) * (1000 if rank == 3 else 1)).numpy() for rank in ROW])
    for place in range(COUNT):
        pairs = sorted(zip(table[:, place].tolist(), ROW.values(), strict=True))[trim : len(ROW) - trim]
        expected[place] = sum(value * weight for value, weight in pairs) / sum(weight for _, weight in pairs)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_median_has_half_of_the_weight_on_either_side() -> None:
    found, _ = mixed("median")
    for place in range(0, COUNT, 7):
        pairs = sorted((float(values(rank)[place]), weight) for rank, weight in ROW.items())
        below = sum(weight for value, weight in pairs if value < found[place])
        above = sum(weight for value, weight in pairs if value > found[place])
        assert max(below, above) <= 0.5 + 1e-6
        assert float(found[place]) in {value for value, _ in pairs} or below == pytest.approx(0.5)


def test_with_equal_weights_they_are_the_usual_ones() -> None:
    for bodies in (2, 3, 6, 7, 20):
        table = np.random.default_rng(bodies).standard_normal((bodies, 50), dtype=np.float32)
        equal = torch.full((bodies,), 1 / bodies)
        found = weighted_median(torch.from_numpy(table), equal)
        np.testing.assert_allclose(found.numpy(), np.median(table, axis=0), rtol=1e-6)
        if bodies > 4:
            expected = np.sort(table, axis=0)[2:-2].mean(axis=0)
            found = trimmed_mean(torch.from_numpy(table), equal, 2)
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_median_of_large_values_does_not_overflow_and_one_of_zeros_has_no_sign() -> None:
    for weights in (torch.tensor([0.25, 0.25, 0.25, 0.25]), torch.tensor([0.2, 0.3, 0.3, 0.2])):
        large = torch.tensor([[1e38], [2e38], [3e38], [3.2e38]])
        assert weighted_median(large, weights).item() == pytest.approx(2.5e38)
    zeros = torch.tensor([[-0.0], [0.0], [-0.0]])
    for weights in (torch.full((3,), 1 / 3), torch.tensor([0.3, 0.3, 0.4])):
        assert not torch.signbit(weighted_median(zeros, weights)).any()
        assert not torch.signbit(trimmed_mean(zeros, weights, 1)).any()


def test_distances_of_one_round_are_not_those_of_the_next() -> None:
    step, body = dense("clip:3")
    for changes in ({}, {0: values(0) * 100}):
        bodies = {rank: sent(values(rank)) for rank in ROW if rank != OWN}
        bodies |= {rank: sent(one) for rank, one in changes.items()}
        body.data.copy_(values(OWN))
        step.release(0)
        if not changes:
            step.mix(bodies, weigh)
    step.mix(bodies, lambda ranks: ROW)
    assert np.array_equal(body.data.numpy(), mixed("clip:3", {0: values(0) * 100})[0])


def test_an_own_value_of_no_weight_stays_where_nothing_else_does() -> None:
    found = trimmed_mean(torch.tensor([[1.0], [5.0], [9.0]]), torch.tensor([0.5, 0.0, 0.5]), 1)
    assert found.tolist() == [5.0]


# -- how far apart ----------------------------------------


def test_a_distance_is_the_length_of_the_difference_to_the_bit_in_any_pieces() -> None:
    a, b = values(0), values(1)
    whole = distance([a], [b])
    assert whole == pytest.approx(float(np.linalg.norm(a.double().numpy() - b.double().numpy())), rel=1e-5)
    for cuts in ([1], [1998, 1999, 2000], [7, 4999]):
        sizes = np.diff([0, *cuts, COUNT]).tolist()
        assert distance(torch.split(a, sizes), [b]) == distance([a], torch.split(b, sizes)) == whole
    assert distance([torch.full((9,), 3e38)], [torch.full((9,), -3e38)]) == pytest.approx(1.8e39, rel=1e-6)
    assert distance([a[:0]], [b[:0]]) == 0


@pytest.mark.parametrize("neighbors", range(1, 9))
def test_a_radius_of_its_own_is_within_what_honest_bodies_are_apart(neighbors: int) -> None:
    """Whatever the hostile ones send: up to half of the neighbors, of an odd number the larger half."""
    row = dict.fromkeys(range(neighbors + 1), 1 / (neighbors + 1))
    rng = np.random.default_rng(neighbors)
    hostile = (neighbors + 1) // 2
    for power in (-30, 0, 3, 38):
        honest = rng.uniform(1, 2, neighbors - hostile)
        lengths = [*honest, *(10.0**power * rng.uniform(1, 2, hostile))]
        distances = dict(enumerate(lengths, 1))
        weights = clipped(row, 0, distances, None)
        assert sum(weights.values()) == pytest.approx(1)
        pulls = [weights[rank] * apart / row[rank] for rank, apart in distances.items()]
        assert max(pulls) <= max(honest, default=0.0) * (1 + 1e-12)


def test_the_row_stays_where_nothing_is_clipped() -> None:
    assert clipped(ROW, OWN, {0: 1.0, 1: 2.0, 3: 0.0, 4: 3.0}, 3.0) is ROW


# -- all honest, and hostile ones ----------------------------------------


def test_a_radius_beyond_all_distances_is_plain_mixing_to_the_bit() -> None:
    plain, _ = mixed("none")
    for cuts in ((), (4, 8004)):
        found, refused = mixed("clip:1e30", cuts=cuts)
        assert np.array_equal(found, plain)
        assert refused == {}
    assert np.array_equal(mixed("none", max_norm=1e30)[0], plain)


@every_rule
@pytest.mark.parametrize("equal", [False, True])
def test_pieces_do_not_change_a_bit(rule: str, equal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if equal:
        monkeypatch.setitem(globals(), "ROW", EQUAL)
    assert np.array_equal(mixed(rule)[0], mixed(rule, cuts=(4, 7000, 7004, 7996, 15_000))[0])


@every_rule
def test_equal_bodies_stay_what_they_are(rule: str) -> None:
    found, _ = mixed(rule, {rank: values(OWN) for rank in ROW if rank != OWN})
    np.testing.assert_allclose(found, values(OWN).numpy(), rtol=1e-6)


@every_rule
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_left_out_and_its_weight_goes_to_the_diagonal(rule: str, bad: float) -> None:
    spoiled = values(3)
    spoiled[COUNT // 2] = bad
    found, refused = mixed(rule, {3: spoiled})
    if rule == "trimmed-mean:2":
        assert refused == {3: "not-finite", **dict.fromkeys((0, 1, 4), "too-few")}
        assert np.array_equal(found, values(OWN).numpy()), "three others are too few to withstand two of them"
        return
    assert refused == {3: "not-finite"}
    step, body = dense(rule)
    step.release(0)
    step.mix({rank: sent(values(rank)) for rank in (0, 1, 4)}, weigh)
    assert np.array_equal(found, body.data.numpy())


@every_rule
@pytest.mark.parametrize("size", [1e6, 3e38])
def test_one_hostile_body_moves_no_value_out_of_reach(rule: str, size: float) -> None:
    honest = np.stack([values(rank).numpy() for rank in ROW if rank != 4])
    for hostile in (torch.full((COUNT,), size), torch.full((COUNT,), -size), -10 * values(OWN)):
        found, refused = mixed(rule, {4: hostile})
        assert refused == {}
        assert np.isfinite(found).all()
        if rule.startswith("clip"):
            expected, _ = mixed(rule)
            radius = 3.0 if ":" in rule else max(np.linalg.norm(one - values(OWN).numpy()) for one in honest)
            # Its own pull, and what it changes of the radius and so of the others' pulls.
            assert np.linalg.norm(found - values(OWN).numpy()) <= 0.7 * radius * (1 + 1e-5)
            assert np.linalg.norm(found - expected) <= 2 * radius
        else:
            assert (found >= honest.min(axis=0) - 1e-6).all()
            assert (found <= honest.max(axis=0) + 1e-6).all()


@pytest.mark.parametrize("rule", ["none", *RULES])
def test_what_is_too_far_is_left_out(rule: str) -> None:
    found, refused = mixed(rule, {0: values(0) * 50}, max_norm=1000.0)
    assert refused.pop(0) == "too-far"
    assert refused == (dict.fromkeys((1, 3, 4), "too-few") if rule == "trimmed-mean:2" else {})
    step, body = dense(rule)
    step.release(0)
    step.mix({rank: sent(values(rank)) for rank in (1, 3, 4)}, weigh)
    assert np.array_equal(found, body.data.numpy())


def test_far_is_counted_from_what_was_released() -> None:
    step, body = dense("none", max_norm=1.0)
    step.release(0)
    with torch.no_grad():
        body.data.add_(100.0)  # somebody writes to it meanwhile
    near = values(OWN)
    near[0] += 0.9
    far = values(OWN)
    far[0] += 1.1
    assert step.mix({1: sent(near), 3: sent(far)}, weigh) == {3: "too-far"}
    assert float(body.data[0]) == pytest.approx(float(values(OWN)[0]) + 0.9 * ROW[1], rel=1e-5)


def test_quantized_bodies_that_are_too_far_are_left_out() -> None:
    def made(start: torch.Tensor) -> Gossip:
        body = Flat("body", [("w", torch.nn.Parameter(torch.zeros(COUNT)))])
        step = Quantized(body.data, OWN, 8)
        body.data.copy_(start)
        return Gossip(body, OWN, step, Guard(OWN, Robust(), 200.0))

    ours, near, far = made(values(OWN)), made(values(1)), made(-10 * values(3))
    assert ours.release(0)
    bodies = {1: near.release(0), 3: far.release(0)}
    assert ours.mix(bodies, weigh) == {3: "too-far"}


def test_alone_a_peer_keeps_what_it_released() -> None:
    for rule in RULES:
        step, body = dense(rule)
        step.release(0)
        assert step.mix({}, lambda ranks: {OWN: 1.0}) == {}
        assert torch.equal(body.data, values(OWN))


@every_rule
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_halves_are_mixed_as_what_they_were_rounded_to(rule: str, dtype: WireDtype) -> None:
    kind = {"bfloat16": torch.bfloat16, "float16": torch.float16}[dtype]
    step, body = dense(rule, dtype=dtype)
    step.release(0)
    halves = {rank: values(rank).to(kind) for rank in ROW}
    step.mix({rank: [half.view(torch.uint8).numpy().tobytes()] for rank, half in halves.items() if rank != OWN},
                    weigh)  # fmt: skip
    other, its_body = dense(rule)
    with torch.no_grad():
        its_body.data.copy_(halves[OWN].float())
    other.release(0)
    other.mix({rank: sent(half.float()) for rank, half in halves.items() if rank != OWN}, weigh)
    assert torch.equal(body.data, its_body.data)


# -- a whole learner ----------------------------------------


def learner(rank: int, robust: str, algorithm: str = "dfedavgm", **more: Any) -> TorchLearner:
    h = Hyperparameters(body_epochs=1, batch_size=16, robust=robust, **more)
    return build_learner(small_task(rank), algorithm, h, rank=rank, seed=0)


@pytest.mark.parametrize("rule", ["clip", "trimmed-mean:1"])
def test_a_private_peers_base_is_what_mixing_gave(tmp_path: Path, rule: str) -> None:
    h = Hyperparameters(body_epochs=1, batch_size=16, robust=rule)
    ours = build_learner(small_task(0), "dfedmdc", h, rank=0, seed=0, session=client(tmp_path))
    ours.train(0)
    (own,) = ours.release(0) or []
    z = {
        0: np.frombuffer(own, "<f4"),
        **{rank: values(rank).numpy()[: ours.about.body_parameters] for rank in range(1, 5)},
    }
    with torch.no_grad():
        ours.trainer.shared.data.add_(7.0)  # only what was released may count
    ours.mix_sound({rank: [one.tobytes()] for rank, one in z.items() if rank}, lambda ranks: dict.fromkeys(z, 0.2))
    assert torch.equal(ours.body, ours.gossip.state["base"])
    reference = Flat("body", [("w", torch.nn.Parameter(torch.tensor(z[0])))])
    step = Gossip(reference, 0, Dense(reference.data, 0), Guard(0, Robust.parse(rule), None))
    step.release(0)
    step.mix({rank: [one.tobytes()] for rank, one in z.items() if rank}, lambda ranks: dict.fromkeys(z, 0.2))
    assert torch.equal(ours.body, reference.data)


def test_nothing_private_decides_what_is_mixed(tmp_path: Path) -> None:
    """Without a release of its own, a peer compares with what its last mixing gave, not with what it has trained."""
    found = []
    for trains in (False, True):
        h, session = Hyperparameters(robust="clip", max_norm=9.0), client(tmp_path / str(trains))
        ours = build_learner(small_task(0), "dfedmdc", h, rank=0, seed=0, session=session)
        if trains:
            ours.train(0)
        ours.mix_sound({1: [bytes(ours.about.payload_bytes)], 2: [bytes(ours.about.payload_bytes)]},
                       lambda ranks: dict.fromkeys((0, 1, 2), 1 / 3))  # fmt: skip
        found.append(ours.body.clone())
    assert torch.equal(*found)


def test_what_shares_nothing_takes_no_notice() -> None:
    assert learner(0, "median", "local", max_norm=1.0).train(0) is not None
