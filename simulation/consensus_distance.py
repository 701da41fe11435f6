"""The consensus distance of each round, measured where one process has the bodies of all peers."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

from dpeer.exceptions import CheckpointError
from dpeer.peer import checkpoint
from dpeer.peer.worker import Worker
from dpeer.results.files import rank_folder
from dpeer.results.run_folders import read_distances
from dpeer.training.state.file_names import saved_body


class ConsensusLog:
    """DIR/disagreement.jsonl of a simulation: one line a round, ``{"round", "consensus_distance"}``.

    Args:
        bodies: Functions by rank that return a copy of the peer's body, shape (body_parameters,).
        every: The interval of measurements in rounds, that of the peers' evaluations.
        resume: Do not write again the rounds of an earlier part of the run; measure a round that only some peers had
            completed when the run was stopped with the bodies in their checkpoints.
    """

    def __init__(
        self,
        path: Path,
        bodies: Mapping[int, Callable[[], Tensor]],
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
        self._known: set[int] = {*read_distances(path)} if resume else set()
        self._away: set[int] = set()
        if not resume:
            path.unlink(missing_ok=True)
        for rank in bodies if resume else ():
            self._take_checkpoint(rank)

    def record(self, rank: int, number: int) -> None:
        """Note that a peer has completed a round and not begun the next.

        The line is written once all peers have completed the round, so a round that only some complete is left out.
        """
        self._away.discard(rank)
        if self._measured(number):
            self._take(rank, number, self._bodies[rank]())

    def _measured(self, number: int) -> bool:
        return number not in self._known and ((number + 1) % self._every == 0 or number + 1 >= self._rounds)

    def _take(self, rank: int, number: int, body: Tensor) -> None:
        self._waiting.setdefault(number, {})[rank] = body
        self._write_complete()

    def without(self, rank: int) -> None:
        """Leave a peer out of the distances until it completes a round again."""
        self._away.add(rank)
        self._write_complete()

    def _write_complete(self) -> None:
        everyone = self._bodies.keys() - self._away
        for number in [number for number, here in self._waiting.items() if here.keys() >= everyone]:
            here = self._waiting.pop(number)
            self._known.add(number)
            self._last = asyncio.create_task(self._after(self._last, number, [here[rank] for rank in sorted(here)]))

    def _take_checkpoint(self, rank: int) -> None:
        """Take the body of a peer's last completed round from its checkpoint; the peer will not complete it again."""
        folder = rank_folder(self._path.parent, rank)
        number, learner = checkpoint.completed(folder) - 1, checkpoint.learner_folder(folder)
        if learner is None or not self._measured(number):
            return
        with suppress(CheckpointError):  # the peer raises it again
            body = saved_body(learner)
            self._take(rank, number, torch.zeros(0) if body is None else torch.from_numpy(body))

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
