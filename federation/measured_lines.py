"""Files of measured lines, lines-R.json: written and read by `dpeer check --connect`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dpeer.exceptions import ConfigurationError
from dpeer.results.files import write_json
from dpeer.topology.transfer_time import LineSpeed

_NAME = "lines-{}.json"
"""In a run folder: what a rank has measured of its lines."""

Lines = Mapping[int, Mapping[int, LineSpeed]]
"""What ranks have measured: by rank, the lines to its neighbors, by their ranks."""


def keep(out: Path, rank: int, found: Mapping[int, LineSpeed], body_bytes: int | None = None) -> Path:
    """Write what a rank has measured; what was written earlier stays where it is not new.

    Args:
        out: The run's folder.
        rank: The rank.
        found: Its lines, by neighbor.
        body_bytes: The bytes of a body in float32, if they are known.

    Returns:
        The file.

    Raises:
        OSError: It cannot be written.
    """
    path = out / _NAME.format(rank)
    try:
        before = _content(path)
    except ConfigurationError:  # damaged
        before = {"lines": {}}
    now = round(time.time())
    lines = {str(neighbor): {**asdict(one), "time": now} for neighbor, one in sorted(found.items())}
    body = {} if body_bytes is None else {"body_bytes": body_bytes}
    out.mkdir(parents=True, exist_ok=True)
    write_json(path, {**before, "rank": rank, **body, "lines": before["lines"] | lines})
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
            found[int(rank)] = {int(one): _speed(path, one, line) for one, line in _content(path)["lines"].items()}
    return found


def read_body_bytes(folder: Path, ranks: Iterable[int]) -> int | None:
    """The bytes of a body in float32 by the files of these ranks; None if none of them has it.

    Raises:
        ConfigurationError: A file is damaged, or they differ; the files are named.
    """
    by_bytes: dict[int, Path] = {}
    for path in (folder / _NAME.format(rank) for rank in ranks):
        count = _content(path).get("body_bytes")
        if count is None:
            continue
        if isinstance(count, bool) or not isinstance(count, int) or not 0 < count < 1e15:
            raise ConfigurationError(f"{path}: {count!r} is no size: measure again with dpeer check --connect")
        by_bytes.setdefault(count, path)
    if len(by_bytes) > 1:
        sizes = ", ".join(f"{count:,} bytes in {path}" for count, path in by_bytes.items())
        raise ConfigurationError(f"bodies differ: {sizes}; give --body-bytes, or files of one federation")
    return next(iter(by_bytes), None)


def _content(path: Path) -> dict[str, Any]:
    """A file's values, with lines that are checked as far as their form; no lines where no file is."""
    try:
        content: dict[str, Any] = json.loads(path.read_text())
        if not all(rank.isdigit() and isinstance(line, dict) for rank, line in content["lines"].items()):
            raise ValueError("by rank, what was measured")
    except FileNotFoundError:
        return {"lines": {}}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"{path} cannot be read ({error}): measure again with dpeer check --connect"
        ) from error
    return content


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
