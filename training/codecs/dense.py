"""The body as it is: 32-bit floats."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from dpeer.training import payload
from dpeer.training.codecs.base import Codec
from dpeer.training.flat import Flat
from dpeer.training.payload import Payload


class Dense(Codec):
    """Sends all values; the mix is u <- sum over j of row[j] * z_j.

    Args:
        body: What is sent and mixed.
        rank: The own rank.
    """

    def __init__(self, body: Flat, rank: int) -> None:
        self._body, self._rank = body, rank
        self._released: Tensor | None = None

    @property
    def payload_bytes(self) -> int:
        """Four bytes a parameter."""
        return 4 * self._body.count

    def release(self, number: int) -> Payload | None:
        """One buffer of little-endian float32."""
        self._released = self._body.data.clone()
        return [payload.encode(self._released)]

    def check(self, rank: int, payload_: Payload) -> str | None:
        """See `Codec.check`."""
        return payload.why_not(payload_, self._body.count)

    def mix(self, received: Mapping[int, Payload], row: Mapping[int, float]) -> None:
        """See `Codec.mix`."""
        body = self._body.data
        own = body.clone() if self._released is None else self._released
        with torch.no_grad():
            body.zero_()
            for rank in sorted(row):
                if rank == self._rank:
                    body.add_(own, alpha=row[rank])
                else:
                    payload.add_weighted(body, received[rank], row[rank])
        self._released = None
