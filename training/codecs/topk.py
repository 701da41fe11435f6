"""Top-k codec: the largest values of each change, as a place and a bfloat16 value.

Top-k is the sparsification of Stich, Cordonnier and Jaggi, Sparsified SGD with Memory, NeurIPS 2018; as a contraction
within CHOCO-SGD see `dpeer.training.codecs.contraction`. Values are chosen in blocks, so that a place takes two bytes.
They travel as bfloat16: what rounding takes away stays with the peer like the values that are not chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpeer.training import payload
from dpeer.training.codecs.base import Undecodable
from dpeer.training.codecs.contraction import Contraction
from dpeer.training.codecs.sizes import HEADER, INDEX_BLOCK, blocks
from dpeer.training.payload import Buffer

_ABSOLUTE = np.int32(0x7FFFFFFF)
"""Of the bits of a float32: without the sign they are in the order of the magnitudes."""

STEP = 2.0
"""The default consensus step over the share. With twice as much random bodies of 16 peers move apart."""

_SAMPLED = 16
"""Every so many values are looked at first."""


class TopK(Contraction):
    """Sends a share of the values of each block, those of the largest magnitude.

    Args:
        start: See `Contraction`.
        rank: This peer.
        share: The share of the values of a block that travel, rounded up.
        step: The consensus step; None for `STEP` times the share, at most 0.5.
    """

    def __init__(self, start: Tensor, rank: int, share: float, step: float | None = None) -> None:
        super().__init__(start, rank, min(0.5, STEP * share) if step is None else step)
        self._blocks = blocks(self.count, share)

    @property
    def usual_bytes(self) -> int:
        """Header, and four bytes for each value that is chosen."""
        return HEADER + 4 * sum(chosen for _, chosen in self._blocks)

    def compress(self, change: Tensor, number: int) -> list[Buffer]:
        """Places in their blocks in ascending order, uint16, block by block; the values there, bfloat16."""
        values = change.numpy()
        magnitudes = values.view(np.int32) & _ABSOLUTE
        found, first = [], 0
        for size, chosen in self._blocks:
            found.append(largest(magnitudes[first : first + size], chosen))
            first += size
        places = np.concatenate([np.zeros(0, np.uint16), *found])
        there = change[torch.from_numpy(self._whole_places(places))]
        return [places.astype("<u2").tobytes(), payload.encode(there, "bfloat16")]

    def expand(self, known: Tensor, buffers: Sequence[Buffer]) -> Tensor:
        """See `Contraction.expand`."""
        coded, values = buffers
        chosen = sum(one for _, one in self._blocks)
        vectors = payload.views([values], chosen, "bfloat16")
        if memoryview(coded).nbytes != 2 * chosen or vectors is None:
            raise Undecodable("wrong-size")
        places = np.frombuffer(coded, dtype="<u2")
        released = known.clone()
        if chosen:
            where = torch.from_numpy(self._whole_places(places))
            # Ascending in each block, and so none twice.
            if bool((where[1:] <= where[:-1]).any()) or int(where[-1]) >= self.count:
                raise Undecodable("wrong-size")
            released[where] += vectors[0].float()
        return released

    def _whole_places(self, places: NDArray[np.uint16]) -> NDArray[np.int64]:
        """Places in the whole vector."""
        first = np.arange(len(self._blocks), dtype=np.int64) * INDEX_BLOCK
        return places.astype(np.int64) + np.repeat(first, [chosen for _, chosen in self._blocks])


def largest(magnitudes: NDArray[np.int32], chosen: int) -> NDArray[np.uint16]:
    """The ascending places of the largest values, of equal ones the first.

    Most values are less than a bound that a sample gives, and are never sorted.

    Args:
        magnitudes: Shape (size,), size at most 65,536.
        chosen: How many, at least one.
    """
    sample = magnitudes[::_SAMPLED]
    above = min(len(sample), chosen * len(sample) * 5 // (4 * len(magnitudes)) + 8)
    places = np.flatnonzero(magnitudes >= np.partition(sample, len(sample) - above)[len(sample) - above])
    if len(places) < chosen:
        places = np.arange(len(magnitudes))
    found = magnitudes[places]
    least = np.partition(found, len(found) - chosen)[len(found) - chosen]
    equal = np.flatnonzero(found == least)
    kept = found > least
    kept[equal[: chosen - np.count_nonzero(kept)]] = True
    there: NDArray[np.uint16] = places[kept].astype(np.uint16)
    return there
