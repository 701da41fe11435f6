"""Dividing samples among peers, and a peer's samples into training, validation and test."""

from __future__ import annotations

from dpeer.training.partitions.assign import Indices
from dpeer.training.partitions.division import partition, partition_pools
from dpeer.training.partitions.duplicate_split import hold_out_alike
from dpeer.training.partitions.holdout import FEWEST, enough, hold_out
from dpeer.training.partitions.natural import deal_groups
from dpeer.training.partitions.record_split import hold_out_apart
from dpeer.training.partitions.remarks import remarks
from dpeer.training.partitions.schemes import NATURAL, OWN, check_spec, parse

__all__ = [
    "FEWEST", "NATURAL", "OWN", "Indices", "check_spec", "deal_groups", "enough", "hold_out", "hold_out_alike",
    "hold_out_apart", "parse", "partition", "partition_pools", "remarks",
]  # fmt: skip
