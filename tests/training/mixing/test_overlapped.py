"""Bodies that are mixed a round late, against the recursion of the module's first lines, computed with matrices."""

import numpy as np
import pytest
import torch

from dpeer.training.codecs import Dense, Quantized
from dpeer.training.flat import Flat
from dpeer.training.mixing.overlapped import Overlapped

COUNT, ROUNDS = 40, 9
RING = np.array([[0.5, 0.25, 0.0, 0.25], [0.25, 0.5, 0.25, 0.0], [0.0, 0.25, 0.5, 0.25], [0.25, 0.0, 0.25, 0.5]])


def training(number, rank):
    """What a round's training adds to a body."""
    return np.random.default_rng([number, rank]).standard_normal(COUNT).astype(np.float32)


def peers(codec=Dense, **more):
    found = []
    for rank in range(len(RING)):
        body = Flat("body", [("w", torch.nn.Parameter(torch.zeros(COUNT)))])
        found.append((Overlapped(body, rank, codec(body.data, rank, **more)), body))
    return found


def row_of(matrix, rank):
    """As the round loop gives it: the weights of those that are missing go to the own rank."""

    def weigh(ranks):
        left = {other: float(matrix[rank, other]) for other in sorted(ranks)}
        return dict(sorted({**left, rank: 1.0 - sum(left.values())}.items()))

    return weigh


def play(found, rounds=range(ROUNDS), *, lost=frozenset(), last=ROUNDS - 1, matrix=RING):
    """Run rounds as the round loop does; `lost` has (round, sender, receiver). Gives each round's bodies."""
    bodies = []
    for number in rounds:
        payloads = {}
        for rank, (step, body) in enumerate(found):
            payloads[rank] = step.held(number)
            if payloads[rank] is None:
                body.data += torch.from_numpy(training(number, rank))
                payloads[rank] = step.release(number)
        for rank, (step, body) in enumerate(found):
            if number < last:
                body.data += torch.from_numpy(training(number + 1, rank))
                step.release(number + 1)
        for rank, (step, _) in enumerate(found):
            near = [other for other in np.flatnonzero(matrix[rank]) if other != rank]
            here = {int(other): payloads[other] for other in near if (number, other, rank) not in lost}
            assert step.mix(here, row_of(matrix, rank)) == {}
        bodies.append(np.stack([body.data.numpy().copy() for _, body in found]))
    return bodies


def recursion(rounds=ROUNDS, lost=frozenset()):
    """Each round's bodies, in float64: z(t) = b(t) + training, b(t+1) = z(t) + 1/2 (W - I) z(t-1)."""
    size = len(RING)
    z = [np.stack([training(0, rank) for rank in range(size)]).astype(np.float64)]
    found = []
    b = z[0]
    for number in range(rounds):
        matrix = RING.copy()
        for _, sender, receiver in (one for one in lost if one[0] == number):
            matrix[receiver, receiver] += matrix[receiver, sender]
            matrix[receiver, sender] = 0.0
        if number == rounds - 1:
            found.append(matrix @ z[number])
            break
        z.append(b + np.stack([training(number + 1, rank) for rank in range(size)]))
        b = z[number + 1] + 0.5 * (matrix - np.eye(size)) @ z[number]
        found.append(b)
    return found


@pytest.mark.parametrize("lost", [frozenset(), frozenset({(3, 0, 1), (3, 1, 0), (5, 2, 3)})], ids=["all", "some lost"])
def test_bodies_follow_the_recursion(lost):
    for ours, theirs in zip(play(peers(), lost=lost), recursion(lost=lost), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5)


def test_the_mean_is_kept_in_every_round():
    trained = np.zeros(COUNT)
    for number, bodies in enumerate(play(peers())):
        until = range(min(number + 2, ROUNDS))
        trained = np.mean([sum(training(one, rank) for one in until) for rank in range(len(RING))], axis=0)
        np.testing.assert_allclose(bodies.mean(axis=0), trained, rtol=0, atol=2e-5)


@pytest.mark.parametrize("kind", [(Dense, {}), (Quantized, {"bits": 8, "steady": True})], ids=["dense", "int8"])
def test_a_run_that_goes_on_from_its_state_has_the_same_bits(kind):
    codec, more = kind
    whole = play(peers(codec, **more))
    first = peers(codec, **more)
    play(first, range(4))
    second = peers(codec, **more)
    for (before, body), (after, empty) in zip(first, second, strict=True):
        empty.data.copy_(body.data)
        after.restore({name: value.clone() for name, value in before.state().items()})
    for ours, theirs in zip(play(second, range(4, ROUNDS)), whole[4:], strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_quantized_bodies_stay_near_the_recursion_over_many_rounds():
    ours = play(peers(Quantized, bits=8, steady=True), range(60), last=59)
    for bodies, theirs in zip(ours, recursion(60), strict=True):
        np.testing.assert_allclose(bodies.mean(axis=0), theirs.mean(axis=0), atol=1e-3)
    assert np.abs(ours[-1] - recursion(60)[-1]).max() < 0.5


def ahead():
    """A peer that has released 1 in round 0 and 2 in round 1, and one that has released nothing."""
    (step, body), other = peers()[:2]
    for number in range(2):
        body.data.fill_(number + 1.0)
        step.release(number)
    return step, body, *other


def test_a_peer_that_sits_a_round_out_begins_again_without_a_late_difference():
    step, body, other, theirs = ahead()
    step.discard()
    assert step.held(1) is None
    theirs.data.fill_(5.0)
    step.adopt({1: other.release(4)}, lambda ranks: {1: 1.0})
    assert body.data.tolist() == [5.0] * COUNT
    body.data.fill_(7.0)
    step.release(5)
    assert step.mix({}, row_of(RING, 0)) == {}  # the last round: nothing was trained ahead
    assert body.data.tolist() == [7.0] * COUNT


def test_a_body_that_is_not_finite_is_left_out():
    step, body, other, theirs = ahead()
    theirs.data.fill_(float("nan"))
    assert step.mix({1: other.release(0)}, row_of(RING, 0)) == {1: "not-finite"}
    assert body.data.tolist() == [2.0] * COUNT


def test_what_rounding_took_from_a_release_of_the_last_round_alone_stays():
    step, body = peers(Quantized, bits=4, steady=True)[0]
    body.data += torch.from_numpy(training(0, 0))
    trained = body.data.clone()
    step.release(0)
    assert step.mix({}, row_of(RING, 0)) == {}
    np.testing.assert_allclose(body.data, trained, rtol=0, atol=1e-6)
