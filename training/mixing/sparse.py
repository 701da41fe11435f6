"""Gossip step of sparse models: each coordinate is averaged over the peers that hold it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from dpeer.training.codecs.masked import Masked
from dpeer.training.mixing.gossip import Gossip
from dpeer.training.mixing.guard import Vectors


class SparseGossip(Gossip):
    """A coordinate becomes the mean over the peers that hold it, weighted by the row.

    The weights of a coordinate are therefore not doubly stochastic. A mean of what others hold is no model: a peer that
    comes back adopts none, and goes on with its own.
    """

    codec: Masked
    compares = False  # masks differ: most coordinates would
    adopts = False

    def _fits(self, body: Vectors) -> bool:
        return True  # the codec has compared the values with their mask

    def _own(self) -> Vectors:
        if self._released is None:
            self._released = [self._body.data[self.codec.mask], self.codec.mask]
        return self._released

    def _sum(self, into: Tensor, bodies: Mapping[int, Vectors], row: Mapping[int, float], distances: Any) -> bool:
        own, device = self._own(), into.device
        total, weight = torch.zeros_like(into), torch.zeros_like(into)
        for rank in sorted(row):
            values, mask = (vector.to(device) for vector in (own if rank == self._rank else bodies[rank]))
            total[mask] += values * row[rank]
            weight[mask] += row[rank]
        into.copy_(torch.where(weight > 0, total / weight, 0.0))
        return bool(torch.isfinite(into).all())
