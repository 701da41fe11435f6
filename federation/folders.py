"""Run folders at start and resume: what may be overwritten or resumed, and disk errors."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from dpeer.exceptions import (
    CheckpointError,
    ConfigurationError,
    DpeerError,
    OutputError,
    describe,
    not_written,
)
from dpeer.federation.resume_checks import is_private
from dpeer.federation.run_settings import RunPart
from dpeer.peer import checkpoint
from dpeer.privacy.ledger import FOLDER
from dpeer.results.files import (
    CARD,
    LOG,
    METRICS,
    MODEL,
    PARTITION,
    PREPARATION,
    RELEASED,
    SUMMARY,
    make_folder,
    rank_folder,
)  # fmt: skip
from dpeer.results.run_folders import read_run_summary

_OURS = (
    SUMMARY,
    METRICS,
    MODEL,
    CARD,
    LOG,
    "output.txt",
    PARTITION,
    PREPARATION,
    RELEASED,
    checkpoint.FOLDER,
    FOLDER,
)


def check(out: Path, ranks: Collection[int], *, resume: bool, overwrite: bool, make: bool = True) -> None:
    """Refuse folders of ranks that a run may not use, and make them; nothing in them is removed yet.

    Args:
        out: The run folder.
        ranks: The peers that are to run here.
        resume: Whether they go on.
        overwrite: Whether an earlier run may be removed.
        make: Whether folders are made.

    Raises:
        OutputError: an earlier run is in the way, or the folder cannot be written.
        CheckpointError: Nothing can be resumed.
    """
    if resume and overwrite:
        raise OutputError("--resume and --overwrite exclude each other: continue the earlier run, or remove it")
    folders = [rank_folder(out, rank) for rank in ranks]
    used = [folder for folder in folders if _holds_run(folder)]
    if resume and not any(map(holds_files, folders)):
        named = f"rank {min(ranks)}" if len(ranks) == 1 else f"{len(ranks)} peers"
        raise CheckpointError(f"--resume: no run of {named} in {str(out)!r}; start one without --resume")
    if private := [] if resume else [folder for folder in folders if is_private(folder)]:
        raise OutputError(
            f"{str(private[0])!r} holds a private run, whose ledger must not be lost: give another --out"
            + ("" if overwrite else ", or --resume")
        )
    if used and not resume and not overwrite:
        raise OutputError(f"{str(used[0])!r} holds an earlier run: give --resume, --overwrite or another --out")
    try:
        for folder in folders if make else ():
            make_folder(folder)
    except (OSError, ValueError) as error:  # a ValueError where the name has a NUL character
        raise not_written(f"--out {str(out)!r}", error) from error


def refuse_faults(run: RunPart, *, resume: bool) -> None:
    """Refuse planned faults where peers are real, and resuming a run that had any."""
    if run.faults is not None:
        raise ConfigurationError(
            f"--faults {run.faults}: only dpeer simulate has a clock and a network of its own: use that"
        )
    before = read_run_summary(run.out) if resume else None
    if before is not None and before.settings.get("faults") is not None:
        raise ConfigurationError(
            f"--resume: {str(run.out)!r} holds a run with --faults, which cannot be resumed: give another --out"
        )


def holds_files(folder: Path) -> bool:
    """Whether a rank's folder holds a file of a run, from which `--resume` can go on."""
    return any((folder / name).exists() for name in _OURS)


def _holds_run(folder: Path) -> bool:
    """Whether a rank's folder has a completed round, which must not be lost; a mistyped command leaves none."""
    metrics = folder / METRICS
    if metrics.exists() and metrics.stat().st_size > 0:
        return True
    return checkpoint.learner_folder(folder) is not None


def has_checkpoint(out: Path) -> bool:
    """Whether a run of all peers has got so far that it can be resumed."""
    return checkpoint.completed(rank_folder(out, 0)) > 0


def forget_releases(out: Path) -> None:
    """Remove the releases of a killed simulation of these ranks, which only its own process has got."""
    for folder in out.glob("rank-*"):
        shutil.rmtree(folder / FOLDER, ignore_errors=True)
        shutil.rmtree(folder / checkpoint.FOLDER, ignore_errors=True)
        (folder / METRICS).unlink(missing_ok=True)


@contextlib.contextmanager
def working_folder_kept() -> Iterator[Path]:
    """The current folder; whatever folder the process changes to within the block, afterwards it is back there."""
    home = Path.cwd()
    try:
        yield home
    finally:
        with contextlib.suppress(OSError):  # deleted in mid-run: nothing is left to go back to
            os.chdir(home)


_GOES_ON = "once that is mended, --resume goes on from the last completed round"

_OF_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ESTALE)
"""Error numbers with which a folder cannot be written."""

_OF_LIMITS = (
    "can't allocate memory", "not enough memory", "out of memory", "Cannot allocate memory", "can't start new thread",
)  # fmt: skip
"""What libraries that raise a RuntimeError of their own say of memory and threads."""


@contextmanager
def naming(folder: Path, typed: Path | None = None) -> Iterator[None]:
    """Within it errors of the machine end a peer with one line; of a disk, with this folder's name.

    Args:
        folder: The folder.
        typed: How the user has named it; None for the same.

    Raises:
        DiskFull: No space is left.
        OutputError: The folder cannot be written: its disk is read-only or broken, or the folder was deleted.
        ConfigurationError: The system gives no more memory, or no more threads.
    """
    named = str(typed or folder)
    try:
        yield
    except DpeerError as error:
        if (cause := error.__cause__) is None or not _of_limits(cause):
            raise
        where = str(error).partition(": ")[0]
        raise ConfigurationError(f"{describe(cause)}; {_GOES_ON} ({str(folder)!r}; {where})") from error
    except Exception as error:
        number = _number(error)
        if number in _OF_DISK or (number == errno.ENOENT and not folder.exists()):
            why = OSError(number, f"{os.strerror(number)}; {_GOES_ON}")
            raise not_written(repr(named), why) from error
        if not _of_limits(error):
            raise
        raise ConfigurationError(f"{describe(error)}; {_GOES_ON} ({named!r})") from error


def _number(error: Exception) -> int:
    """The system's number of an error; safetensors has an error of its own, with the number in words."""
    if isinstance(error, OSError):
        return error.errno or 0
    found = re.search(r"\(os error (\d+)\)", str(error))
    return int(found[1]) if found else 0


def _of_limits(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(words in str(error) for words in _OF_LIMITS)
    )
