"""Planned changes of a cluster on this machine: the file of `dpeer cluster --grow`, and what carries it out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from dpeer import training
from dpeer.exceptions import ConfigurationError, DpeerError
from dpeer.federation.changes import Change, Situation, next_epoch
from dpeer.federation.config import read_toml
from dpeer.federation.epoch_words import change_line
from dpeer.federation.handing import hand, running
from dpeer.federation.run_settings import MembershipSettings
from dpeer.federation.settings import Settings
from dpeer.peer.core.epoch import Edge, Member, SignedEpoch, operator_of
from dpeer.peer.core.limits import HIGHEST_RANK
from dpeer.sections import Section

AGAIN = 0.2
"""Seconds until a peer is asked again that was not ready for a change."""

Ranks = list[Annotated[int, Field(ge=0, le=HIGHEST_RANK)]]


class PlannedChange(Section):
    """A table `[[change]]`: what changes from a round on."""

    round: Annotated[int, Field(ge=1)]
    join: Ranks = Field(default_factory=list)
    leave: Ranks = Field(default_factory=list)
    evict: Ranks = Field(default_factory=list)
    extend: Annotated[int, Field(ge=1)] | None = None
    topology: str | None = None
    edges: list[Annotated[list[int], Field(min_length=2, max_length=2)]] = Field(default_factory=list)

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        ranks = [*self.join, *self.leave, *self.evict]
        if len({*ranks}) < len(ranks):
            raise ValueError(f"join, leave and evict: name each rank once: {ranks}")
        if not ranks and self.extend is None and self.topology is None:
            raise ValueError("join, leave, evict, extend and topology are missing: name what changes")
        return self


class Changes(Section):
    """A whole file."""

    change: Annotated[list[PlannedChange], Field(min_length=1)]


def read_changes(path: Path, size: int) -> list[PlannedChange]:
    """Read a file of planned changes.

    Args:
        path: The file.
        size: The number of first members.

    Raises:
        ConfigurationError: It is missing or wrong; names the key and the value.
    """
    try:
        found = Changes.model_validate(read_toml(path, "--grow")).change
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(f"{path}: {where}: {first['msg'].removeprefix('Value error, ')}") from error
    joined = [rank for change in found for rank in change.join]
    if [change.round for change in found] != sorted({change.round for change in found}):
        raise ConfigurationError(f"{path}: round: expected a later one in every [[change]]")
    for rank in joined:
        if rank < size or joined.count(rank) > 1:
            raise ConfigurationError(
                f"{path}: join = {rank}: expected a rank that none has had: {max([size - 1, *joined]) + 1} is free"
            )
    return found


def planned_changes(settings: Settings, *, resume: bool) -> list[PlannedChange]:
    """The changes that a cluster's settings plan; none without a file.

    Raises:
        ConfigurationError: The file is missing or wrong, or the run is resumed.
    """
    if settings.grow is None:
        return []
    if resume:
        raise ConfigurationError(
            f"--grow {settings.grow}: a run that changes cannot be resumed, because the key that signs its changes "
            "ends with it: start over with --overwrite"
        )
    return read_changes(settings.grow, settings.size)


def with_shares(settings: Settings, changes: list[PlannedChange]) -> Settings:
    """The settings with a share of a common pool for every rank that joins, unless shares are given."""
    builtin = training.BUILTIN_TASKS.get(settings.task)
    own = builtin is not None and (settings.partition or builtin.partition) == "own"
    if not changes or settings.shares is not None or own:
        return settings
    return settings.model_copy(update={"shares": highest_rank(changes, settings.size) + 1})


def highest_rank(changes: list[PlannedChange], size: int) -> int:
    """The highest rank that is ever a member."""
    return max([size - 1, *(rank for change in changes for rank in change.join)])


def with_operator(settings: MembershipSettings, secret: bytes) -> dict[str, Any]:
    """The settings of a federation whose only operator is this one, as changes of its settings.

    Raises:
        ConfigurationError: Operators are given.
    """
    if settings.operators:
        raise ConfigurationError(
            "--grow: the changes are signed with a key of the launcher's own: leave out `operators`, or use dpeer join "
            "and the like with your own key instead"
        )
    return {"operators": [operator_of(secret)], "signers": 1}


class Growth:
    """Carries out planned changes, one after the other, through the control sockets of a cluster's peers.

    Args:
        changes: What is planned.
        secret: The operator's secret key.
        run: The run folder.
        enter: Starts the process of a rank that joins; gives what its epoch has of it.
        admit: Has that process dial the others, once all know its epoch.
        dismiss: Ends the process of a rank whose change was refused.
        handed: Called with the first round, the ranks and the number of rounds of an epoch that was handed over.
        say: Gets a line at each change.
    """

    def __init__(
        self,
        changes: list[PlannedChange],
        secret: bytes,
        run: Path,
        enter: Callable[[int], Awaitable[Member]],
        admit: Callable[[int], None],
        dismiss: Callable[[int], None],
        handed: Callable[[int, tuple[int, ...], int], None],
        say: Callable[[str], None],
    ) -> None:
        self._changes, self._secret, self._run = changes, secret, run
        self._enter, self._admit, self._dismiss, self._handed, self._say = enter, admit, dismiss, handed, say

    async def carry_out(self) -> None:
        """Make one change after the other; one that is refused is left out, and its refusal printed."""
        for planned in self._changes:
            await self._reached(lambda there: there.epoch.begins)
            try:
                entered = await asyncio.gather(*map(self._enter, planned.join))
            except DpeerError as error:
                self._refused(planned, error)
                continue
            change = Change(
                dict(zip(planned.join, entered, strict=True)), tuple(planned.leave), tuple(planned.evict),
                planned.extend,
                graph={} if planned.topology is None else {"topology": planned.topology},
                edges=tuple(_edge(one, other) for one, other in planned.edges), word=_word(planned),
            )  # fmt: skip
            try:
                known = await asyncio.to_thread(self._make, change, planned.round)
            except DpeerError as error:
                self._refused(planned, error)
                continue
            if planned.join:
                await self._reached(_constantly(known))
                for rank in planned.join:
                    self._admit(rank)

    def _refused(self, planned: PlannedChange, error: DpeerError) -> None:
        self._say(f"change of round {planned.round + 1} refused: {error}")
        for rank in planned.join:
            self._dismiss(rank)

    async def _reached(self, number: Callable[[Situation], int]) -> None:
        """Wait until the peer that is asked works on a round, which may follow from its answer, or a later one."""
        while True:
            try:
                peer = await asyncio.to_thread(running, self._run)
            except DpeerError:  # not yet, or not any more
                await asyncio.sleep(AGAIN)
                continue
            if peer.there.round >= number(peer.there):
                return
            await asyncio.sleep(AGAIN)

    def _make(self, change: Change, begins: int) -> int:
        """Make the next epoch and hand it over; returns the round in which all know it."""
        peer = running(self._run)
        epoch = next_epoch(peer.there, change, begins=begins)
        hand(peer, SignedEpoch(epoch=epoch).signed_with(self._secret))
        late = f" (planned for round {begins + 1})" if epoch.begins > begins else ""
        self._say(f"{change_line(peer.there.epoch, epoch)}{late}")
        self._handed(epoch.begins, epoch.ranks, epoch.rounds)
        return peer.there.round + peer.there.diameter + 1


def _constantly(number: int) -> Callable[[Situation], int]:
    return lambda there: number


def _word(planned: PlannedChange) -> str:
    kinds: Mapping[str, Any] = {
        "join": planned.join, "leave": planned.leave, "eviction": planned.evict, "extension": planned.extend,
    }  # fmt: skip
    return " and ".join(name for name, value in kinds.items() if value) or "change"


def _edge(one: int, other: int) -> Edge:
    return min(one, other), max(one, other)
