"""Run folders at start and resume: overwrite and size checks, ranks left behind, and disk errors."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpeer.exceptions import CheckpointError, ConfigurationError, DiskFull, DpeerError, OutputError, not_written
from dpeer.federation.ledger_checks import is_private
from dpeer.federation.run_settings import RunPart
from dpeer.peer import checkpoint
from dpeer.peer.core.schedule import cut_off
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
from dpeer.results.run_folders import read_object, read_run_summary
from dpeer.topology import Graphs

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


def check(
    out: Path,
    ranks: range | list[int],
    *,
    resume: bool,
    overwrite: bool,
    size: int | None = None,
) -> None:
    """Check that a run may use the ranks' folders, and make them; nothing in them is removed yet.

    Arguments are as those of `refuse_used`.

    Raises:
        OutputError: an earlier run is in the way, or the folder cannot be written.
        CheckpointError: Nothing can be resumed.
    """
    refuse_used(out, ranks, resume=resume, overwrite=overwrite, size=size)
    try:
        for rank in ranks:
            make_folder(rank_folder(out, rank))
    except (OSError, ValueError) as error:  # a ValueError where the name has a NUL character
        raise not_written(f"--out {str(out)!r}", error) from error


def refuse_used(
    out: Path,
    ranks: range | list[int],
    *,
    resume: bool,
    overwrite: bool,
    size: int | None = None,
) -> None:
    """Refuse folders of ranks that a run may not use; nothing is written.

    Args:
        out: The run folder.
        ranks: The peers that are to run here.
        resume: Whether they go on.
        overwrite: Whether an earlier run may be removed.
        size: The federation's size, which must be that of a run that is resumed; None if it was compared elsewhere.

    Raises:
        OutputError: an earlier run is in the way.
        CheckpointError: Nothing can be resumed.
    """
    if resume and overwrite:
        raise OutputError("--resume and --overwrite exclude each other: continue the earlier run, or remove it")
    folders = [rank_folder(out, rank) for rank in ranks]
    used = [folder for folder in folders if _holds_run(folder)]
    if resume and not any(map(holds_files, folders)):
        raise CheckpointError(f"--resume: no run of {_named(list(ranks))} in {str(out)!r}; start one without --resume")
    if resume and size is not None:
        _check_size(folders, size)
    if private := [] if resume else [folder for folder in folders if is_private(folder)]:
        raise OutputError(
            f"{str(private[0])!r} holds a private run, whose ledger must not be lost: give another --out"
            + ("" if overwrite else ", or --resume")
        )
    if used and not resume and not overwrite:
        raise OutputError(f"{str(used[0])!r} holds an earlier run: give --resume, --overwrite or another --out")


def _check_size(folders: list[Path], size: int) -> None:
    for folder in folders:
        found = checkpoint.latest(folder / checkpoint.FOLDER)
        content = read_object(found / "state.json") if found else {}
        there = (content.get("fingerprint") or {}).get("size")
        if there is not None and there != size:
            raise CheckpointError(
                f"--resume: the run in {str(folder)!r} is of {there} peers, and --size is {size} here: it is that "
                "of the start; use the same size, or start over in another --out"
            )


def behind(out: Path, topology: Graphs, rounds: int) -> list[str]:
    """Which peers of a federation that is resumed need a body that its sender has no more, a line for each.

    Such a peer was lost while the others went on; it sits out rounds until it has caught up. Only peers that exchange
    bodies are compared: those that do not can be many rounds apart after a clean stop.
    """
    done = [checkpoint.completed(rank_folder(out, rank)) for rank in range(topology.size)]
    ahead: dict[int, int] = {}
    for number in range(min(done), min(max(done), rounds)):
        for rank in range(topology.size):
            for receiver in topology.at(number, rank).out_neighbors:
                if cut_off(number, done[rank], done[receiver]):
                    first, last = sorted((rank, receiver), key=lambda one: done[one])
                    ahead[first] = max(ahead.get(first, last), last, key=lambda one: done[one])
    return [
        f"rank {first} has completed {done[first]} rounds and rank {last} {done[last]}: rank {first} sits out rounds "
        "until it has caught up"
        for first, last in sorted(ahead.items())
    ]


def refuse_faults(run: RunPart, *, resume: bool) -> None:
    """Refuse planned faults where peers are real, and resuming a run that had any.

    Raises:
        ConfigurationError: Names the file or the folder.
    """
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
    return completed_rounds(out) > 0


def completed_rounds(out: Path) -> int:
    """How many rounds the newest checkpoint of rank 0 has completed; 0 without one."""
    return checkpoint.completed(rank_folder(out, 0))


def forget_releases(out: Path) -> None:
    """Remove the releases of a killed simulation of these ranks, which only its own process has got."""
    for folder in out.glob("rank-*"):
        shutil.rmtree(folder / FOLDER, ignore_errors=True)
        shutil.rmtree(folder / checkpoint.FOLDER, ignore_errors=True)
        (folder / METRICS).unlink(missing_ok=True)


def _named(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"{len(ranks)} peers"


@contextlib.contextmanager
def working_folder_kept() -> Iterator[Path]:
    """The current folder; whatever folder the process changes to within the block, afterwards it is back there.

    Raises:
        ConfigurationError: The current folder was deleted.
    """
    home = current_folder()
    try:
        yield home
    finally:
        with contextlib.suppress(OSError):  # deleted in mid-run: nothing is left to go back to
            os.chdir(home)


def current_folder() -> Path:
    """The current folder.

    Raises:
        ConfigurationError: It was deleted.
    """
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise ConfigurationError("the current folder was deleted: change to one that exists (cd)") from error


_GOES_ON = "then --resume goes on from the last completed round"

_FULL = "no space is left on its disk, or in its quota; make room"

_DISK = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: "a file is longer than the limit allows (ulimit -f); raise it",
    errno.EROFS: "its file system is read-only; mount it writable",
    errno.EIO: "its disk reports an input/output error; check the disk",
    errno.ESTALE: "its network file system has a stale file handle; mount it again",
}
"""By error number, what keeps a folder from being written and what to do."""

_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "Cannot allocate memory")
"""What libraries that raise a RuntimeError of their own say of memory."""


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
        why = None if error.__cause__ is None else _of_limits(error.__cause__)
        if why is None:
            raise
        raise ConfigurationError(f"{why}, {_GOES_ON} ({str(folder)!r}; {str(error).partition(': ')[0]})") from error
    except Exception as error:
        why = _of_disk(error, folder)
        if why is not None:
            kind = DiskFull if why == _FULL else OutputError
            raise kind(f"{named!r} cannot be written: {why}, {_GOES_ON}") from error
        why = _of_limits(error)
        if why is None:
            raise
        raise ConfigurationError(f"{why}, {_GOES_ON} ({named!r})") from error


def _of_disk(error: Exception, folder: Path) -> str | None:
    if isinstance(error, OSError):
        if isinstance(error, FileNotFoundError) and not folder.exists():
            return "the folder was deleted in mid-run; restore it"
        return _DISK.get(error.errno or 0)
    # safetensors has an error of its own, with the system's in words.
    text = str(error)
    if f"(os error {errno.ENOENT})" in text and not folder.exists():
        return "the folder was deleted in mid-run; restore it"
    return next((why for number, why in _DISK.items() if f"(os error {number})" in text), None)


def _of_limits(error: BaseException) -> str | None:
    text = str(error)
    if isinstance(error, RuntimeError) and "can't start new thread" in text:
        return "the system gives no more threads; raise the limit (ulimit -u, or the container's of processes)"
    no_memory = isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
    if no_memory or (isinstance(error, RuntimeError) and any(words in text for words in _MEMORY)):
        return "no memory is left; raise the limit (ulimit -v, or the container's), or lower --batch-size"
    return None
