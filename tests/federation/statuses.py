"""Snapshots and rounds of peers, as tests of metrics and of the dashboard use them."""

from typing import Any

from dpeer.peer.snapshot import Awaited, NeighborSnapshot, Snapshot

WELL = Snapshot(
    2, 4711, "collect", 20, 9, 9, (Awaited(1, "in round 9"),), 2.5, mixed=(0,), missed=(1,), checkpoint_seconds=3.0,
    neighbors=(
        NeighborSnapshot(0, "alive", 9, 0.4, bytes_sent=1200, bytes_received=1300),
        NeighborSnapshot(1, "suspect", 8, 7.0, 'a "quoted"\nreason', bytes_sent=900, bytes_received=800),
        NeighborSnapshot(3, "unseen", None, None),
    ),
    member_list=1, next_list=2,
    mixed_round=7, mixed_seconds=12.0, round_seconds=1.5, left_seconds=16.5,
    disagreement=0.125, dropped={"stranger": 3, "late": 1}, epsilon=1.25, delta=1e-5, disk_free=5_000_000,
)  # fmt: skip
"""A peer that takes part; rank 1 is late."""


def entry(number: int, **more: Any) -> dict[str, Any]:
    """The fields of a line of metrics.jsonl that a history is made of."""
    return {
        "round": number, "train_seconds": 1.0, "exchange_seconds": 0.5, "mix_seconds": 0.25, "accuracy": 0.5,
        "test_loss": 1.5, "train_loss": 2.5, "heard": [0], "missed": [1], "bytes_sent": 7, **more,
    }  # fmt: skip
