"""The file of `dpeer simulate --faults`: kinds of faults, their ranks, rounds and durations (docs/experiments.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from dpeer.exceptions import ConfigurationError
from dpeer.federation.folders import refuse_faults
from dpeer.federation.run_settings import RunPart
from dpeer.sections import Mistake, Section
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
        """Refuse keys that do not go together."""
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
        mistake, known, where = Mistake(error), [*Faults.model_fields], str(path)
        key, *rest = mistake.keys
        if rest:  # the number of a fault, and its key
            known = [field.alias or name for name, field in Fault.model_fields.items()]
            key, where = "".join(rest[1:2]), f"[[fault]] {int(rest[0]) + 1} of {path}"
        raise mistake.error(f"{key} in {where}" if key else where, known, where) from error
    for number, fault in enumerate(found.fault, 1):
        place = f"in [[fault]] {number} of {path}"
        if max(fault.ranks) >= size:
            raise ConfigurationError(f"ranks = {fault.ranks} {place}: expected ranks from 0 to {size - 1}")
        if fault.round >= rounds:
            raise ConfigurationError(f"round = {fault.round} {place}: expected a round of this run, 0 to {rounds - 1}")
        if fault.what == "cut" and len(fault.ranks) == size:
            raise ConfigurationError(f"ranks {place}: all {size} ranks are on one side: name fewer")
    return found
