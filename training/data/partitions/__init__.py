"""Dividing samples among peers, and a peer's samples into training, validation and test."""

from __future__ import annotations

from dpeer.training.data.partitions.assign import Indices
from dpeer.training.data.partitions.division import deal_groups, partition, partition_pools
from dpeer.training.data.partitions.holdout import FEWEST, enough, hold_out, hold_out_alike, hold_out_apart
from dpeer.training.data.partitions.remarks import remarks
from dpeer.training.data.partitions.schemes import NATURAL, OWN, check_spec, parse

__all__ = [
    "FEWEST", "NATURAL", "OWN", "Indices", "check_spec", "deal_groups", "enough", "hold_out", "hold_out_alike",
    "hold_out_apart", "parse", "partition", "partition_pools", "remarks",
]  # fmt: skip
