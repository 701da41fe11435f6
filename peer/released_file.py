"""released.json in a rank's folder: the last round that was released, its limits, and how far lines went."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpeer.peer.core.round_budget import RoundLimit
from dpeer.results.files import RELEASED, write_json
from dpeer.results.json_fields import number as json_number
from dpeer.results.json_fields import table_or_empty, whole
from dpeer.results.run_folders import read_object

_WHOLE = RoundLimit(1.0, None, None)


class ReleasedFile:
    """What a peer that is killed must know of its releases, beside its checkpoint.

    Args:
        every: Rounds from one checkpoint to the next: a peer that is killed trains these again.

    Attributes:
        released: The last round that an earlier process of the run has trained and released; -1 without one.
    """

    def __init__(self, folder: Path, *, resume: bool, every: int) -> None:
        self._every = every
        self._path = folder / RELEASED
        noted = read_object(self._path) if resume else {}
        found, by_round = whole(noted.get("round")), table_or_empty(noted.get("limits"))
        self.released = self._last = -1 if found is None else found
        self._known = whole(noted.get("known")) or 0, whole(noted.get("sent")) or 0
        self._limits = {int(one): _limit(table_or_empty(by_round[one])) for one in by_round if one.isdigit()}

    def note(self, number: int, limit: RoundLimit | None) -> None:
        """Note that a round was trained, within this limit, and released.

        Flushed where a clock has decided about the steps. Else after a power loss an earlier round may stand.
        """
        self._last = number
        self._limits = {one: own for one, own in self._limits.items() if number - self._every <= one != number}
        if limit is not None:
            self._limits[number] = limit
        self._write(flushed=limit is not None)

    def keep_known(self, known: tuple[int, int]) -> None:
        """Keep how far the lines of metrics.jsonl go, before `--resume` drops some: see `MetricsFile.known`.

        Others know of those rounds, and so must this folder if the peer is killed again.
        """
        before = self._known
        self._known = max(known[0], before[0]), max(known[1], before[1])
        if self._known != before:
            self._write(flushed=True)

    def recorded(self, number: int) -> RoundLimit | None:
        """The limit within which round `number` is to be trained again; None where it has not been released."""
        return self._limits.get(number, _WHOLE) if number <= self.released else None

    @property
    def last_limit(self) -> RoundLimit:
        """The limit of the last round that an earlier process has released."""
        return self._limits.get(self.released, _WHOLE)

    def _write(self, *, flushed: bool) -> None:
        content: dict[str, Any] = {"round": self._last}
        if any(self._known):
            content["known"], content["sent"] = self._known
        if self._limits:
            content["limits"] = {str(one): own._asdict() for one, own in self._limits.items()}
        if flushed:
            write_json(self._path, content, indent=None)
        else:
            self._path.write_text(json.dumps(content))


def _limit(noted: Mapping[str, Any]) -> RoundLimit:
    share = json_number(noted.get("share"))
    return RoundLimit(1.0 if share is None else share, *(json_number(noted.get(one)) for one in ("seconds", "whole")))
