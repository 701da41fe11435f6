"""Transfer time of bodies: against slow start played out, and sums edge by edge."""

import numpy as np
import pytest

from dpeer.topology import build
from dpeer.topology.transfer_time import FIRST_WINDOW, LineSpeed, MeasuredLines, delay_seconds, exchange_seconds

MBIT = 1e6


def played(payload: float, rate: float, round_trip: float) -> float:
    """A connection's windows one after the other: it waits for acknowledgements while a window does not fill the line.

    The last byte leaves then, and takes half a round trip.
    """
    window, left, now = float(FIRST_WINDOW), float(payload), 0.0
    while left > 0:
        sends = min(window, left)
        full = window * 8 / rate >= round_trip
        if full or left <= window:
            return now + left * 8 / rate + round_trip / 2
        left -= sends
        now += round_trip
        window *= 2
    return now


@pytest.mark.parametrize("payload", [1e4, 1e5, 5e5, 5e6, 45e6])
@pytest.mark.parametrize(
    ("rate", "round_trip"), [(100 * MBIT, 0.1), (20 * MBIT, 0.04), (1000 * MBIT, 0.01), (MBIT, 0.5)]
)
def test_the_delay_is_that_of_slow_start_within_a_round_trip(payload: float, rate: float, round_trip: float) -> None:
    found = delay_seconds(round(payload), rate, round_trip) + 8 * payload / rate
    assert found == pytest.approx(played(payload, rate, round_trip), abs=round_trip)


def test_a_line_without_delay_costs_its_bytes_alone() -> None:
    assert delay_seconds(10**9, MBIT, 0.0) == 0.0
    assert exchange_seconds(1000, {}, (1,), (1,)) == 0.0
    assert exchange_seconds(1000, {1: LineSpeed(MBIT, MBIT)}, (), ()) == 0.0


def test_two_bodies_share_the_own_line_and_a_slow_neighbor_holds_up() -> None:
    fast = {1: LineSpeed(10e6, 20e6), 2: LineSpeed(10e6, 20e6)}
    assert exchange_seconds(1e6, fast, (1, 2), (1, 2)) == pytest.approx(1.6), "16 Mbit up at 10"
    slow = {1: LineSpeed(10e6, 20e6), 2: LineSpeed(1e6, 20e6)}
    assert exchange_seconds(1e6, slow, (1, 2), (1, 2)) == pytest.approx(8.0), "8 Mbit to the slow one"
    assert exchange_seconds(1e6, slow, (1,), (1, 2)) == pytest.approx(0.8)
    assert exchange_seconds(1e6, slow, (1, 3), ()) == pytest.approx(8.0), "an unknown line is as slow as the slowest"


def test_a_delay_counts_in_its_own_direction() -> None:
    lines = {1: LineSpeed(1e9, 1e6, 0.2)}
    payload = 1_000_000
    assert exchange_seconds(payload, lines, (1,), (1,)) == pytest.approx(8.0 + delay_seconds(payload, 1e6, 0.2))
    assert delay_seconds(payload, 1e9, 0.2) > delay_seconds(payload, 1e6, 0.2)


def measured(size: int, seed: int) -> dict[int, dict[int, LineSpeed]]:
    draw = np.random.default_rng(seed)
    return {
        rank: {
            other: LineSpeed(draw.uniform(1e6, 1e8), draw.uniform(1e6, 1e8), draw.uniform(0, 0.2))
            for other in range(size)
            if other != rank and draw.random() < 0.5
        }
        for rank in range(size)
        if draw.random() < 0.7
    }


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", ["ring", "exponential-directed", "star"])
def test_a_graphs_seconds_are_those_of_its_slowest_peer(name: str, seed: int) -> None:
    """Against sums edge by edge with the lines that the arrays hold."""
    size, payload = 6, 2_000_000
    lines = MeasuredLines(size, measured(size, seed))
    weights = build(name, size).weights
    edges = (weights.T != 0) & ~np.eye(size, dtype=bool)
    worst = 0.0
    for rank in range(size):
        ways = [(lines.rates[rank, to], lines.round_trips[rank, to]) for to in range(size) if edges[rank, to]]
        back = [(lines.rates[of, rank], lines.round_trips[of, rank]) for of in range(size) if edges[of, rank]]
        for one, own in ((ways, lines.sends[rank]), (back, lines.receives[rank])):
            times = [8 * payload / rate for rate, _ in one] + [len(one) * 8 * payload / own]
            worst = max(worst, max(times) + max((delay_seconds(payload, *edge) for edge in one), default=0.0))
    assert lines.seconds(edges, payload) == pytest.approx(worst)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_known_is_taken_as_it_is_and_the_rest_is_filled(seed: int) -> None:
    size, known = 7, measured(7, seed)
    lines = MeasuredLines(size, known)
    for rank, own in known.items():
        for other, line in own.items():
            assert lines.rates[rank, other] == line.sends
            if rank not in known.get(other, {}):
                assert lines.rates[other, rank] == line.receives
    known_from = {rank for rank, own in known.items() if own} | {other for own in known.values() for other in own}
    slowest = min(lines.sends[rank] for rank in known_from)
    for rank in set(range(size)) - known_from:
        assert lines.sends[rank] == slowest
    assert np.isfinite(lines.rates).all()
    assert np.isfinite(lines.round_trips).all()


def test_nothing_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="no line"):
        MeasuredLines(3, {5: {6: LineSpeed(1, 1)}})
