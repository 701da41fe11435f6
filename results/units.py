"""Sizes, rates and durations as people write them, and back.

Prefixes (k, M, G, T; Ki, Mi, Gi, Ti for powers of 1024) and words are read in any case. Only where a single letter
distinguishes bits from bytes does its case count: b is a bit, B a byte. `100Mb` and `100MB` are no rates, for want of a
time; `100Mbit` is one, because it has no other meaning.
"""

from __future__ import annotations

import re
from typing import Literal

from dpeer.exceptions import ConfigurationError

_NUMBER = r"(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?) *"
_PREFIX = r"(?P<prefix>[kKmMgGtT][iI]?)?"
_SIZE = re.compile(rf"{_NUMBER}(?:{_PREFIX}(?:B|(?i:bytes?)))?")
_RATE = re.compile(
    rf"{_NUMBER}{_PREFIX}(?:(?P<bits>(?i:bits?(?: ?/ ?s|ps)?)|b(?: ?/ ?s|ps))|(?:(?i:bytes?)|B)(?: ?/ ?s|ps))"
)
_DURATION = re.compile(rf"{_NUMBER}(?P<unit>(?i:ms|s|sec|seconds?|min|minutes?|h|hours?|d|days?))?")

_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

_MOST = 1e15
"""The most bytes, and the most bits per second: beyond that a unit is mistyped."""

_LONGEST = 1e9
"""Seconds: thirty years."""


def read_size(option: str, text: str) -> int:
    """Bytes from 45MB, 45 MiB or 45000000.

    Raises:
        ConfigurationError: It is something else, or not from 1 byte to 1000 TB.
    """
    found = _SIZE.fullmatch(text.strip())
    count = 0.0 if found is None else float(found["number"]) * _factor(found["prefix"])
    if not 1.0 <= count <= _MOST:
        raise ConfigurationError(f"{option} {text!r}: write bytes, up to 1000 TB, for example 45MB or 43MiB")
    return round(count)


def read_rate(option: str, text: str) -> float:
    """Bits per second from 100Mbit, 100Mbps, 12.5MB/s or 12MiB/s.

    Raises:
        ConfigurationError: It is something else, or not from 1 to 1e15 bits per second.
    """
    found = _RATE.fullmatch(text.strip())
    bits = 0.0
    if found is not None:
        bits = float(found["number"]) * _factor(found["prefix"]) * (1 if found["bits"] else 8)
    if not 1.0 <= bits <= _MOST:
        raise ConfigurationError(f"{option} {text!r}: write bits or bytes per second, for example 100Mbit or 12.5MB/s")
    return bits


def read_duration(option: str, text: str) -> float:
    """Seconds from 20ms, 1.5s, 2min, 1h, 7d or a plain number of seconds; 0 is one.

    Raises:
        ConfigurationError: It is something else, or longer than 1e9 seconds.
    """
    found = _DURATION.fullmatch(text.strip())
    seconds = float("inf")
    if found is not None:
        unit = (found["unit"] or "s").lower()
        seconds = float(found["number"]) * _SECONDS["ms" if unit == "ms" else unit[0]]
    if not seconds <= _LONGEST:
        raise ConfigurationError(f"{option} {text!r}: write a time in ms, s, min, h or d, for example 20ms or 7d")
    return seconds


def rate(bits: float) -> str:
    """Bits per second for people: 100 Mbit/s."""
    value = bits
    for unit in ("bit/s", "kbit/s", "Mbit/s", "Gbit/s"):
        if value < 999.95:
            return f"{value:.4g} {unit}"
        value /= 1000
    return f"{value:.4g} Tbit/s" if value < 999.95 else f"{value:.0f} Tbit/s"


def duration(seconds: float) -> str:
    """Seconds for people, in at most ten characters: 3.6 s, 2 min 5 s, 1.3 h."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 600:
        rest = f" {whole % 60} s" if whole % 60 else ""
        return f"{whole // 60} min{rest}"
    if seconds < 3597:
        return f"{seconds / 60:.1f} min"
    hours = seconds / 3600
    if hours < 47.95:
        return f"{hours:.1f} h"
    days = hours / 24
    if days >= 9999.5:
        return ">9999 days"
    return f"{days:.1f} days" if days < 99.95 else f"{days:.0f} days"


def _factor(prefix: str | None) -> int:
    lower = (prefix or "").lower()
    base = 1024 if lower.endswith("i") else 1000
    return int(base ** _POWERS[lower[:1]])


def decimals(value: float | None, sign: Literal["", "+"] = "") -> str:
    """A number with four decimals, or with five digits where these would show nothing or too much; a dash for None."""
    if value is None:
        return "-"
    if value and not 1e-3 <= abs(value) < 1e4:  # in the unit of what is predicted
        return f"{value:{sign}.5g}"
    return f"{value:{sign}.4f}"


def size(count: int) -> str:
    """A number of bytes for people: 1.2 MB (powers of ten)."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
