"""The file of `dpeer simulate --faults`: kinds of faults, their ranks, rounds and durations (docs/experiments.md)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from dpeer.exceptions import ConfigurationError, UnknownName
from dpeer.federation.folders import refuse_faults
from dpeer.federation.run_settings import RunPart
from dpeer.sections import Section
from dpeer.toml_text import read_toml


class Fault(Section):
    """A table `[[fault]]`: a fault that happens once; `lasts` is in rounds' time, None for good."""

    what: Literal["crash", "cut", "slow"]
    ranks: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    round: Annotated[int, Field(ge=0)]
    lasts: Annotated[float, Field(gt=0, le=10_000)] | None = Field(None, alias="for")
    times: Annotated[float, Field(gt=1, le=100)] = 5.0

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        """Refuse keys that do not go together; the text begins with the key."""
        if len({*self.ranks}) < len(self.ranks):
            raise ValueError(f"ranks = {self.ranks}: name each rank once")
        if "times" in self.model_fields_set and self.what != "slow":
            raise ValueError(f"times = {self.times:g}: only what = 'slow' has it, and this is a {self.what!r}")
        return self


class Faults(Section):
    """A whole file."""

    round_seconds: Annotated[float, Field(gt=0, le=3600)] = 60.0
    fault: list[Fault] = Field(default_factory=list)


def check_faults(run: RunPart, size: int, rounds: int, *, resume: bool) -> None:
    """Refuse a file of faults that is wrong, and the resumption of a run with faults.

    Raises:
        ConfigurationError: Says why.
    """
    if run.faults is None:
        refuse_faults(run, resume=resume)
        return
    if resume:
        raise ConfigurationError(
            f"--faults {run.faults}: a run with faults cannot be resumed, because no file holds the messages that were "
            "under way when it was stopped: start over in another --out"
        )
    read_faults(run.faults, size, rounds)


def read_faults(path: Path, size: int, rounds: int) -> Faults:
    """Read a file and check it against the run that it is for.

    Raises:
        ConfigurationError: The file is missing or wrong; names the key and the value.
    """
    content = read_toml(path, "--faults")
    try:
        found = Faults.model_validate(content)
    except ValidationError as error:
        raise _config_error(error.errors()[0], path) from error
    for number, fault in enumerate(found.fault, 1):
        place = f"in [[fault]] {number} of {path}"
        if max(fault.ranks) >= size:
            raise ConfigurationError(f"ranks = {fault.ranks} {place}: expected ranks from 0 to {size - 1}")
        if fault.round >= rounds:
            raise ConfigurationError(f"round = {fault.round} {place}: expected a round of this run, 0 to {rounds - 1}")
        if fault.what == "cut" and len(fault.ranks) == size:
            raise ConfigurationError(f"ranks {place}: all {size} ranks are on one side: name fewer")
    return found


def _config_error(first: Mapping[str, Any], path: Path) -> ConfigurationError:
    """Pydantic's first error as one line."""
    location = first["loc"]
    section: type[Section] = Faults
    where = str(path)
    if location[:1] == ("fault",) and location[1:]:
        section, where, location = Fault, f"[[fault]] {location[1] + 1} of {path}", location[2:]
    if first["type"] == "extra_forbidden":
        known = [field.alias or name for name, field in section.model_fields.items()]
        return UnknownName("key", location[0], known, where)
    if first["type"] == "value_error":
        named, _, why = str(first["ctx"]["error"]).partition(": ")
        return ConfigurationError(f"{named} in {where}: {why}")
    key = location[0] if location else "fault"
    value = "" if first["type"] == "missing" else f" = {first['input']!r}"
    return ConfigurationError(f"{key} in {where}{value}: {first['msg'].lower()}")
