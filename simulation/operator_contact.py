"""Contact with simulated peers for planned changes: reads their membership, hands them epochs, on the virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from dpeer.exceptions import ConfigurationError, DpeerError
from dpeer.federation.next_epoch import Situation
from dpeer.peer import Peer, Worker
from dpeer.peer.core.epoch import SignedEpoch
from dpeer.simulation.virtual_time import Process

T = TypeVar("T")

_LOOKS = 20
"""How often in a round's time a peer is asked whether it is time for the next change."""


class SimulatedContact:
    """How an operator reaches the peers of a simulation: a `dpeer.federation.planned_changes.Contact`.

    Args:
        lowest: The lowest rank's peer that runs and does not stand still, with its process; None where none does.
        worker: Where graphs are computed, in no virtual time.
        round_seconds: The virtual seconds of a round.
    """

    def __init__(self, lowest: Callable[[], tuple[Process, Peer] | None], worker: Worker, round_seconds: float) -> None:
        self._lowest, self._worker, self._round = lowest, worker, round_seconds

    async def ask(self) -> Situation:
        """See `Contact`."""
        _, peer = self._found()
        return Situation.of(peer.driver.membership() or {})

    async def hand(self, signed: SignedEpoch) -> None:
        """See `Contact`; no virtual time has passed since the question."""
        process, peer = self._found()

        async def take() -> str | None:
            return peer.driver.hand(signed.encode())

        if (refused := await process.start(take())) is not None:  # a part of the process: a crash ends what follows
            raise ConfigurationError(refused)

    async def work(self, job: Callable[..., T], *args: Any) -> T:
        """See `Contact`."""
        return await self._worker.run(job, *args)

    async def sleep(self) -> None:
        """See `Contact`."""
        await asyncio.sleep(self._round / _LOOKS)

    def _found(self) -> tuple[Process, Peer]:
        found = self._lowest()
        if found is None:
            raise DpeerError("no peer runs at present")
        return found
