"""How a run ended, from files that may be of different ages."""

from __future__ import annotations

from collections.abc import Mapping

from dpeer.results.runs import Peer
from dpeer.results.summaries import RunSummary


def find_status(summary: RunSummary | None, peers: Mapping[int, Peer]) -> tuple[str, bool]:
    """How a run ended, and whether its summary.json speaks of what the peers' files show.

    A run that is resumed or done again leaves the summary of the earlier one in place until it ends.

    Args:
        summary: summary.json over all peers; None if there is none.
        peers: What each peer left.

    Returns:
        done, stopped, failed or unfinished (running, or killed); and whether the summary counts.
    """
    if summary is not None:
        if any(_went_on(summary, peer) for peer in peers.values()):
            return "unfinished", False
        return summary.status, True
    own = [peer.summary for peer in peers.values()]
    if any(one is None for one in own):
        return "unfinished", False
    # `dpeer start` leaves no summary over all peers: theirs were brought together by hand, maybe not all of them.
    return ("done" if all(one is not None and one.status == "done" for one in own) else "stopped"), False


def _went_on(summary: RunSummary, peer: Peer) -> bool:
    counted = summary.completed_rounds
    said = counted[peer.rank] if peer.rank < len(counted) else None
    # A peer that was killed has no summary either, and counts as null.
    return peer.summary is None and bool(peer.entries) and said is not None and max(peer.entries) + 1 != said
