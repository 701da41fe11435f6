"""Codec of running sums: a round's values with their mass, and the sums of all rounds, in one buffer."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from dpeer.training.codecs.base import Codec, Undecodable
from dpeer.training.payload import Payload

_HEAD = struct.Struct("<qddii")
_ENTRY = struct.Struct("<ii")

MOST_APART = 4096
"""Receivers, at most, that are not served as all the others are."""


@dataclass(frozen=True)
class Sums:
    """A peer's release of one round, for all its receivers.

    Attributes:
        number: The round.
        values: x of the round, shape (count,), float32; over `mass` it is the model.
        mass: y of the round.
        totals: The running sum of x, shape (count,), float32.
        total_mass: That of y.
        apart: By rank of a receiver that is not served from the first round on: the round whose sum it counts from,
            and takes nothing of; -1 if it is not served.
        taken: By rank of a sender the last round whose sum was taken or counted from, where that is not the one before.
    """

    number: int
    values: Tensor
    mass: float
    totals: Tensor
    total_mass: float
    apart: Mapping[int, int] = field(default_factory=dict)
    taken: Mapping[int, int] = field(default_factory=dict)


class SumsCodec(Codec):
    """Sends x, y and the running sums of both: eight bytes a value. What it decodes is the model x / y."""

    @property
    def payload_bytes(self) -> int:
        """With as many receivers and senders apart as can be."""
        return _HEAD.size + 2 * MOST_APART * _ENTRY.size + 8 * self.count

    def encode(self, values: Tensor, number: int) -> Payload:
        """A first release: its sums are the values themselves."""
        return self.pack(Sums(number, values, 1.0, values, 1.0))

    def decode(self, rank: int, payload: Payload) -> Sequence[Tensor]:
        """See `Codec.decode`."""
        found = self.unpack(payload)
        return [(found.values.double() / found.mass).float()]

    def pack(self, sums: Sums) -> Payload:
        """The payload of a release."""
        head = _HEAD.pack(sums.number, sums.mass, sums.total_mass, len(sums.apart), len(sums.taken))
        tables = [*sorted(sums.apart.items()), *sorted(sums.taken.items())]
        entries = b"".join(_ENTRY.pack(*one) for one in tables)
        vectors = (one.cpu().numpy().astype("<f4", copy=False).tobytes() for one in (sums.values, sums.totals))
        return [memoryview(b"".join([head, entries, *vectors]))]

    def unpack(self, payload: Payload) -> Sums:
        """The release that a payload holds; its vectors are copies.

        Raises:
            Undecodable: "wrong-size", "not-finite".
        """
        raw = payload[0] if len(payload) == 1 else b"".join(payload)
        try:
            number, mass, total_mass, *counts = _HEAD.unpack_from(raw)
            start = _HEAD.size + sum(counts) * _ENTRY.size
            few = all(0 <= count <= MOST_APART for count in counts)
            if not few or memoryview(raw).nbytes != start + 8 * self.count:
                raise Undecodable("wrong-size")
            entries = [*_ENTRY.iter_unpack(memoryview(raw)[_HEAD.size : start])]
            apart, taken = dict(entries[: counts[0]]), dict(entries[counts[0] :])
        except struct.error as error:
            raise Undecodable("wrong-size") from error
        both = torch.from_numpy(np.frombuffer(raw, "<f4", offset=start).astype(np.float32))
        if not (mass > 0 and math.isfinite(mass) and math.isfinite(total_mass) and bool(torch.isfinite(both).all())):
            raise Undecodable("not-finite")
        return Sums(number, both[: self.count], mass, both[self.count :], total_mass, apart, taken)
