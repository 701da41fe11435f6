"""The weighted sum of bodies, where the own body is: in the host's memory or on a GPU."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dpeer.training.payload import weighted_sum


def mix(body: Tensor, terms: Sequence[tuple[Sequence[Tensor], float]]) -> None:
    """Body <- sum of weight * values, in the order given, in float32.

    Args:
        body: Shape (count,), float32, on the host or a GPU; none of the terms.
        terms: At least one; each vectors of together shape (count,), float32 or halves, on the host, with their weight.
    """
    if body.is_cuda:
        _mix_on_gpu(body, terms)
    else:
        weighted_sum(body, terms)


def _mix_on_gpu(body: Tensor, terms: Sequence[tuple[Sequence[Tensor], float]]) -> None:
    """One vector is copied to the GPU, on a stream of its own, while the one before is added.

    From page-locked memory such copies do not wait for the host, nor the host for them; so at the end the host waits
    for them all: the memory may be given to the next payload then.
    """
    adding, copying = torch.cuda.current_stream(body.device), torch.cuda.Stream(body.device)  # type: ignore[no-untyped-call]
    rooms = [torch.empty_like(body, dtype=terms[0][0][0].dtype) for _ in range(2)]
    added = [torch.cuda.Event() for _ in rooms]  # type: ignore[no-untyped-call]
    copying.wait_stream(adding)  # the rooms' memory may have been in use until now
    body.zero_()
    for index, (vectors, weight) in enumerate(terms):
        room, done = rooms[index % 2], added[index % 2]
        with torch.cuda.stream(copying):
            copying.wait_event(done)
            for part, values in zip(torch.split(room, [len(vector) for vector in vectors]), vectors, strict=True):
                part.copy_(values, non_blocking=True)
        adding.wait_stream(copying)
        body.add_(room, alpha=weight)
        done.record(adding)
    copying.synchronize()
