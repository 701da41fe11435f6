"""The weighted sum of bodies, where the own body is: in the host's memory or on a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from dpeer.training.payload import weighted_sum


def mix(body: Tensor, terms: Sequence[tuple[Sequence[Tensor], float]]) -> bool:
    """Body <- sum of weight * values, in the order given, in float32.

    Args:
        body: Shape (count,), float32, on the host or a GPU; it must not be one of the terms.
        terms: At least one; each vectors of together shape (count,), float32 or halves, on the host, with their weight.

    Returns:
        Whether all terms are known to be finite. (A sum of large ones may overflow.)
    """
    if body.device.type == "cpu":
        total = weighted_sum(body, terms)
    else:
        body.zero_()
        if body.numel():
            _add_there(body, terms)
        total = body.sum()
    return bool(torch.isfinite(total))


def _add_there(body: Tensor, terms: Sequence[tuple[Sequence[Tensor], float]]) -> None:
    """Add to a body on a GPU: one vector is copied there, on a stream of its own, while the one before is added.

    From page-locked memory such copies do not wait for the host, nor the host for them; so at the end the host waits
    for them all: the memory may be given to the next payload then.
    """
    rooms = [torch.empty_like(body, dtype=terms[0][0][0].dtype) for _ in range(2)]
    copies = _Stream(body.device) if torch.cuda.is_available() else _NoStream()
    for index, (vectors, weight) in enumerate(terms):
        room = rooms[index % 2]
        with copies.into(index % 2):
            for part, values in zip(torch.split(room, [vector.numel() for vector in vectors]), vectors, strict=True):
                part.copy_(values, non_blocking=True)
        body.add_(room, alpha=weight)
        copies.used(index % 2)
    copies.wait()


class _NoStream:
    """Copies to a device without streams, each made at once."""

    @contextmanager
    def into(self, room: int) -> Iterator[None]:
        """Within it copies into this memory are begun; after it they can be used in computations."""
        yield

    def used(self, room: int) -> None:
        """Let the memory be overwritten once the computations that have been begun are done."""

    def wait(self) -> None:
        """Wait until all copies are done."""


class _Stream(_NoStream):
    """Copies beside the computations of a CUDA device; they wait for each other on the device, not here."""

    def __init__(self, device: torch.device) -> None:
        self._adding = torch.cuda.current_stream(device)
        self._copying = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._used = [torch.cuda.Event() for _ in range(2)]  # type: ignore[no-untyped-call]
        self._copying.wait_stream(self._adding)  # the rooms' memory may have been in use until now

    @contextmanager
    def into(self, room: int) -> Iterator[None]:
        with torch.cuda.stream(self._copying):
            self._copying.wait_event(self._used[room])
            yield
        self._adding.wait_stream(self._copying)

    def used(self, room: int) -> None:
        self._used[room].record(self._adding)

    def wait(self) -> None:
        self._copying.synchronize()
