"""Planned changes of members (`[[change]]` of `--grow`, `--faults`): reads, checks and carries them out as operator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Protocol, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from dpeer import training
from dpeer.exceptions import ConfigurationError, DpeerError
from dpeer.federation.config import read_toml
from dpeer.federation.epoch_submission import Running, hand, running
from dpeer.federation.epoch_words import change_line
from dpeer.federation.next_epoch import Change, Situation, next_epoch
from dpeer.federation.run_settings import MembershipSettings
from dpeer.federation.settings import Settings
from dpeer.peer.core.epoch import Edge, Member, SignedEpoch, operator_of
from dpeer.peer.core.limits import HIGHEST_RANK
from dpeer.results.units import in_short
from dpeer.sections import Section

T = TypeVar("T")

AGAIN = 0.2
"""Seconds until a peer is asked again that was not ready for a change."""

_TRIES = 5
"""How often a change is made for the round in which the peer is by then: rounds may be quicker than the operator."""

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


def read_changes(path: Path, size: int, rounds: int) -> list[PlannedChange]:
    """Read a file of planned changes.

    Args:
        path: The file.
        size: The number of first members.
        rounds: The number of rounds.

    Raises:
        ConfigurationError: It is missing or wrong; names the key and the value.
    """
    try:
        found = Changes.model_validate(read_toml(path, "--grow")).change
    except ValidationError as error:
        raise change_error(error.errors(include_url=False, include_context=False)[0], path) from error
    check_changes(found, path, size, rounds)
    return found


def change_error(first: Mapping[str, Any], path: Path) -> ConfigurationError:
    """Pydantic's first error in a file of changes as one line."""
    where = ".".join(str(part) for part in first["loc"])
    return ConfigurationError(f"{path}: {where}: {first['msg'].removeprefix('Value error, ')}")


def check_changes(changes: list[PlannedChange], path: Path, size: int, rounds: int) -> None:
    """Refuse changes that could not be made one after the other; whether they disconnect the graph shows in the run.

    Args:
        changes: What is planned.
        path: The file, for errors.
        size: The number of first members.
        rounds: The number of rounds.

    Raises:
        ConfigurationError: Names the key and the value.
    """
    if [change.round for change in changes] != sorted({change.round for change in changes}):
        raise ConfigurationError(f"{path}: round: expected a later one in every [[change]]")
    joined = [rank for change in changes for rank in change.join]
    for rank in joined:
        if rank < size or joined.count(rank) > 1:
            raise ConfigurationError(
                f"{path}: join = {rank}: expected a rank that none has had: {max([size - 1, *joined]) + 1} is free"
            )
    members = {*range(size)}
    for change in changes:
        last = rounds if change.extend else rounds - 1
        if change.round > last:
            raise ConfigurationError(
                f"{path}: round = {change.round}: expected 1 to {last}, because the run has {rounds} rounds by then"
            )
        if change.extend is not None and change.extend <= rounds:
            raise ConfigurationError(
                f"{path}: extend = {change.extend}: expected more than the {rounds} rounds that the run has by then"
            )
        for key in ("leave", "evict"):
            for rank in getattr(change, key):
                if rank not in members:
                    raise ConfigurationError(
                        f"{path}: {key} = {rank}: no member in round {change.round}; members are {in_short(members)}"
                    )
        members = (members | {*change.join}) - {*change.leave, *change.evict}
        rounds = change.extend or rounds


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
    return read_changes(settings.grow, settings.size, settings.rounds)


def with_shares(settings: Settings, changes: list[PlannedChange]) -> Settings:
    """The settings with a share of a common pool for every rank that joins, unless shares are given.

    Raises:
        ConfigurationError: Fewer are given than ranks need one.
    """
    builtin = training.BUILTIN_TASKS.get(settings.task)
    own = builtin is not None and (settings.partition or builtin.partition) == "own"
    if not changes or own:
        return settings
    needed = highest_rank(changes, settings.size) + 1
    if settings.shares is None:
        return settings.model_copy(update={"shares": needed})
    if settings.shares < needed:
        raise ConfigurationError(
            f"--shares {settings.shares}: rank {needed - 1} joins, and the common pool has no share for it: give "
            f"{needed} or more, or leave it out"
        )
    return settings


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
            "operators: planned changes are signed with a key that is made for this run: leave it out, or use dpeer "
            "join and the like with your own key instead"
        )
    return {"operators": [operator_of(secret)], "signers": 1, "name": settings.name or "planned changes"}


class Contact(Protocol):
    """The running peers, as the operator of planned changes reaches them."""

    async def ask(self) -> Situation:
        """What one of them knows of the membership.

        Raises:
            DpeerError: None answers at present.
        """

    async def hand(self, signed: SignedEpoch) -> None:
        """Hand a change to the one that was asked last.

        Raises:
            DpeerError: It refuses.
        """

    async def work(self, job: Callable[..., T], *args: Any) -> T:
        """Run a job that may take a while, off the event loop."""

    async def sleep(self) -> None:
        """Wait until asking again may give another answer."""


class Processes:
    """The peers of a run folder, which are processes with control sockets.

    Args:
        run: The folder.
    """

    def __init__(self, run: Path) -> None:
        self._run = run
        self._peer: Running | None = None

    async def ask(self) -> Situation:
        """See `Contact`."""
        self._peer = await asyncio.to_thread(running, self._run)
        return self._peer.there

    async def hand(self, signed: SignedEpoch) -> None:
        """See `Contact`."""
        assert self._peer is not None, "asked before"
        await asyncio.to_thread(hand, self._peer, signed)

    async def work(self, job: Callable[..., T], *args: Any) -> T:
        """See `Contact`."""
        return await asyncio.to_thread(job, *args)

    async def sleep(self) -> None:
        """See `Contact`."""
        await asyncio.sleep(AGAIN)


class Growth:
    """Carries out planned changes, one after the other.

    Args:
        changes: What is planned.
        secret: The operator's secret key.
        contact: How the running peers are reached.
        enter: Makes a rank that joins ready; gives what its epoch has of it.
        admit: Has it dial the others, once all know its epoch.
        dismiss: Ends a rank whose change was refused.
        handed: Called with the first round, the ranks and the number of rounds of an epoch that was handed over.
        say: Gets a line at each change.
    """

    def __init__(
        self,
        changes: list[PlannedChange],
        secret: bytes,
        contact: Contact,
        enter: Callable[[int], Awaitable[Member]],
        admit: Callable[[int], None],
        dismiss: Callable[[int], None],
        handed: Callable[[int, tuple[int, ...], int], None],
        say: Callable[[str], None],
    ) -> None:
        self._changes, self._secret, self._contact = changes, secret, contact
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
                known = await self._make(change, planned.round)
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
            with suppress(DpeerError):  # none answers yet, or any more
                there = await self._contact.ask()
                if there.round >= number(there):
                    return
            await self._contact.sleep()

    async def _make(self, change: Change, begins: int) -> int:
        """Make the next epoch and hand it over; returns the round in which all know it."""
        for left in reversed(range(_TRIES)):
            there = await self._contact.ask()
            epoch = await self._contact.work(partial(next_epoch, there, change, begins=begins))
            try:
                await self._contact.hand(SignedEpoch(epoch=epoch).signed_with(self._secret))
                break
            except ConfigurationError:
                now = await self._contact.ask()
                if not left or now.epoch != there.epoch or epoch.begins >= now.earliest:
                    raise  # not because rounds have gone on meanwhile
        late = f" (planned for round {begins + 1})" if epoch.begins > begins else ""
        self._say(f"{await self._contact.work(change_line, there.epoch, epoch)}{late}")
        self._handed(epoch.begins, epoch.ranks, epoch.rounds)
        return there.round + there.diameter + 1


def _constantly(number: int) -> Callable[[Situation], int]:
    return lambda there: number


def _word(planned: PlannedChange) -> str:
    kinds: Mapping[str, Any] = {
        "join": planned.join, "leave": planned.leave, "eviction": planned.evict, "extension": planned.extend,
    }  # fmt: skip
    return " and ".join(name for name, value in kinds.items() if value) or "change"


def _edge(one: int, other: int) -> Edge:
    return min(one, other), max(one, other)
