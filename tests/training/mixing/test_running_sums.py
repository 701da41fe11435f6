"""Running sums against the paper's equations in numpy: the mean is kept over directed, lossy graphs."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import pytest
import torch

from dpeer.exceptions import ConfigurationError
from dpeer.receivers import Receivers
from dpeer.topology import build
from dpeer.training.codecs.dense import Dense
from dpeer.training.codecs.sums import MOST_APART, Sums, SumsCodec
from dpeer.training.flat import Flat
from dpeer.training.mixing.gossip import Gossip
from dpeer.training.mixing.running_sums import RunningSums

COUNT = 6
SIZE = 8
Lost = Callable[[int, int, int], bool]


def starts(size: int = SIZE) -> list[np.ndarray[Any, Any]]:
    return [np.random.default_rng(rank).standard_normal(COUNT).astype(np.float32) for rank in range(size)]


def flat(start: np.ndarray[Any, Any]) -> Flat:
    return Flat("body", [("w", torch.nn.Parameter(torch.from_numpy(start.copy())))])


class Peers:
    """A federation whose messages are lost as a test says, without sockets."""

    def __init__(self, topology: str = "exponential-directed", size: int = SIZE, *, sums: bool = True) -> None:
        self.graphs, self.size = build(topology, size), size
        self.bodies = [flat(start) for start in starts(size)]
        self.taken: list[dict[int, int]] = [{} for _ in range(size)]
        self.steps: list[Gossip] = [
            RunningSums(body, rank) if sums else Gossip(body, rank, Dense(body.data, rank))
            for rank, body in enumerate(self.bodies)
        ]

    def column(self, number: int, rank: int) -> dict[int, float]:
        out = self.graphs.at(number, rank).out_neighbors
        return {other: self.graphs.at(number, other).row[rank] for other in out}

    def round(self, number: int, lost: Lost, away: Collection[int] = ()) -> None:
        sent = {}
        for rank in (one for one in range(self.size) if one not in away):
            self.steps[rank].push_to(Receivers(self.column(number, rank), away, self.taken[rank]))
            sent[rank] = self.steps[rank].release(number)
        for rank in sent:
            graph = self.graphs.at(number, rank)
            received = {
                other: payload
                for other in graph.in_neighbors
                if (payload := sent.get(other)) is not None and not lost(number, other, rank)
            }
            assert self.steps[rank].mix(received, graph.row.restricted_to) == {}
            for other in received:
                self.taken[other][rank] = number

    def models(self) -> np.ndarray[Any, Any]:
        return np.stack([body.data.numpy() for body in self.bodies])


def drops(share: float, seed: int = 1) -> Lost:
    rng = np.random.default_rng(seed)
    found: dict[tuple[int, int, int], bool] = {}
    return lambda number, sender, receiver: found.setdefault((number, sender, receiver), bool(rng.random() < share))


def by_the_paper(
    graphs: Any, rounds: int, lost: Lost, trained: Callable[[int, int], np.ndarray[Any, Any]]
) -> np.ndarray[Any, Any]:
    """The models of all peers after so many rounds: sigma, rho, and their differences, in float64."""
    x, y = np.stack(starts()).astype(float), np.ones(SIZE)
    weights = np.zeros((SIZE, SIZE))
    for rank in range(SIZE):
        for other, weight in graphs.at(0, rank).row.items():
            weights[rank, other] = weight
    sigma, eta = np.zeros((SIZE, COUNT)), np.zeros(SIZE)
    rho, nu = np.zeros((SIZE, SIZE, COUNT)), np.zeros((SIZE, SIZE))
    for number in range(rounds):
        x = x + y[:, None] * np.stack([trained(rank, number) for rank in range(SIZE)])
        sigma, eta = sigma + x, eta + y
        next_x, next_y = np.diag(weights)[:, None] * x, np.diag(weights) * y
        for receiver in range(SIZE):
            for sender in np.flatnonzero(weights[receiver]):
                if sender == receiver or lost(number, int(sender), receiver):
                    continue
                next_x[receiver] += weights[receiver, sender] * (sigma[sender] - rho[receiver, sender])
                next_y[receiver] += weights[receiver, sender] * (eta[sender] - nu[receiver, sender])
                rho[receiver, sender], nu[receiver, sender] = sigma[sender], eta[sender]
        x, y = next_x, next_y
    return x / y[:, None]


@pytest.mark.parametrize("topology", ["exponential-directed", "ring", "star"])
@pytest.mark.parametrize("share", [0.0, 0.4])
def test_every_model_is_that_of_the_equations_while_all_train(topology: str, share: float) -> None:
    def trained(rank: int, number: int) -> np.ndarray[Any, Any]:
        return np.full(COUNT, 0.1 * rank - 0.01 * number)

    peers, lost = Peers(topology), drops(share)
    for number in range(12):
        for rank, body in enumerate(peers.bodies):
            body.data += torch.from_numpy(trained(rank, number)).float()
        peers.round(number, lost)
    np.testing.assert_allclose(peers.models(), by_the_paper(peers.graphs, 12, drops(share), trained), atol=2e-5)


@pytest.mark.parametrize("topology", ["exponential-directed", "ring"])
def test_all_agree_on_the_true_mean_which_plain_mixing_misses(topology: str) -> None:
    mean = np.mean(starts(), 0)
    apart = {}
    for sums in (True, False):
        peers, lost = Peers(topology, sums=sums), drops(0.4)
        for number in range(150):
            peers.round(number, lost)
        np.testing.assert_allclose(peers.models(), np.broadcast_to(peers.models()[0], (SIZE, COUNT)), atol=1e-4)
        apart[sums] = np.abs(peers.models() - mean).max()
    assert apart[True] < 1e-4
    assert apart[False] > 0.02


def test_a_peer_that_has_missed_much_is_moved_by_its_training_and_no_further() -> None:
    """Of mass it has a thousandth left."""
    body = flat(np.ones(COUNT, np.float32))
    step = RunningSums(body, 0)
    for number in range(10):
        step.push_to(Receivers({1: 0.5}))
        before = body.data.clone()
        body.data += 0.25
        step.release(number)
        step.mix({}, lambda ranks: {0: 1.0})
        assert torch.allclose(body.data, before + 0.25, atol=1e-4)
    assert float(step.state()["masses"][0]) == pytest.approx(2.0**-10)


def test_without_losses_it_is_the_weighted_sum() -> None:
    ours, plain = Peers("ring"), Peers("ring", sums=False)
    for number in range(20):
        for peers in (ours, plain):
            peers.round(number, drops(0.0))
    np.testing.assert_allclose(ours.models(), plain.models(), atol=1e-6)


def test_a_sum_of_a_thousand_rounds_is_still_exact_to_four_digits() -> None:
    """It travels in float32, and what its rounding keeps back is pushed later: the error of a push is no drift."""
    size, mean = 3, np.mean(starts(3), 0)
    peers = Peers("ring", size)
    for number in range(1000):
        peers.round(number, drops(0.0))
    np.testing.assert_allclose(peers.models(), np.broadcast_to(mean, (size, COUNT)), atol=1e-4)
    np.testing.assert_allclose(peers.models().mean(0), mean, atol=1e-5)


def test_nothing_is_pushed_to_a_peer_that_is_away_which_then_adopts() -> None:
    """Mass stays with those that are there; a returner begins with the mean of its neighbors and a mass of one."""
    peers = Peers("ring")
    for number in range(5):
        peers.round(number, drops(0.0))
    for number in range(5, 200):
        peers.round(number, drops(0.0), away=[3])
    others = [rank for rank in range(SIZE) if rank != 3]
    masses = [float(peers.steps[rank].state()["masses"][0]) for rank in others]
    assert min(masses) > 0.8
    before = peers.models()[others]
    np.testing.assert_allclose(before, np.broadcast_to(before[0], before.shape), atol=1e-3)
    for rank in (2, 4):
        peers.steps[rank].forget([3])
    peers.steps[3].forget([2, 4])
    sent = {rank: peers.steps[rank].release(200) for rank in (2, 4)}
    row = peers.graphs.at(200, 3).row
    assert peers.steps[3].adopt({rank: body for rank, body in sent.items() if body}, row.without_own) == {}
    np.testing.assert_allclose(peers.models()[3], before[0], atol=1e-3)
    for rank in (2, 4):
        peers.steps[rank].mix({}, peers.graphs.at(200, rank).row.restricted_to)
    for number in range(201, 300):
        peers.round(number, drops(0.3, number))
    np.testing.assert_allclose(peers.models(), np.broadcast_to(before[0], (SIZE, COUNT)), atol=2e-3)


def test_what_was_sent_before_a_service_begins_is_not_taken() -> None:
    """A receiver that was forgotten takes the first sum as the one to count from, and of the next the difference."""
    sender, receiver = (RunningSums(flat(np.full(COUNT, value, np.float32)), rank)
                        for rank, value in ((0, 2.0), (1, 6.0)))  # fmt: skip
    half = {0: 0.5, 1: 0.5}

    def weigh(ranks: Collection[int]) -> Mapping[int, float]:
        return half if 0 in ranks else {1: 1.0}

    def give(number: int, away: Collection[int] = (), named: int = -1) -> float:
        sender.push_to(Receivers({1: 0.5}, away, {1: named}))
        receiver.push_to(Receivers({}))
        payload = sender.release(number)
        receiver.release(number)
        sender.mix({}, lambda ranks: {0: 1.0})
        assert payload is not None
        receiver.mix({0: payload}, weigh)
        return float(receiver.state()["masses"][0])

    assert give(0) == pytest.approx(1.5)
    assert give(1, away=[1], named=0) == pytest.approx(1.5)
    assert give(2) == pytest.approx(1.5)
    assert give(3) == pytest.approx(1.5), "it has not named a sum"
    assert give(4, named=3) == pytest.approx(1.75), "from here on it counts"
    assert give(5) == pytest.approx(1.875)
    assert float(sender.state()["masses"][0]) == pytest.approx(0.125)
    receiver.forget([0])
    assert give(6, named=5) == pytest.approx(1.875), "what came between is not known"
    assert float(sender.state()["masses"][0]) == pytest.approx(0.0625)
    sender.forget([1])
    assert float(sender.state()["masses"][0]) == pytest.approx(0.125), "what was pushed comes back"
    assert give(7) == pytest.approx(1.875)
    assert give(8, named=7) == pytest.approx(1.875 + 0.0625)


def test_a_resumed_peer_goes_on_to_the_bit() -> None:
    ours, other = Peers(), Peers()
    for number in range(6):
        for peers in (ours, other):
            peers.round(number, drops(0.4), away=[5] if number in (2, 3) else [])
    for rank in range(SIZE):
        body = flat(other.models()[rank])
        step = RunningSums(body, rank)
        step.restore({name: values.clone() for name, values in other.steps[rank].state().items()})
        other.bodies[rank], other.steps[rank] = body, step
    for number in range(6, 10):
        for peers in (ours, other):
            peers.round(number, drops(0.4, 2))
    np.testing.assert_array_equal(ours.models(), other.models())


def test_a_state_of_another_model_is_refused() -> None:
    step = RunningSums(flat(np.zeros(COUNT, np.float32)), 0)
    with pytest.raises(ValueError, match="running sums of"):
        step.restore({**step.state(), "totals": torch.zeros(COUNT + 1)})


GOOD = Sums(3, torch.arange(COUNT).float(), 0.5, torch.ones(COUNT), 4.0, {2: 7, 5: -1}, {4: 2})


def test_a_payload_comes_back_and_is_the_model() -> None:
    codec = SumsCodec(torch.zeros(COUNT), 0)
    payload = codec.pack(GOOD)
    assert sum(len(one) for one in payload) == 32 + 3 * 8 + 8 * COUNT <= codec.payload_bytes
    found = codec.unpack([payload[0][:11], payload[0][11:]])
    assert (found.number, found.mass, found.total_mass) == (3, 0.5, 4.0)
    assert (found.apart, found.taken) == ({2: 7, 5: -1}, {4: 2})
    assert torch.equal(found.values, GOOD.values)
    assert torch.equal(found.totals, GOOD.totals)
    assert torch.equal(codec.decode(1, payload)[0], 2 * GOOD.values)
    first = codec.unpack(codec.encode(GOOD.values, 0))
    assert (first.mass, first.total_mass) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ([b""], "wrong-size"),
        ([bytes(31)], "wrong-size"),
        ([bytes(32 + 8 * COUNT - 1)], "wrong-size"),
        ([bytes(24) + b"\xff\xff\xff\x7f" + bytes(4 + 8 * COUNT)], "wrong-size"),
        ([bytes(24) + b"\xff\xff\xff\xff" + bytes(4 + 8 * COUNT)], "wrong-size"),
        ([bytes(32 + 8 * COUNT)], "not-finite"),
        (SumsCodec(torch.zeros(COUNT), 0).pack(Sums(0, GOOD.values, 1.0, GOOD.totals * np.nan, 1.0)), "not-finite"),
        (SumsCodec(torch.zeros(COUNT), 0).pack(Sums(0, GOOD.values, np.inf, GOOD.totals, 1.0)), "not-finite"),
        (SumsCodec(torch.zeros(COUNT), 0).pack(Sums(0, GOOD.values, -1.0, GOOD.totals, 1.0)), "not-finite"),
    ],
)
def test_what_a_hostile_neighbor_sends_is_left_out(payload: list[Any], reason: str) -> None:
    step = RunningSums(flat(np.ones(COUNT, np.float32)), 0)
    step.push_to(Receivers({1: 0.5}))
    step.release(0)
    assert step.check(1, payload) == reason
    assert step.mix({1: payload}, lambda ranks: {0: 0.5, **dict.fromkeys(ranks, 0.5)}) == {1: reason}


def test_more_receivers_than_a_message_can_name_are_refused() -> None:
    step = RunningSums(flat(np.ones(COUNT, np.float32)), 0)
    with pytest.raises(ConfigurationError, match="4097 receivers"):
        step.push_to(Receivers(dict.fromkeys(range(1, MOST_APART + 2), 1e-5)))
