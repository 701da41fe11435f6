"""The distance between the peers' bodies in each round, which only a process that has all bodies can measure."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

from dpeer.peer import Worker
from dpeer.results.reading import read_distances


class Disagreement:
    """DIR/disagreement.jsonl of a simulation: one line a round, ``{"round", "consensus_distance"}``.

    Args:
        path: The file.
        bodies: Gives a copy of each peer's body, by rank, shape (body_parameters,).
        worker: Where distances are computed and written.
        every: The distance is measured in every so many rounds, as the peers evaluate.
        rounds: How many rounds there are.
        resume: Rounds that an earlier part of the run has written are not written again.
    """

    def __init__(
        self,
        path: Path,
        bodies: Sequence[Callable[[], Tensor]],
        worker: Worker,
        *,
        every: int,
        rounds: int,
        resume: bool,
    ) -> None:
        self._path, self._bodies, self._worker = path, bodies, worker
        self._every, self._rounds = every, rounds
        self._last: asyncio.Task[None] | None = None
        self._waiting: dict[int, dict[int, Tensor]] = {}
        self._known = read_distances(path).keys() if resume else frozenset[int]()

    def record(self, rank: int, number: int) -> None:
        """Take note that a peer has completed a round and not begun the next.

        The line is written once all peers have completed the round, so a round that only some complete is left out.
        """
        if ((number + 1) % self._every and number + 1 < self._rounds) or number in self._known:
            return
        here = self._waiting.setdefault(number, {})
        here[rank] = self._bodies[rank]()
        if len(here) == len(self._bodies):
            del self._waiting[number]
            self._last = asyncio.create_task(self._after(self._last, number, [here[rank] for rank in sorted(here)]))

    async def written(self) -> None:
        """Wait until every line is in the file."""
        if self._last is not None:
            await self._last

    async def _after(self, before: asyncio.Task[None] | None, number: int, bodies: list[Tensor]) -> None:
        if before is not None:
            await before
        await self._worker.run(self._write, number, bodies)

    def _write(self, number: int, bodies: list[Tensor]) -> None:
        if not bodies[0].numel():
            return
        mean = torch.zeros_like(bodies[0], dtype=torch.float64)
        for body in bodies:
            mean.add_(body, alpha=1 / len(bodies))
        square = fmean(float((body - mean).square().sum()) for body in bodies)
        with self._path.open("a") as file:
            file.write(json.dumps({"round": number, "consensus_distance": math.sqrt(square)}) + "\n")
