"""Restored rank's folder: the note that a backup was put back, and the rounds that may have been released since.

The folder before it may have gone on after the backup, and its ledger is gone with it. So a private peer charges every
such round and never releases it: all rounds that it sits out, and those that the others remember of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from dpeer.exceptions import CheckpointError
from dpeer.results.files import RESTORED, flush, parse, write_json


@dataclass(frozen=True)
class Restored:
    """What is known of a folder that was made from a backup, until the peer takes part again.

    Attributes:
        backup: When the backup was made (Unix seconds).
        completed: How many rounds it has completed.
        returns: Whether others have gone on, so that the peer takes part only with what they know: as a returner.
        rounds: The most rounds that can have been completed before the loss, as the operator states; None: the others
            know.
        restarts: How often its process may have been started again between backup and loss.
    """

    backup: float
    completed: int
    returns: bool = True
    rounds: int | None = None
    restarts: int = 0

    def last_lost(self, ahead: int, checkpoint_every: int) -> int:
        """The last round that may have been released.

        A peer that has completed n rounds may have released the round with number n. Others that were killed since
        have forgotten the last `checkpoint_every` rounds, where all had begun them.

        Args:
            ahead: The most rounds that others remember of this rank beyond its own.
            checkpoint_every: The rounds between two checkpoints.
        """
        return max(self.completed, self.rounds or 0, ahead) + checkpoint_every

    def precedes(self, furthest: int, slack: int) -> bool:
        """Whether the others are so far behind the backup that they have begun again, and know nothing of this rank.

        Args:
            furthest: The round of the one that is furthest.
            slack: How many rounds a peer may be ahead of them.
        """
        return self.returns and furthest + slack < self.completed

    def charged(self) -> Restored:
        """The same once the steps that restarts repeated are charged."""
        return replace(self, restarts=0)


def read(folder: Path) -> Restored | None:
    """The note in a rank's folder; None where it was not restored, or takes part again.

    Raises:
        CheckpointError: It is damaged.
    """
    path = folder / RESTORED
    try:
        content = parse(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        content = None
    if content is None or not _is_sound(content):
        raise CheckpointError(
            f"{str(path)!r} is damaged: what was released since the backup cannot be counted; restore the backup again"
        )
    return Restored(**content)


def _is_sound(content: Mapping[str, Any]) -> bool:
    def number(value: object) -> bool:
        return type(value) is int and value >= 0

    return (
        content.keys() == Restored.__dataclass_fields__.keys()
        and isinstance(content["backup"], int | float)
        and isinstance(content["returns"], bool)
        and number(content["completed"])
        and number(content["restarts"])
        and (content["rounds"] is None or number(content["rounds"]))
    )


def write(folder: Path, restored: Restored) -> None:
    """Write the note; it is on disk when this returns."""
    write_json(folder / RESTORED, asdict(restored))


def remove(folder: Path) -> None:
    """Remove the note, if it is there; it is gone from the disk when this returns."""
    if (folder / RESTORED).exists():
        (folder / RESTORED).unlink()
        flush(folder)
