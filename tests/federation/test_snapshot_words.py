"""Readiness: which snapshots are of a peer that takes part in its federation."""

from dataclasses import asdict, replace

import pytest

from dpeer.federation.snapshot_words import unready
from dpeer.peer.snapshot import Snapshot

READY = Snapshot(0, 1, "work", 20, 9, mixed_round=8)
"""It is in its tenth round, and has mixed in the ninth."""


@pytest.mark.parametrize("phase", ["work", "collect", "settle", "linger", "part"])
def test_a_peer_that_has_mixed_takes_part_whatever_it_waits_for_in_a_round(phase):
    assert unready(asdict(replace(READY, phase=phase))) is None


@pytest.mark.parametrize(("mixed", "within", "ready"), [(6, 3, True), (5, 3, False), (5, 4, True), (8, 1, True)])
def test_it_has_mixed_within_its_last_rounds(mixed, within, ready):
    assert (unready(asdict(replace(READY, mixed_round=mixed)), within) is None) is ready


@pytest.mark.parametrize(
    ("snapshot", "why"),
    [
        (replace(READY, phase="starting"), "it starts"),
        (replace(READY, phase="meet"), "it waits for its neighbors, before the start"),
        (replace(READY, phase="ended"), "its rounds are over"),
        (replace(READY, phase="pause", why="cut off from all neighbors"), "it pauses: cut off from all neighbors"),
        (replace(READY, sits_out=True), "it sits out rounds that the others ran without it"),
        (replace(READY, mixed_round=2), "it has mixed in none of the last 6 rounds (since round 3)"),
        (replace(READY, mixed_round=None), "it has mixed in none of 9 rounds"),
        (replace(READY, mixed_round=None, completed=0), "it has completed no round yet"),
    ],
)  # fmt: skip
def test_why_a_peer_takes_no_part(snapshot, why):
    """A process that answers and has not mixed for long is what a probe must not take for well."""
    assert unready(asdict(snapshot)) == why


def test_a_peer_without_neighbors_takes_part():
    assert unready(asdict(replace(READY, mixes=False, mixed_round=None))) is None
