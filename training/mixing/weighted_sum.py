"""Weighted sum of bodies, in the host's memory or on a GPU, block by block and without temporaries."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

_BLOCK = 2**18
"""Values that are handled together: few enough to stay in a cache, many enough not to count the calls."""


def weighted_sum(body: Tensor, terms: Sequence[tuple[Sequence[Tensor], float]]) -> bool:
    """Body <- sum of weight * values, in the order given, in float32.

    The body, on the host or a GPU, is none of the terms, which are vectors on the host, float32 or halves, with a
    weight.

    Returns:
        Whether all terms are known to be finite. (A sum of large ones may overflow.)
    """
    if body.device.type == "cpu":
        total = _sum_on_host(body, terms)
    else:
        body.zero_()
        if body.numel():
            _add_on_gpu(body, terms)
        total = body.sum()
    return math.isfinite(float(total))


def all_finite(vectors: Sequence[Tensor]) -> bool:
    """Whether no value is infinite or NaN."""
    for block in (block for vector in vectors for block in torch.split(vector, _BLOCK)):
        # A sum is several times faster than isfinite, and finite only if all terms are. Large finite terms can
        # overflow it, so only a sum that is not finite is looked into.
        if not torch.isfinite(block.float().sum()) and not torch.isfinite(block).all():
            return False
    return True


def _sum_on_host(total: Tensor, terms: Sequence[tuple[Sequence[Tensor], float]]) -> Tensor:
    """Total <- sum of weight * values, in the order given, in float32 and without temporaries of the vectors' size.

    Block by block, so that a total's block stays in the cache while all terms are added: each value is read once and
    each sum is written once. All are on the host.

    Returns:
        The total's own sum, a scalar: a value that is not finite, in whichever term, shows in it.
    """
    weights = [weight for _, weight in terms]
    bodies = [vectors for vectors, _ in terms]
    if 0 < total.numel() <= _BLOCK and all(len(vectors) == 1 for vectors in bodies):
        return _add_block(total, [vectors[0] for vectors in bodies], weights)  # the same without the search for ends
    sums = [total[:0].sum()]
    for here, *values in aligned([[total], *bodies]):
        sums.append(_add_block(here, values, weights))
    return torch.stack(sums).sum()


def _add_block(here: Tensor, values: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """Here <- sum of weight * values of a block; returns its own sum."""
    torch.mul(values[0].float(), weights[0], out=here)
    for block, weight in zip(values[1:], weights[1:], strict=True):
        here.add_(block.float(), alpha=weight)
    return here.sum()  # while it is in the cache


def aligned(bodies: Sequence[Sequence[Tensor]], size: int = _BLOCK) -> Iterator[tuple[Tensor, ...]]:
    """Several bodies side by side: the same few values of each at a time, as views.

    Every end of a vector and every multiple of `size` is an end.
    """
    cuts = {*range(0, sum(vector.numel() for vector in bodies[0]), size)}
    for vectors in bodies:
        cuts.update(itertools.accumulate(vector.numel() for vector in vectors))
    return zip(*(_blocks(vectors, cuts) for vectors in bodies), strict=True)


def _blocks(vectors: Sequence[Tensor], cuts: set[int]) -> Iterator[Tensor]:
    """The vectors, cut at these places; every end of a vector must be one of them."""
    places = iter(sorted(cuts - {0}))
    end = 0
    for vector in vectors:
        start, end = end, end + vector.numel()
        sizes = []
        while start < end:
            place = next(places)
            sizes.append(place - start)
            start = place
        yield from torch.split_with_sizes(vector, sizes)


def _add_on_gpu(body: Tensor, terms: Sequence[tuple[Sequence[Tensor], float]]) -> None:
    """Add to a body on a GPU: one vector is copied there, on a stream of its own, while the one before is added.

    From page-locked memory such copies do not wait for the host, nor the host for them; so at the end the host waits
    for them all: the memory may be given to the next payload then.
    """
    buffers = [torch.empty_like(body, dtype=terms[0][0][0].dtype) for _ in range(2)]
    copies = _Stream(body.device) if torch.cuda.is_available() else _NoStream()
    for index, (vectors, weight) in enumerate(terms):
        buffer = buffers[index % 2]
        with copies.into(index % 2):
            for part, values in zip(torch.split(buffer, [vector.numel() for vector in vectors]), vectors, strict=True):
                part.copy_(values, non_blocking=True)
        body.add_(buffer, alpha=weight)
        copies.used(index % 2)
    copies.wait()


class _NoStream:
    """Copies to a device without streams, each made at once."""

    @contextmanager
    def into(self, buffer: int) -> Iterator[None]:
        """Context in which copies into this memory are begun; after it they can be used in computations."""
        yield

    def used(self, buffer: int) -> None:
        """Let the memory be overwritten once the computations that have been begun are done."""

    def wait(self) -> None:
        """Wait until all copies are done."""


class _Stream(_NoStream):
    """Copies beside the computations of a CUDA device; they wait for each other on the device, not here."""

    def __init__(self, device: torch.device) -> None:
        self._adding = torch.cuda.current_stream(device)
        self._copying = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._used = [torch.cuda.Event() for _ in range(2)]  # type: ignore[no-untyped-call]
        self._copying.wait_stream(self._adding)  # the buffers' memory may have been in use until now

    @contextmanager
    def into(self, buffer: int) -> Iterator[None]:
        with torch.cuda.stream(self._copying):
            self._copying.wait_event(self._used[buffer])
            yield
        self._adding.wait_stream(self._copying)

    def used(self, buffer: int) -> None:
        self._used[buffer].record(self._adding)

    def wait(self) -> None:
        self._copying.synchronize()
