"""Files of measured lines, lines-R.json: written by `dpeer check --connect`, read by checks and `topology advise`."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from dpeer.exceptions import ConfigurationError
from dpeer.results.files import write_json
from dpeer.topology.transfer_time import LineSpeed

_NAME = "lines-{}.json"
"""In a run folder: what a rank has measured of its lines."""

Lines = Mapping[int, Mapping[int, LineSpeed]]
"""What ranks have measured: by rank, the lines to its neighbors, by their ranks."""


def keep(out: Path, rank: int, found: Mapping[int, LineSpeed]) -> Path:
    """Write what a rank has measured; lines that were measured earlier stay where they were not measured again.

    Returns:
        The file.

    Raises:
        OSError: It cannot be written.
    """
    path = out / _NAME.format(rank)
    try:
        before = _content(path)
    except ConfigurationError:  # damaged
        before = {}
    now = round(time.time())
    lines = before | {str(neighbor): {**asdict(one), "time": now} for neighbor, one in sorted(found.items())}
    out.mkdir(parents=True, exist_ok=True)
    write_json(path, {"rank": rank, "lines": lines})
    return path


def read_lines(folder: Path) -> dict[int, dict[int, LineSpeed]]:
    """What ranks have measured whose files are in this folder; empty if none has.

    Raises:
        ConfigurationError: A file is damaged; it is named.
    """
    found = {}
    for path in sorted(folder.glob(_NAME.format("*"))):
        rank = path.stem.partition("-")[2]
        if rank.isdigit():
            found[int(rank)] = {int(one): _speed(path, one, line) for one, line in _content(path).items()}
    return found


def _content(path: Path) -> dict[str, dict[str, float]]:
    try:
        content = json.loads(path.read_text())
        lines: dict[str, dict[str, float]] = content["lines"]
        if not all(rank.isdigit() and isinstance(line, dict) for rank, line in lines.items()):
            raise ValueError("by rank, what was measured")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"{path} cannot be read ({error}): measure again with dpeer check --connect"
        ) from error
    return lines


def _speed(path: Path, neighbor: str, line: Mapping[str, float]) -> LineSpeed:
    values = [line.get(name) for name in ("sends", "receives", "round_trip")]
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
            raise ConfigurationError(
                f"{path}: {value!r} of rank {neighbor} is no rate or time: measure again with dpeer check --connect"
            )
    sends, receives, round_trip = (float(value) for value in values if value is not None)
    if not sends or not receives:
        raise ConfigurationError(f"{path}: rank {neighbor} has a rate of 0: measure again with dpeer check --connect")
    return LineSpeed(sends, receives, round_trip)
