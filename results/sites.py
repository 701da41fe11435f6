"""Effects of federating at several sites: the small file that a site gives away, and the files of one federation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpeer.exceptions import ConfigurationError
from dpeer.results.effect import Effect, Verdict
from dpeer.results.json_fields import COUNTED
from dpeer.sections import Mistake

_OF_EFFECT = ("measure", "on", "rows", "differ", "gain", "low", "high", "verdict")
"""What a file has of the effect on a peer."""

_MOST_BYTES = 100_000
_MOST_PEERS = 100_000
_LONGEST = 80
"""Characters of a value that is shown."""


class Site(BaseModel):
    """The effect of federating at one site: the content of its file.

    Attributes:
        federation: A hash of all that the federation's peers compare.
        size: How many peers the federation had at its start.
        member_list: The number of the member list that the peer used last; 0 is the federation file.
        members: The ranks in it.
        name: Where the file was found, which is not in it.
    """

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    kind: Literal["what joining was worth to a site"]
    format: Literal[1]
    version: str = Field(max_length=_LONGEST)
    federation: str = Field(pattern="^[0-9a-f]{32}$")
    size: int = Field(ge=1, le=_MOST_PEERS)
    member_list: int = Field(ge=0, lt=COUNTED)
    members: tuple[int, ...] = Field(min_length=2)
    rank: int = Field(ge=0)
    rounds: int = Field(ge=1, lt=COUNTED)
    measure: Literal["accuracy", "test_loss"]
    on: Literal["test", "validation"]
    rows: int = Field(ge=1, lt=10**12)
    differ: int = Field(ge=0)
    gain: float
    low: float
    high: float
    verdict: Verdict
    name: str = Field("", exclude=True)

    @classmethod
    def of(cls, effect: Effect, **about: Any) -> Site:
        """What a site gives away of a verdict; `about` are the other keys."""
        found = {name: getattr(effect, name) for name in _OF_EFFECT}
        return cls.model_construct(kind="what joining was worth to a site", format=1, **about, **found)

    @property
    def worth(self) -> Effect:
        """Measure, number of rows, gain, interval and verdict."""
        return Effect(**{name: getattr(self, name) for name in _OF_EFFECT})

    @property
    def contradiction(self) -> str | None:
        """The first key whose value does not go with the others'; None if all do."""
        highest = _MOST_PEERS if self.member_list else self.size
        right = {
            "members": all(0 <= one < highest for one in self.members),
            "rank": self.rank < highest,
            "differ": self.differ <= self.rows,
            "gain": self.measure != "accuracy" or abs(self.gain) * self.rows <= self.differ + 1e-6,
            "high": self.low <= self.high,
        }
        return next((key for key, fits in right.items() if not fits), None)


def read_site(path: Path) -> Site:
    """Read the file that a site has given away.

    Raises:
        ConfigurationError: It cannot be read, is another file, or is damaged; names the key.
    """
    try:
        with path.open("rb") as file:
            site = Site.model_validate_json(file.read(_MOST_BYTES))
    except OSError as error:
        raise ConfigurationError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        wrong = Mistake(error)
        key, value = ".".join(wrong.keys), "nothing" if wrong.kind == "missing" else _short(wrong.value)
        what = f"is damaged: {key} = {value}"
        if key == "format":
            what = f"has format {value}, this dpeer reads 1"
        elif key in ("", "kind"):
            what = "is no file of dpeer worth --give-away, or is damaged"
        raise ConfigurationError(f"{str(path)!r} {what}") from error
    if (wrong_key := site.contradiction) is not None:
        raise ConfigurationError(f"{str(path)!r} is damaged: {wrong_key} = {_short(getattr(site, wrong_key))}")
    return site.model_copy(update={"name": str(path)})


def _short(value: Any) -> str:
    """A value as a message shows it."""
    shown = repr(value)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."


def combine(sites: Sequence[Site]) -> tuple[list[Site], tuple[int, ...]]:
    """The sites of one federation by rank, and the ranks in its last member list.

    Raises:
        ConfigurationError: They are of several federations or measures, two are of one rank, or none is of a member.
    """
    first = sites[0]
    seen: dict[int, Site] = {}
    for site in sites:
        if site.federation != first.federation or site.size != first.size:
            raise ConfigurationError(
                f"{site.name!r} is of another federation than {first.name!r}: combine files of peers that have trained "
                "together"
            )
        if (site.measure, site.on) != (first.measure, first.on):
            raise ConfigurationError(
                f"{site.name!r} has a gain in {_measure(site)}, {first.name!r} one in {_measure(first)}: combine files "
                "with one measure"
            )
        if site.rank in seen:
            raise ConfigurationError(f"{site.name!r} and {seen[site.rank].name!r} are both of rank {site.rank}")
        seen[site.rank] = site
    last = max(sites, key=lambda one: one.member_list)
    if not seen.keys() & {*last.members}:
        raise ConfigurationError(f"{first.name!r}: no file is of a member of list {last.member_list}: add one that is")
    return [seen[rank] for rank in sorted(seen)], last.members


def _measure(site: Site) -> str:
    return f"{'accuracy' if site.measure == 'accuracy' else 'loss'} of {site.on} rows"
