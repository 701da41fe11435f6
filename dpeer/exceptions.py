"""Every error dpeer raises on purpose, each with the exit code a command ends with.

A message is one line that names the key, the value, and what would be right.
"""

from __future__ import annotations

import difflib
import errno
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

_LONGEST = 400
"""Characters of a part of a message that others have made."""

_LONGEST_LIST = 300
"""Characters of the names that are valid."""

_INSTALLED = ("<", str(Path(difflib.__file__).parent))
"""How names of files begin that are Python's own; those of libraries lie in site-packages or dist-packages."""


class DpeerError(Exception):
    """Base of every error that dpeer raises on purpose."""

    exit_code = 1


class ConfigurationError(DpeerError):
    """What the user asked for cannot be done as asked."""

    exit_code = 2


class UnknownName(ConfigurationError):  # noqa: N818 - reads as what happened
    """A name that is not among the choices; the message has the nearest one, and all where they are few.

    Args:
        kind: The noun of the name ("topology", "task", "key", ...).
        name: The name as given.
        choices: All valid names.
        where: The name's place, if that is not plain.
    """

    def __init__(self, kind: str, name: str, choices: Iterable[str], where: str = "") -> None:
        valid = list(choices)
        place = f" in {where}" if where else ""
        near, listed = did_you_mean(name, valid), "valid: " + ", ".join(valid)
        if len(listed) > _LONGEST_LIST:
            listed = "" if near else listed[:_LONGEST_LIST].rpartition(",")[0] + ", ..."
        super().__init__(f"unknown {kind} {name!r}{place}: {near}{listed}".rstrip())


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """Advice with the nearest of the valid names, ``did you mean 'ring'? ``; empty if none is near."""
    near = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}? " if near else ""


class TopologyError(ConfigurationError):
    """A graph or mixing matrix that does not exist for this size or these parameters."""


class PartitionError(ConfigurationError):
    """Data that cannot be divided among the peers as asked."""


class TaskError(ConfigurationError):
    """A task that cannot be loaded, or whose model or data cannot be used."""


class AlgorithmError(ConfigurationError):
    """An algorithm of a user's own that cannot be loaded or used, or an option of one that cannot be what was given."""


class AddressError(ConfigurationError):
    """An address that cannot be parsed, cannot be bound, or must not be bound."""


TEMPORARY = 75
"""EX_TEMPFAIL of sysexits.h: the exit code of a cause that passes by itself, after which a service starts again."""


class AddressUnavailable(AddressError):  # noqa: N818 - reads as what happened
    """A name, address or port of this host that is not there yet, or not free yet."""

    exit_code = TEMPORARY


def not_bound(message: str, error: Exception) -> AddressError:
    """The error for an address that cannot be listened at; the system's error says whether that may pass by itself."""
    from socket import gaierror  # most commands end without it

    may_pass = getattr(error, "errno", None) in (errno.EADDRINUSE, errno.EADDRNOTAVAIL)
    return (AddressUnavailable if may_pass or isinstance(error, gaierror) else AddressError)(message)


class OutputError(ConfigurationError):
    """An output folder that holds another run or cannot be written."""


class DiskFull(OutputError):  # noqa: N818
    """A file that cannot be written because its disk, or quota, has no space left."""

    exit_code = TEMPORARY


class FolderInUse(OutputError):  # noqa: N818
    """A rank's folder that another running peer holds."""

    exit_code = TEMPORARY


def not_written(what: str, error: Exception) -> OutputError:
    """The error for a file or folder that cannot be written, as the system's error says why.

    Args:
        what: The option and the path, such as ``--out 'runs'``.
        error: The system's error.
    """
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    why = (error.strerror if isinstance(error, OSError) else None) or error
    return (DiskFull if full else OutputError)(f"{what} cannot be written: {why}")


def system_error(error: BaseException | None) -> OSError | None:
    """The system's error behind an error, if a file is there and cannot be read: it is not damaged then."""
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None and not isinstance(error, FileNotFoundError):
            return error
        error = error.__cause__
    return None


class CheckpointError(ConfigurationError):
    """A checkpoint that is not there, damaged, or of another run."""


class PeersMissing(DpeerError):  # noqa: N818
    """Neighbors that did not appear in time."""

    exit_code = 3


class Isolated(DpeerError):  # noqa: N818 - reads as what happened
    """A peer was cut off from a quorum, or from all its neighbors, for longer than it waits; its model is kept."""

    exit_code = 3
    ending: Literal["isolated", "left-behind"] = "isolated"


class Drained(DpeerError):  # noqa: N818 - reads as what happened
    """A peer that was asked to leave in good order can go: its round is complete, or cannot be completed."""


class NoMember(DpeerError):  # noqa: N818 - reads as what happened
    """The list that counts ends a peer as `ending` says: it names it no more, or breaks its site's policy."""

    def __init__(self, ending: Literal["left", "evicted", "stopped"], why: str | None = None) -> None:
        super().__init__(why or f"the member list that counts names this peer as {ending}")
        self.ending = ending


class LeftBehind(Isolated):
    """All neighbors of a peer have completed the run without it; its model is kept, and finished at home."""

    ending = "left-behind"


class Refused(DpeerError):  # noqa: N818
    """A neighbor and this peer do not belong to the same federation."""

    exit_code = 4


class BudgetTooSmall(DpeerError):  # noqa: N818
    """A privacy budget that does not allow a single release."""

    exit_code = 5


class PeerFailed(DpeerError):  # noqa: N818
    """A peer of a cluster failed before rounds began."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Diverged(DpeerError):  # noqa: N818
    """Training has diverged: at the end the loss or the parameters of a peer are not finite, or useless."""

    def __init__(self, ranks: Iterable[int], where: str) -> None:
        named = [str(rank) for rank in ranks]
        who = f"ranks {', '.join(named)}" if len(named) > 1 else f"rank {named[0]}"
        models = "models" if len(named) > 1 else "model"
        super().__init__(
            f"training has diverged on {who}: at the end the loss or the parameters are not finite, or the loss is far "
            f"above that of guessing; the {models} in {where} cannot be used: lower the learning rates (--body-lr, "
            "--head-lr), clip gradients (--grad-clip 1), scale the inputs (--standardize), or look for NaN in the data"
        )


class CellFailed(PeerFailed):
    """A run of `dpeer compare` failed; no table is written."""


class ProtocolError(DpeerError):
    """Received frames that cannot be accepted.

    Args:
        reason: A short fixed word to count by ("malformed", "oversized", "stranger", ...).
        detail: What was wrong, for the log.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class Interrupted(DpeerError):  # noqa: N818
    """Training stopped between two minibatches because it was asked to."""


def describe(error: BaseException) -> str:
    """The type and message of an error that is not dpeer's, on one line and cut to a readable length.

    Where a user's own code has raised it, or called what did, the file and line of that code follow.
    """
    text = " ".join(str(error).split())
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + " ..."
    named = f"{type(error).__name__}: {text}" if text else type(error).__name__
    places = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not frame.f_globals.get("__name__", "").startswith("dpeer.")
    ]
    own = [(file, line) for file, line in places if not file.startswith(_INSTALLED) and "-packages" not in file]
    return f"{named} ({Path(own[-1][0]).name} line {own[-1][1]})" if own else named
