"""Effects of federating at several sites: the small file that a site gives away, and the mean over such files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from dpeer.exceptions import ConfigurationError
from dpeer.results.effect import Effect, effect_of
from dpeer.results.files import parse
from dpeer.results.json_fields import number, text, whole

FORMAT = 1
KIND = "what joining was worth to a site"
"""The kind of file."""

_MOST_BYTES = 100_000
_MOST_PEERS = 100_000
_LONGEST = 80
"""Characters of a value that is shown."""


@dataclass(frozen=True)
class Site:
    """The effect of federating at one site, as its file has it.

    Attributes:
        federation: A hash of all that the federation's peers compare.
        size: How many peers the federation had at its start.
        member_list: The number of the member list that the peer used last; 0 is the federation file.
        members: The ranks in it.
        worth: Measure, number of rows, gain, interval and verdict.
    """

    name: str
    version: str
    federation: str
    size: int
    member_list: int
    members: tuple[int, ...]
    rank: int
    rounds: int
    worth: Effect

    def to_json(self) -> dict[str, Any]:
        """The content of the file."""
        content = {"kind": KIND, "format": FORMAT, **{name: getattr(self, name) for name in _KEYS}}
        return content | {name: getattr(self.worth, name) for name in _OF_EFFECT}


_KEYS = ("version", "federation", "size", "member_list", "members", "rank", "rounds")
_OF_EFFECT = ("measure", "on", "rows", "differ", "gain", "low", "high", "verdict")


@dataclass(frozen=True)
class Combined:
    """The effects of several sites together.

    Attributes:
        sites: Those of the members of the last list, by rank.
        members: The ranks in that list.
        left: Ranks that are no members any more, and whose files do not count.
        gain: The mean over the sites, each of which counts once.
        low: The lower end of its 95 % interval (Student's t over the sites); None for a single site.
        high: The upper end.
    """

    sites: tuple[Site, ...]
    members: tuple[int, ...]
    left: tuple[int, ...]
    gain: float
    low: float | None
    high: float | None

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks without a file."""
        there = {site.rank for site in self.sites}
        return tuple(rank for rank in self.members if rank not in there)


def read_site(path: Path) -> Site:
    """Read the file that a site has given away.

    Raises:
        ConfigurationError: It cannot be read, is another file, or is damaged; names the key.
    """
    try:
        with path.open("rb") as file:
            content = parse(file.read(_MOST_BYTES).decode())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigurationError(f"{str(path)!r} cannot be read: {why}") from error
    if content is None or content.get("kind") != KIND:
        raise ConfigurationError(f"{str(path)!r} is no file of dpeer worth --give-away, or is damaged")
    if content.get("format") != FORMAT:
        raise ConfigurationError(f"{str(path)!r} has format {_short(content.get('format'))}, this dpeer reads {FORMAT}")
    worth = effect_of({name: content.get(name) for name in _OF_EFFECT})
    assert worth is not None, "an object"
    for key, right in _checks(content, worth).items():
        if not right:
            raise ConfigurationError(f"{str(path)!r} is damaged: {key} = {_short(content.get(key))}")
    content["members"] = tuple(content["members"])
    return Site(str(path), worth=worth, **{name: content[name] for name in _KEYS})


def _checks(content: Mapping[str, Any], worth: Effect) -> dict[str, bool]:
    """Whether the value of each key is one that dpeer writes."""
    size, rank = whole(content.get("size")), whole(content.get("rank"))
    number_of_list, ranks = whole(content.get("member_list")), content.get("members")
    members = [whole(one) for one in ranks] if isinstance(ranks, list) else []
    highest = _MOST_PEERS if number_of_list else size or 0
    rows, gain, federation = worth.rows or 0, worth.gain, text(content.get("federation")) or ""
    return {
        "version": len(text(content.get("version")) or "x" * _LONGEST) < _LONGEST,
        "federation": len(federation) == 32 and all(one in "0123456789abcdef" for one in federation),
        "size": 0 < (size or 0) <= _MOST_PEERS,
        "member_list": number_of_list is not None,
        "members": len(members) > 1 and all(one is not None and one < highest for one in members),
        "rank": rank is not None and rank < highest,
        "rounds": 0 < (whole(content.get("rounds")) or 0) < 10**9,
        "measure": worth.measure in ("accuracy", "test_loss"),
        "on": worth.on in ("test", "validation"),
        "rows": 0 < rows < 10**12,
        "differ": worth.differ is not None and worth.differ <= rows,
        "gain": gain is not None and (not worth.of_accuracy or abs(gain) * rows <= (worth.differ or 0) + 1e-6),
        "low": number(content.get("low")) is not None,
        "high": worth.high is not None and worth.low is not None and worth.low <= worth.high,
        "verdict": worth.verdict is not None,
    }


def _short(value: Any) -> str:
    """A value as a message shows it."""
    shown = repr(value)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."


def combine(sites: Sequence[Site]) -> Combined:
    """Combine the effects at the sites of one federation: those that its last member list has.

    Raises:
        ConfigurationError: They are of several federations or measures, or two are of one rank.
    """
    first = sites[0]
    seen: dict[int, Site] = {}
    for site in sites:
        if site.federation != first.federation or site.size != first.size:
            raise ConfigurationError(
                f"{site.name!r} is of another federation than {first.name!r}: combine files of peers that have trained "
                "together"
            )
        measured, expected = ((one.worth.measure, one.worth.on) for one in (site, first))
        if measured != expected:
            raise ConfigurationError(
                f"{site.name!r} has a gain in {_measure(site)}, {first.name!r} one in {_measure(first)}: combine files "
                "with one measure"
            )
        if site.rank in seen:
            raise ConfigurationError(f"{site.name!r} and {seen[site.rank].name!r} are both of rank {site.rank}")
        seen[site.rank] = site
    members = max(sites, key=lambda one: one.member_list).members
    ordered = tuple(seen[rank] for rank in sorted(seen) if rank in members)
    if not ordered:
        raise ConfigurationError(
            f"{first.name!r}: no file is of a member of list {max(one.member_list for one in sites)}: add one that is"
        )
    left = tuple(sorted(seen.keys() - {*members}))
    gains = [site.worth.gain or 0.0 for site in ordered]
    half = None if len(gains) < 2 else _half(gains)
    mean = fmean(gains)
    return Combined(
        ordered, members, left, mean, None if half is None else mean - half, None if half is None else mean + half
    )


def _measure(site: Site) -> str:
    name = "accuracy" if site.worth.of_accuracy else "loss"
    return f"{name} of {site.worth.on} rows"


def _half(values: Sequence[float]) -> float:
    """Half the 95 % interval of a mean (Student's t)."""
    from scipy.stats import t

    return float(t.ppf(0.975, len(values) - 1)) * stdev(values) / math.sqrt(len(values))
