"""What a peer writes down: metrics.jsonl, summary.json and log.jsonl in its own folder."""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dpeer.peer.learner import Evaluation


@dataclass(frozen=True)
class RoundRecord:
    """One line of metrics.jsonl (DESIGN section 7): None where not evaluated, or where there is no such metric."""

    round: int
    accuracy: float | None
    test_loss: float | None
    metrics: Mapping[str, float] | None
    accuracy_trained: float | None
    train_loss: float | None
    """None where nothing was trained; not finite where training has diverged."""
    bytes_sent: int
    bytes_received: int
    heard: list[int]
    missed: list[int]
    train_seconds: float
    exchange_seconds: float
    mix_seconds: float
    samples: int
    """For how many samples a gradient was computed in the round."""
    epsilon: float | None = None
    delta: float | None = None
    active: bool = True
    """False in a round that the peer sat out."""
    privacy: Mapping[str, Any] | None = None
    """What the releases so far have cost, and what clipping met in this one."""

    @classmethod
    def evaluated(cls, after: Evaluation | None, trained: Evaluation | None, **fields: Any) -> RoundRecord:
        """A record with what the two evaluations of the round found, if it was a round with evaluations."""
        return cls(
            accuracy=after.accuracy if after else None,
            test_loss=after.test_loss if after else None,
            metrics=dict(after.metrics) if after else None,
            accuracy_trained=trained.accuracy if trained else None,
            **fields,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values: a number that is not finite becomes None; whether training has diverged stands beside."""
        diverged = self.train_loss is not None and not math.isfinite(self.train_loss)
        plain: dict[str, Any] = finite(asdict(self)) | {"diverged": diverged}
        return plain


def has_diverged(entry: Mapping[str, Any]) -> bool:
    """Whether training has diverged in a round, by its line of metrics.jsonl.

    A line of an older dpeer does not say it: there a round that the peer took part in and that has no loss diverged.
    """
    return bool(entry.get("diverged", entry["active"] and entry["train_loss"] is None))


def finite(value: Any) -> Any:
    """The value with NaN and infinities, which JSON does not know, replaced by None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return value


def cost(privacy: Mapping[str, Any]) -> str:
    """What releases have cost (`Learner.privacy`), in few words; where averages are noised, against both adversaries.

    An epsilon that is infinite, or None as JSON has it, is no bound at all.
    """
    if "epsilon_neighbor" in privacy:
        outsider, neighbor = (_bound(privacy.get(f"epsilon_{against}")) for against in ("aggregate", "neighbor"))
        return f"epsilon {outsider} against an outsider and {neighbor} against a neighbor"
    return f"epsilon {_bound(privacy['epsilon'])}"


def _bound(value: float | None) -> str:
    return "unbounded" if value is None or not math.isfinite(value) else f"{value:.4g}"


class MetricsFile:
    """metrics.jsonl: one line a round, kept in step with the checkpoint.

    Args:
        path: The file, or None to keep nothing.
        next_round: Lines from this round on do not count: they belong to rounds that are run again.
    """

    def __init__(self, path: Path | None, next_round: int) -> None:
        self._path = path
        self.last: dict[str, Any] | None = None
        self.bytes_sent = 0
        self.bytes_received = 0
        self._kept: list[str] = []
        for line in _lines(path) if path and next_round else ():
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # the process was killed in the middle of this line
            if entry["round"] < next_round:
                self._kept.append(line)
                self._count(entry)

    def rewrite(self) -> None:
        """Drop the lines that do not count from the file."""
        if self._path:
            _replace(self._path, "".join(f"{line}\n" for line in self._kept))
        self._kept = []

    def append(self, entry: dict[str, Any]) -> None:
        """Add a round's line."""
        self._count(entry)
        if self._path:
            with self._path.open("a") as file:
                file.write(json.dumps(entry) + "\n")
                file.flush()
                os.fsync(file.fileno())  # the checkpoint that follows must not be ahead of it

    def entry(self, number: int) -> dict[str, Any] | None:
        """The line of a round, from the file."""
        entries = (json.loads(line) for line in (_lines(self._path) if self._path else ()))
        return next((entry for entry in entries if entry["round"] == number), None)

    def _count(self, entry: dict[str, Any]) -> None:
        self.last = entry
        self.bytes_sent += entry["bytes_sent"]
        self.bytes_received += entry["bytes_received"]


def write_json(path: Path, content: Mapping[str, Any], *, indent: int | None = 1) -> None:
    """Write a JSON file so that readers see the old content or the new, never a part."""
    _replace(path, json.dumps(finite(content), indent=indent) + "\n")


def _replace(path: Path, content: str) -> None:
    draft = path.with_name(f".{path.name}.tmp")
    draft.write_text(content)
    draft.replace(path)


class JsonFormatter(logging.Formatter):
    """log.jsonl: one object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Time (Unix seconds), level, message and, where there is one, the traceback."""
        entry = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def peer_logger(rank: int, path: Path | None, level: str, *handlers: logging.Handler) -> logging.Logger:
    """A logger of this peer's own (many peers can share a process); close it with `close_logger`."""
    logger = logging.Logger(f"dpeer.rank-{rank}", level.upper())
    if path:
        file = logging.FileHandler(path)
        file.setFormatter(JsonFormatter())
        logger.addHandler(file)
    for handler in handlers:
        logger.addHandler(handler)
    return logger


def close_logger(logger: logging.Logger) -> None:
    """Close the files behind a logger."""
    for handler in logger.handlers:
        handler.close()


class Stopwatch:
    """Seconds since the last look."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def lap(self) -> float:
        """Seconds since the last lap."""
        now = time.perf_counter()
        seconds, self._since = now - self._since, now
        return seconds


def count_lines(path: Path) -> int:
    """How many lines a file has; 0 if there is none."""
    return len(_lines(path))


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
