"""Transfer time of bodies on lines of known rate and round trip: for one peer, and for all peers of a graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FIRST_WINDOW = 14_600
"""Bytes that a TCP connection sends before the first acknowledgement: ten segments (RFC 6928)."""


@dataclass(frozen=True)
class LineSpeed:
    """The line from one peer to a neighbor.

    Attributes:
        sends: To the neighbor, in bits per second.
        receives: From it, in bits per second.
        round_trip: Seconds that a small message and its answer take together.
    """

    sends: float
    receives: float
    round_trip: float = 0.0


def delay_seconds(
    payload: float, rate: float | NDArray[np.float64], round_trip: float | NDArray[np.float64]
) -> NDArray[np.float64]:
    """The seconds that a body takes beyond its bytes over the rate: half the round trip, and TCP's slow start.

    After a round's training a connection begins anew with `FIRST_WINDOW` bytes, and doubles them every round trip until
    they fill the line. Of its k doublings all but one are lost: those before the last send half as much together.

    Args:
        payload: The bytes of the body.
        rate: In bits per second; a number, or one for each line.
        round_trip: In seconds, of the same shape.

    Returns:
        Seconds, of the same shape.
    """
    full = np.minimum(payload, np.multiply(rate, round_trip) / 8)
    doublings = np.log2(np.maximum(full, FIRST_WINDOW) / FIRST_WINDOW)
    found: NDArray[np.float64] = np.multiply(round_trip, 0.5 + np.maximum(0.0, doublings - 1))
    return found


def exchange_seconds(
    payload: float, lines: Mapping[int, LineSpeed], out: Collection[int], into: Collection[int]
) -> float:
    """The seconds in which a peer sends its body to some neighbors and gets theirs, both at once.

    Its own line carries as much as the fastest of its edges does alone. An edge is slower where the neighbor's line is.

    Args:
        payload: The bytes of one body.
        lines: The lines to neighbors, by rank; one that lacks is as slow as the slowest.
        out: The neighbors that it sends to.
        into: The neighbors that it gets bodies from.
    """
    if not lines or not (out or into):
        return 0.0
    slowest = LineSpeed(
        min(one.sends for one in lines.values()),
        min(one.receives for one in lines.values()),
        max(one.round_trip for one in lines.values()),
    )
    sends = [(one.sends, one.round_trip) for one in (lines.get(rank, slowest) for rank in out)]
    receives = [(one.receives, one.round_trip) for one in (lines.get(rank, slowest) for rank in into)]
    up, down = max(one.sends for one in lines.values()), max(one.receives for one in lines.values())
    bits = 8 * payload
    return max(
        max(*(bits / rate for rate, _ in edges), len(edges) * bits / own)
        + max(float(delay_seconds(payload, *edge)) for edge in edges)
        for edges, own in ((sends, up), (receives, down))
        if edges
    )


class MeasuredLines:
    """The lines between all peers of a federation, of which some have been measured.

    What one end has measured counts for the other end, too. An edge without a measurement is as fast as the slower of
    its two ends, an end without any as the slowest that is known. Its round trip is the mean of those that are known.

    Args:
        size: The number of peers.
        measured: By rank, the lines to its neighbors, by their ranks; one at least.

    Attributes:
        sends, receives: What each peer can send and receive at most, in bits per second, shape (size,).
        rates: From the sender (row) to the receiver (column), in bits per second, shape (size, size).
        round_trips: In seconds, shape (size, size).

    Raises:
        ValueError: Nothing was measured.
    """

    def __init__(self, size: int, measured: Mapping[int, Mapping[int, LineSpeed]]) -> None:
        rates, trips = np.full((size, size), np.nan), np.full((size, size), np.nan)
        for ends_first in (False, True):  # a rank's own word on what it sends comes last
            for rank, lines in measured.items():
                for neighbor, line in lines.items():
                    if rank < size and neighbor < size:
                        a, b = (rank, neighbor) if ends_first else (neighbor, rank)
                        rates[a, b] = line.sends if ends_first else line.receives
                        trips[rank, neighbor] = trips[neighbor, rank] = line.round_trip
        if np.isnan(rates).all():
            raise ValueError("no line of these ranks was measured")
        self.sends, self.receives = _ends(rates), _ends(rates.T)
        self.rates = np.where(np.isnan(rates), np.minimum.outer(self.sends, self.receives), rates)
        self.round_trips = np.where(np.isnan(trips), np.nanmean(trips), trips)

    def seconds(self, edges: NDArray[np.bool_], payload: float) -> float:
        """The seconds in which all peers exchange bodies: those of the slowest; see `exchange_seconds`.

        Args:
            edges: Who sends to whom, sender by row, shape (size, size).
            payload: The bytes of one body.
        """
        if not edges.any():
            return 0.0
        bits = 8 * payload
        delays = delay_seconds(payload, self.rates, self.round_trips)
        by_edge = np.where(edges, bits / self.rates, 0.0)
        out = np.maximum(by_edge.max(axis=1), edges.sum(axis=1) * bits / self.sends)
        into = np.maximum(by_edge.max(axis=0), edges.sum(axis=0) * bits / self.receives)
        worst = np.where(edges, delays, 0.0)
        return float(max((out + worst.max(axis=1)).max(), (into + worst.max(axis=0)).max()))


def _ends(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """What each peer can send at most; of one that lacks any measurement, the slowest that is known."""
    known = ~np.isnan(rates).all(axis=1)
    found: NDArray[np.float64] = np.max(np.where(np.isnan(rates), -np.inf, rates), axis=1)
    found[~known] = found[known].min()
    return found
