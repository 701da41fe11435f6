"""Base of codecs that send a part of each change, as CHOCO-SGD does with a consensus step below one.

Koloskova, Stich and Jaggi, Decentralized Stochastic Optimization and Gossip Algorithms with Compressed Communication,
ICML 2019, Algorithm 2. C keeps a part of a vector: ||x - C(x)||^2 <= (1 - delta) ||x||^2. y_i is the sum of all that
peer i has released, which its neighbors know too, and gamma is the consensus step:

    y_i <- y_i + C(z_i - y_i)
    x_i <- z_i + gamma * sum over j of W_ij (y_j - y_i)

What C leaves out stays in x_i, and travels with later changes. The mean of all x is kept whatever C does, for the
columns of W sum to one. With gamma = 1 the step diverges where C leaves much out: y_j may be far behind x_j.

A neighbor that has missed a change cannot use the next ones. A change from the common start would not help it, since C
leaves most of that out. So peers name the releases that they have mixed. Where a neighbor lacks one, all values travel
once, in float32, and y_i is z_i then. Each payload names what its change is counted from, by a hash of the payloads
that made it. So no two peers can mistake different sums for the same.
"""

from __future__ import annotations

import hashlib
import struct
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from dpeer.receivers import Receivers
from dpeer.training import payload
from dpeer.training.codecs.base import Codec, Undecodable
from dpeer.training.codecs.sizes import HEADER
from dpeer.training.device import CPU, host
from dpeer.training.payload import Buffer, Payload

_BASE = struct.Struct(f"<{HEADER}s")
_START, _NOTHING = b"start".ljust(HEADER), b"nothing".ljust(HEADER)
"""In place of a hash: the change is from the common start; it is no change, but all values."""

_CONFIRMED = 3
"""The rounds after which each receiver has named a release as mixed. A resumed peer knows of one round less."""

Known = tuple[bytes, Tensor]
"""The sum of a peer's releases, shape (count,), float32, on the host, and the hash of what made it."""


class Contraction(Codec):
    """Sends a part of the change of all values since the last release; or all values, where a receiver needs them.

    A class needs `usual_bytes`, `compress` and `expand`.

    Args:
        start: The common start of all peers, shape (count,), float32.
        rank: This peer.
        step: The consensus step gamma.
    """

    error_feedback = True
    pushes = True

    def __init__(self, start: Tensor, rank: int, step: float) -> None:
        super().__init__(start, rank)
        self.consensus_step = step
        self._start = host(start).clone()
        self._known: dict[int, Known] = {}
        self._decoded: dict[int, Known] = {}
        self._confirmed: dict[int, int] = {}
        self._receivers: Collection[int] = ()
        self._whole = False
        self._last_whole = -_CONFIRMED

    @property
    @abstractmethod
    def usual_bytes(self) -> int:
        """The bytes of a payload with a part of a change."""

    @abstractmethod
    def compress(self, change: Tensor, number: int) -> list[Buffer]:
        """The buffers of the part of a finite change that travels.

        Args:
            change: Shape (count,), float32, on the host.
            number: The round.
        """

    @abstractmethod
    def expand(self, known: Tensor, buffers: Sequence[Buffer]) -> Tensor:
        """A new vector: the known one and the part of a change in these buffers; a hostile neighbor may choose them.

        Raises:
            Undecodable: They are of another size, or impossible.
        """

    @property
    def payload_bytes(self) -> int:
        """Those of all values; changes are far shorter."""
        return HEADER + 4 * self.count

    def push_to(self, receivers: Receivers) -> None:
        """See `Learner.push_to` of dpeer.peer: a receiver that lacks an earlier release needs all values."""
        self._whole |= bool(receivers.adopting)
        self._receivers = [rank for rank in receivers.column if rank not in receivers.away]
        for rank, number in receivers.confirmed.items():
            self._confirmed[rank] = max(number, self._confirmed.get(rank, number))

    def encode(self, values: Tensor, number: int) -> Payload:
        """Header (what the change is from), and the part of the change; or header and all values."""
        values = host(values)
        base, known = self._known.get(self.rank, (_START, self._start))
        change = values - known
        if self._whole or self._is_missed(number) or not bool(torch.isfinite(change.sum())):
            self._whole, self._last_whole = False, number
            return [_BASE.pack(_NOTHING), payload.encode(values)]
        return [_BASE.pack(base), *self.compress(change, number)]

    def _is_missed(self, number: int) -> bool:
        """Whether a receiver has not named a release as mixed that it should have by now."""
        due = number - _CONFIRMED
        return due >= self._last_whole and any(self._confirmed.get(rank, -1) < due for rank in self._receivers)

    def decode(self, rank: int, payload_: Payload) -> list[Tensor]:
        """The sum of the sender's releases; "stale" for a change of a sum that this peer has not got."""
        header, *buffers = payload_
        (base,) = _BASE.unpack(header)
        if base == _NOTHING:
            (whole,) = buffers
            vectors = payload.views([whole], self.count)
            if vectors is None:
                raise Undecodable("wrong-size")
            released = torch.cat([self._start[:0], *vectors])
        else:
            found, known = self._known.get(rank, (_START, self._start)) if base != _START else (_START, self._start)
            if found != base:
                raise Undecodable("stale")
            released = self.expand(known, buffers)
        tag = hashlib.blake2b(digest_size=HEADER)
        for part in (header, *buffers):
            tag.update(part)
        self._decoded[rank] = tag.digest(), released
        return [released]

    def mixed(self, ranks: Collection[int]) -> None:
        """Changes are counted from these releases."""
        self._known.update({rank: self._decoded[rank] for rank in (*ranks, self.rank) if rank in self._decoded})
        self._decoded = {}

    def forget(self, ranks: Collection[int]) -> None:
        """The next release is all values."""
        for rank in ranks:
            self._known.pop(rank, None)
            self._confirmed.pop(rank, None)
        self._whole |= bool(ranks)

    def state(self) -> Mapping[str, Tensor]:
        """The sums of all releases of this peer and its neighbors, by ``RANK/HASH``, and who has mixed which."""
        confirmed = sorted(self._confirmed.items())
        return {
            **{f"{rank}/{tag.hex()}": values for rank, (tag, values) in self._known.items()},
            "confirmed": torch.tensor(confirmed, dtype=torch.int64, device=CPU).reshape(-1, 2),
            "whole": torch.tensor([self._whole, self._last_whole], dtype=torch.int64, device=CPU),
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """See `Codec.restore`."""
        known = {}
        for name, values in state.items():
            rank, slash, tag = name.partition("/")
            if slash and rank.isdecimal():
                if values.shape != self._start.shape:
                    raise ValueError(f"a body of {tuple(values.shape)} parameters")
                known[int(rank)] = bytes.fromhex(tag), host(values)
        whole, last = state["whole"].tolist()
        self._confirmed = {int(rank): int(number) for rank, number in state["confirmed"].tolist()}
        self._whole, self._last_whole = bool(whole), int(last)
        self._known, self._decoded = known, {}
