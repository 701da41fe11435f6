"""The file of `dpeer simulate --faults`: kinds of faults, their ranks, rounds and durations; and changes of members.

docs/simulating.md has the table of its keys. `read_faults` checks a file, `expand` draws the open choices from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, ValidationError, model_validator

from dpeer.exceptions import ConfigurationError, UnknownName
from dpeer.federation.config import read_toml
from dpeer.federation.folders import refuse_faults
from dpeer.federation.planned_changes import PlannedChange, change_error, check_changes, highest_rank
from dpeer.federation.run_settings import RunPart
from dpeer.sections import Section

What = Literal["crash", "restart", "freeze", "slow", "partition", "leave"]

_KINDS: tuple[What, ...] = get_args(What)

_HALF = 0.5


class Fault(Section):
    """A table `[[fault]]`: a fault that happens once or repeatedly."""

    what: What
    ranks: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] | None = None
    pick: Annotated[int, Field(ge=1)] | None = None
    round: Annotated[int, Field(ge=0)] | None = None
    every: Annotated[int, Field(ge=1)] | None = None
    rate: Annotated[float, Field(gt=0, le=1)] | None = None
    until: Annotated[int, Field(ge=0)] | None = None
    lasts: Annotated[float, Field(gt=0, le=10_000)] | None = Field(None, alias="for")
    times: Annotated[float, Field(gt=1, le=100)] = 5.0
    at: Annotated[float, Field(ge=0, lt=1)] = _HALF

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        """Refuse keys that do not go together; the text begins with the key."""
        if self.round is None and self.every is None and self.rate is None:
            raise ValueError("round: the time is missing: add round = N, every = N or rate = SHARE")
        if self.every is not None and self.rate is not None:
            raise ValueError(f"rate = {self.rate:g}: it happens by rate or every {self.every} rounds: leave one out")
        if self.rate is not None and self.pick is not None:
            raise ValueError(f"pick = {self.pick}: rate draws for each rank whether it is hit: leave pick out")
        if self.rate is None and self.pick is None and self.ranks is None:
            raise ValueError("ranks: the ranks are missing: add ranks = [N, ...] or pick = N")
        if self.ranks is not None and len({*self.ranks}) < len(self.ranks):
            raise ValueError(f"ranks = {self.ranks}: name each rank once")
        if self.pick is not None and self.ranks is not None and self.pick > len(self.ranks):
            raise ValueError(f"pick = {self.pick}: the table names {len(self.ranks)} ranks")
        if self.until is not None and self.every is None and self.rate is None:
            raise ValueError(f"until = {self.until}: it happens once: add every = N or rate = SHARE, or leave it out")
        if self.until is not None and self.until < (self.round or 0):
            raise ValueError(f"until = {self.until}: expected round ({self.round}) or later")
        if "times" in self.model_fields_set and self.what != "slow":
            raise ValueError(f"times = {self.times:g}: only what = 'slow' has it, and this is a {self.what!r}")
        if self.what == "freeze" and self.lasts is None:
            raise ValueError(
                "for: the duration of the freeze is missing: add for = ROUNDS (for good is what = 'crash')"
            )
        if self.what == "restart" and self.lasts is not None:
            raise ValueError(f"for = {self.lasts:g}: a restart is over at once: leave it out, or use what = 'crash'")
        return self


class Faults(Section):
    """A whole file."""

    seed: Annotated[int, Field(ge=0)] | None = None
    round_seconds: Annotated[float, Field(gt=0, le=3600)] = 60.0
    fault: list[Fault] = Field(default_factory=list)
    change: list[PlannedChange] = Field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """The content of the file as summary.json has it, without defaults."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


@dataclass(frozen=True)
class PlannedFault:
    """One fault that happens once.

    Attributes:
        what: The kind.
        ranks: The ranks that it hits.
        round: The round in which it happens, as of the peer that is furthest.
        at: The share of that round that is over, 0 to 1.
        lasts: The duration in rounds; None for good.
        times: The factor of a slow rank's time.
    """

    what: What
    ranks: tuple[int, ...]
    round: int
    at: float
    lasts: float | None
    times: float


def check_faults(run: RunPart, size: int, rounds: int, *, resume: bool) -> list[PlannedChange]:
    """Refuse a file of faults that is wrong, and the resumption of a run with faults; returns the changes in it.

    Raises:
        ConfigurationError: Says why.
    """
    if run.faults is None:
        refuse_faults(run, resume=resume)
        return []
    if resume:
        raise ConfigurationError(
            f"--faults {run.faults}: a run with faults cannot be resumed, because no file holds the messages that were "
            "under way when it was stopped: start over with --overwrite"
        )
    return read_faults(run.faults, size, rounds).change


def read_faults(path: Path, size: int, rounds: int) -> Faults:
    """Read a file and check it against the run that it is for.

    Raises:
        ConfigurationError: The file is missing or wrong; names the key and the value.
    """
    content = read_toml(path, "--faults")
    try:
        found = Faults.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        if first["loc"][0] == "change":
            raise change_error(first, path) from error
        raise _config_error(first, path) from error
    check_changes(found.change, path, size, rounds)
    rounds = max([rounds, *(change.extend for change in found.change if change.extend)])
    highest = highest_rank(found.change, size)
    for number, fault in enumerate(found.fault, 1):
        place = f"in [[fault]] {number} of {path}"
        for rank in fault.ranks or ():
            if rank > highest:
                raise ConfigurationError(f"ranks = {fault.ranks} {place}: expected ranks from 0 to {highest}")
        if fault.pick is not None and fault.pick > size:
            raise ConfigurationError(f"pick = {fault.pick} {place}: the federation has {size} peers")
        if fault.round is not None and fault.round >= rounds:
            raise ConfigurationError(f"round = {fault.round} {place}: expected a round of this run, 0 to {rounds - 1}")
        if fault.what == "partition" and size in (len(fault.ranks or ()), fault.pick):
            raise ConfigurationError(f"ranks or pick {place}: all {size} ranks are on one side: name fewer")
        if fault.round is None and fault.every is not None and fault.every >= rounds:
            raise ConfigurationError(
                f"every = {fault.every} {place}: the run has {rounds} rounds, so it would never happen: expected at "
                f"most {rounds - 1}, or add round = N, the first one"
            )
    return found


def expand(faults: Faults, size: int, rounds: int, seed: int) -> list[PlannedFault]:
    """All faults of the run, by round; each table draws from a generator of its own.

    Args:
        faults: The file.
        size: The number of first members; those that join are hit where a table names them.
        rounds: The number of rounds.
        seed: The seed where the file names none.
    """
    chosen = seed if faults.seed is None else faults.seed
    found = [
        planned
        for number, fault in enumerate(faults.fault)
        for planned in _planned(fault, size, rounds, random.Random(f"{chosen} {number}"))  # noqa: S311 - no secret
    ]
    return sorted(found, key=lambda planned: (planned.round, planned.at))


def _planned(fault: Fault, size: int, rounds: int, rng: random.Random) -> Iterator[PlannedFault]:
    ranks = sorted(range(size) if fault.ranks is None else fault.ranks)
    for number in _rounds(fault, rounds):
        if fault.rate is not None:
            hit = [[rank] for rank in ranks if rng.random() < fault.rate]
        else:
            hit = [ranks if fault.pick is None else sorted(rng.sample(ranks, fault.pick))]
        for together in hit:
            yield PlannedFault(fault.what, tuple(together), number, fault.at, fault.lasts, fault.times)


def _rounds(fault: Fault, rounds: int) -> range:
    last = rounds if fault.until is None else min(fault.until + 1, rounds)
    if fault.every is not None:
        return range(fault.every if fault.round is None else fault.round, last, fault.every)
    if fault.rate is not None:
        return range(fault.round or 0, last)
    assert fault.round is not None, "checked"
    return range(fault.round, fault.round + 1)


def _config_error(first: Mapping[str, Any], path: Path) -> ConfigurationError:
    """Pydantic's first error as one line."""
    location = list(first["loc"])
    nested = len(location) > 1 and location[0] == "fault"
    where = f"[[fault]] {location[1] + 1} of {path}" if nested else str(path)
    keys = [part for part in location[2 if nested else 0 :] if isinstance(part, str)]
    key = keys[0] if keys else "fault"
    if first["type"] == "extra_forbidden":
        section = Fault if nested else Faults
        return UnknownName("key", key, [field.alias or name for name, field in section.model_fields.items()], where)
    if key == "what" and isinstance(first["input"], str):
        return UnknownName("fault", first["input"], _KINDS, f"what in {where}")
    if key == "fault" and first["type"] != "value_error":
        return ConfigurationError(f"fault in {where} = {first['input']!r}: expected tables [[fault]]")
    if first["type"] == "missing":
        return ConfigurationError(f"{key} is missing in {where}: add what = one of {', '.join(_KINDS)}")
    if first["type"] == "value_error":
        named, _, why = str(first["ctx"]["error"]).partition(": ")
        return ConfigurationError(f"{named} in {where}: {why}")
    return ConfigurationError(f"{key} in {where} = {first['input']!r}: {first['msg'].lower()}")
