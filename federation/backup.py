"""Backup of ranks' folders: one zip file with checksums, made while peers run or not, and put back where none are.

    backup.json                     format, time, version; by rank what it holds; by name size and SHA-256 of each file
    rank-3/checkpoint/round-.../... the files of rank 3, as they lie in its folder
    rank-3/privacy/ledger.jsonl     after the others: it has a line for each release in them
    run/summary.json                the files of the run folder itself

A folder that is put back gets a note (`dpeer.peer.restored`): what its peer released after the backup is in no file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import shutil
import stat
import time
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

import dpeer
from dpeer.exceptions import CheckpointError, ConfigurationError, OutputError
from dpeer.federation.control_client import ranks_of
from dpeer.federation.rank_lock import LOCK
from dpeer.peer import checkpoint, control, restored
from dpeer.peer.restored import Restored
from dpeer.privacy.history import FOLDER as PRIVACY
from dpeer.results.files import METRICS, RESTORED, flush, make_folder, parse, rank_folder
from dpeer.results.units import size

CONTENT = "backup.json"
"""In the zip file, as its last entry: what it holds."""

FORMAT = 1

_LEFT_OUT = (LOCK, control.SOCKET, control.ELSEWHERE)
"""Files that are of a running process alone."""

_RUN = "run"
"""In the zip file: the folder of what lies in the run folder itself."""

_DAMAGED = (zipfile.BadZipFile, zlib.error, KeyError, EOFError, NotImplementedError, RuntimeError)
"""What reading a file of a damaged archive raises."""

_RANK = re.compile(r"rank-(0|[1-9][0-9]{0,5})")

_TRIES = 50
"""How often a folder is listed again because a checkpoint was replaced meanwhile."""

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Held:
    """What a backup holds of one rank.

    Attributes:
        rank: Which.
        completed: How many rounds its checkpoint has completed.
        size: The federation's size; None without a checkpoint.
        level: "client" or "sample" where a ledger tells of private releases or steps; else None.
        files: How many files.
        bytes: How many they have together.
    """

    rank: int
    completed: int
    size: int | None
    level: str | None
    files: int
    bytes: int


@dataclass(frozen=True)
class Backup:
    """The content of a backup.

    Attributes:
        written: When it was made (Unix seconds).
        ranks: What it holds, by rank.
        files: Size and SHA-256 (hex) of each file, by name.
    """

    written: float
    ranks: Sequence[Held]
    files: Mapping[str, tuple[int, str]]


# -- making one --------------------------------------------------------------------------------------------------------


def back_up(run: Path, file: Path, ranks: Collection[int] = ()) -> Backup:
    """Write a backup of a run folder's ranks, or of one rank's folder; peers that run go on meanwhile.

    Args:
        run: The run folder, or a rank's.
        file: Where the backup goes; nothing is there yet.
        ranks: Which ranks; all that are there if empty.

    Raises:
        ConfigurationError: The folder holds no such rank, or nothing to back up.
        OutputError: The file is there already, lies in the run folder, or cannot be written.
    """
    folders = _chosen(run, ranks)
    if file.exists():
        raise OutputError(f"{str(file)!r} exists: name another file, for example with the date in its name")
    if any(folder.resolve() in file.resolve().parents for folder in (run, *folders.values())):
        raise OutputError(f"{str(file)!r} lies in {str(run)!r}: name a file on another disk, which outlives this one")
    draft = file.with_name(f".{file.name}.part")
    try:
        make_folder(file.parent)
        draft.unlink(missing_ok=True)
        # Some of the files reveal rows of data.
        with os.fdopen(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b") as target:
            found = _written(target, folders, None if ranks or run in folders.values() else run)
            target.flush()
            os.fsync(target.fileno())
        _name(draft, file)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise OutputError(f"{str(file)!r} cannot be written: {why}") from error
    finally:
        with contextlib.suppress(OSError, ValueError):
            draft.unlink(missing_ok=True)
    return found


def _chosen(run: Path, ranks: Collection[int]) -> dict[int, Path]:
    """The folders to back up, by rank."""
    found = {}
    for folder in ranks_of(run):
        name = _RANK.fullmatch(folder.resolve().name)
        if name is None:
            raise ConfigurationError(f"{str(folder)!r}: a rank's folder is called rank-R")
        found[int(name[1])] = folder
    _check_ranks(ranks, found, repr(str(run)))
    return {rank: folder for rank, folder in found.items() if not ranks or rank in ranks}


def _check_ranks(ranks: Collection[int], there: Collection[int], where: str) -> None:
    for rank in ranks:
        if rank not in there:
            raise ConfigurationError(
                f"--rank {rank}: {where} holds {', '.join(f'rank-{one}' for one in sorted(there))}"
            )


def _name(draft: Path, file: Path) -> None:
    """Give a draft its name, unless a file has it by now."""
    try:
        os.link(draft, file)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if file.exists():
            raise FileExistsError(17, os.strerror(17)) from None
        draft.rename(file)
    flush(file.parent)


def _written(target: IO[bytes], folders: Mapping[int, Path], run: Path | None) -> Backup:
    files: dict[str, tuple[int, str]] = {}
    ranks = []
    with zipfile.ZipFile(target, "w", allowZip64=True) as archive:
        for rank, folder in folders.items():
            own = _add_rank(archive, rank, folder)
            if not own:
                raise ConfigurationError(f"{str(folder)!r} holds no completed round and no ledger: nothing to back up")
            files |= own
            ranks.append(_held(archive, rank, own))
        for path in sorted(run.iterdir()) if run is not None else []:
            if path.is_file() and not path.is_symlink() and not path.name.startswith("."):
                with path.open("rb") as file:
                    files[f"{_RUN}/{path.name}"] = _add(archive, f"{_RUN}/{path.name}", file)
        found = Backup(round(time.time(), 3), ranks, files)
        content = {
            "format": FORMAT,
            "written": found.written,
            "dpeer": dpeer.__version__,
            "ranks": [dataclasses.asdict(one) for one in ranks],
            "files": {name: {"bytes": count, "sha256": digest} for name, (count, digest) in files.items()},
        }
        archive.writestr(CONTENT, json.dumps(content, indent=1) + "\n", zipfile.ZIP_DEFLATED)
    return found


def _add_rank(archive: zipfile.ZipFile, rank: int, folder: Path) -> dict[str, tuple[int, str]]:
    """Add a rank's files; returns size and SHA-256 of each, by name, or nothing where no round and no ledger is."""
    with ExitStack() as opened:
        before = _ledgers(folder)
        files = _opened(folder, opened)
        ledgers = _ledgers(folder)
        if ledgers != before:
            raise OSError(0, f"another run was begun in {str(folder)!r} meanwhile: try again")
        # Opened last: a ledger has a line for all that other files tell of.
        files += [(f"{PRIVACY}/{name}", opened.enter_context((folder / PRIVACY / name).open("rb"))) for name in ledgers]
        if not ledgers and checkpoint.latest(folder / checkpoint.FOLDER) is None:
            return {}
        return {f"rank-{rank}/{name}": _add(archive, f"rank-{rank}/{name}", file) for name, file in files}


def _ledgers(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / PRIVACY).glob("ledger*.jsonl"))


def _opened(folder: Path, opened: ExitStack) -> list[tuple[str, IO[bytes]]]:
    """A rank's files but for ledgers, all open at once, so that what is replaced or removed stays readable."""
    for _ in range(_TRIES):
        newest = checkpoint.latest(folder / checkpoint.FOLDER)
        with ExitStack() as attempt:
            try:
                files: list[tuple[str, IO[bytes]]] = [
                    (name, attempt.enter_context((folder / name).open("rb"))) for name in _names(folder, newest)
                ]
            except FileNotFoundError:  # replaced by a newer one
                continue
            if checkpoint.latest(folder / checkpoint.FOLDER) != newest:  # it may be half removed by now
                continue
            opened.push(attempt.pop_all())
            return files
    raise OSError(0, f"the files in {str(folder)!r} change too fast: try again, or drain the peer first")


def _names(folder: Path, newest: Path | None) -> list[str]:
    """The files of a rank's folder, of its checkpoints only the newest, in the order in which they are opened.

    That checkpoint first, and metrics.jsonl after it, which has its rounds and perhaps more; the list of epochs before
    the epochs.
    """
    paths = [path for path in folder.rglob("*") if stat.S_ISREG(path.lstat().st_mode)]
    kept = []
    for path in paths:
        name = path.relative_to(folder)
        if any(part.startswith(".") for part in name.parts) or path.suffix == ".part" or str(name) in _LEFT_OUT:
            continue
        if name.parts[0] == PRIVACY and name.name.startswith("ledger"):
            continue
        round_of = name.parts[1] if name.parts[0] == checkpoint.FOLDER and len(name.parts) > 1 else ""
        if round_of.startswith("round-") and (newest is None or round_of != newest.name):
            continue
        kept.append(name.as_posix())
    order = {checkpoint.FOLDER: 0, METRICS: 1}
    return sorted(kept, key=lambda name: (order.get(name.partition("/")[0], 2), not name.endswith("chain.json"), name))


def _add(archive: zipfile.ZipFile, name: str, file: IO[bytes]) -> tuple[int, str]:
    """Add an open file, of JSON lines all whole ones; returns its size and SHA-256."""
    left = _whole_lines(file) if name.endswith(".jsonl") else os.fstat(file.fileno()).st_size
    modified = time.localtime(max(os.fstat(file.fileno()).st_mtime, 315532800))[:6]  # zip files begin with 1980
    entry = zipfile.ZipInfo(name, modified)
    entry.compress_type = zipfile.ZIP_DEFLATED if name.endswith((".json", ".jsonl", ".txt")) else zipfile.ZIP_STORED
    entry.external_attr = 0o600 << 16
    count, digest = 0, hashlib.sha256()
    with archive.open(entry, "w", force_zip64=True) as target:
        while left and (block := file.read(min(left, _BLOCK))):
            target.write(block)
            digest.update(block)
            count, left = count + len(block), left - len(block)
    return count, digest.hexdigest()


def _whole_lines(file: IO[bytes]) -> int:
    """The length of a file up to the end of its last whole line."""
    end = os.fstat(file.fileno()).st_size
    while end:
        begin = max(0, end - _BLOCK)
        file.seek(begin)
        at = file.read(end - begin).rfind(b"\n")
        if at >= 0:
            end = begin + at + 1
            break
        end = begin
    file.seek(0)
    return end


def _held(archive: zipfile.ZipFile, rank: int, files: Mapping[str, tuple[int, str]]) -> Held:
    """What was added of a rank."""
    root = f"rank-{rank}/"
    states = sorted(
        n for n in files if n.startswith(f"{root}{checkpoint.FOLDER}/round-") and n.endswith(checkpoint.STATE)
    )
    state = (parse(archive.read(states[-1]).decode()) or {}) if states else {}
    completed = state.get("next_round")
    there = (state.get("fingerprint") or {}).get("size")
    ledgers = [archive.read(name).decode() for name in files if name.startswith(f"{root}{PRIVACY}/ledger")]
    levels = {level for text in ledgers if (level := _level(text)) is not None}
    return Held(
        rank,
        completed if isinstance(completed, int) else 0,
        there if isinstance(there, int) else None,
        "sample" if "sample" in levels else next(iter(levels), None),
        len(files),
        sum(count for count, _ in files.values()),
    )


def _level(ledger: str) -> str | None:
    """The level of a ledger, by its first line; None of a run without noise."""
    mechanism = (parse(ledger.partition("\n")[0]) or {}).get("mechanism")
    if not isinstance(mechanism, dict):
        return None
    return "sample" if "sampling_rate" in mechanism else "client"


# -- putting it back ---------------------------------------------------------------------------------------------------


def restore(
    file: Path, run: Path, ranks: Collection[int] = (), *, rounds: int | None = None, restarts: int | None = None
) -> Backup:
    """Put ranks' folders back from a backup, each whole or not at all; no file is replaced.

    Args:
        file: The backup.
        run: The run folder.
        ranks: Which ranks; all that the backup holds if empty.
        rounds: The most rounds that a rank can have completed before the loss, where no peer knows any more.
        restarts: How often a process can have begun again between backup and loss, where steps are private.

    Returns:
        What was put back.

    Raises:
        ConfigurationError: The file is no backup, is damaged, or holds no such rank; or a statement is missing.
        OutputError: A rank's folder is there already, or cannot be written.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            found = _content(archive, file)
            _check_ranks(ranks, [one.rank for one in found.ranks], repr(str(file)))
            chosen = [one for one in found.ranks if not ranks or one.rank in ranks]
            _check_statements(chosen, rounds, restarts)
            for one in chosen:
                _check_free(rank_folder(run, one.rank))
            for one in chosen:
                _put_back(archive, file, found, one, run, _note(found, chosen, one, rounds, restarts))
            if not ranks:
                _put_back_beside(archive, file, found, run)
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise ConfigurationError(f"{str(file)!r} is no backup, or a damaged one: {error}") from error
    except FileNotFoundError as error:
        raise ConfigurationError(f"no file {str(file)!r} exists") from error
    except OSError as error:
        raise ConfigurationError(f"{str(file)!r} cannot be read: {error.strerror or error}") from error
    return dataclasses.replace(found, ranks=chosen)


def _content(archive: zipfile.ZipFile, file: Path) -> Backup:
    """The content of a backup by its own list; names are checked, files are not."""
    try:
        content = parse(archive.read(CONTENT).decode()) or {}
        if content["format"] != FORMAT:
            raise ConfigurationError(
                f"{str(file)!r} has format {content['format']}, and this dpeer reads format {FORMAT}: use the dpeer "
                f"that wrote it ({content.get('dpeer')})"
            )
        files = {str(name): (int(one["bytes"]), str(one["sha256"])) for name, one in content["files"].items()}
        found = Backup(float(content["written"]), [Held(**one) for one in content["ranks"]], files)
        allowed = {_RUN, *(f"rank-{int(one.rank)}" for one in found.ranks)}
        if len(allowed) == 1 or not all(_is_inside(name, allowed) for name in files):
            raise ValueError("a file is of no rank")
    except (*_DAMAGED, ValueError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"{str(file)!r} is no backup, or a damaged one: {CONTENT}: {error!r}") from error
    return found


def _is_inside(name: str, roots: Collection[str]) -> bool:
    """Whether a name leads to a file below one of the roots."""
    path = PurePosixPath(name)
    plain = path.as_posix() == name and not path.is_absolute() and "\\" not in name and "\0" not in name
    return plain and len(path.parts) > 1 and path.parts[0] in roots and not {"..", "."} & set(path.parts)


def _check_statements(chosen: Sequence[Held], rounds: int | None, restarts: int | None) -> None:
    """Refuse where only the operator can know how much was released since the backup, and has not stated it."""
    private = [one for one in chosen if one.level is not None]
    if restarts is None and (sampled := [one.rank for one in private if one.level == "sample"]):
        raise ConfigurationError(
            f"rank {sampled[0]} protects records (--privacy sample): a process that began again between backup and "
            "loss took the steps of its round twice, and no file tells how often; give --restarts N, at most so often "
            "(0: never)"
        )
    if rounds is None and (begun := [one.rank for one in private if not one.completed]):
        raise ConfigurationError(
            f"rank {begun[0]} has completed no round in the backup, so it cannot wait for one that has gone on since: "
            "give --rounds N, the most rounds that a rank can have completed before the loss"
        )
    if rounds is None and private and _is_majority(chosen):
        raise ConfigurationError(
            f"the backup puts back {len(chosen)} of {chosen[0].size} ranks, so no quorum of others remembers what was "
            "released since: give --rounds N, the most rounds that a rank can have completed before the loss"
        )


def _is_majority(chosen: Sequence[Held]) -> bool:
    size = max((one.size or 0 for one in chosen), default=0)
    return 2 * len(chosen) >= size > 0


def _check_free(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise OutputError(
            f"{str(folder)!r} exists: a backup replaces nothing; if its disk is lost, move what is left of it away"
        )


def _note(backup: Backup, chosen: Sequence[Held], one: Held, rounds: int | None, restarts: int | None) -> Restored:
    returns = rounds is None and one.completed > 0 and not _is_majority(chosen)
    return Restored(backup.written, one.completed, returns, rounds, restarts or 0)


def _put_back(archive: zipfile.ZipFile, file: Path, backup: Backup, one: Held, run: Path, note: Restored) -> None:
    folder = rank_folder(run, one.rank)
    draft = folder.with_name(f".{folder.name}.restoring")
    root = f"rank-{one.rank}/"
    try:
        make_folder(run)
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        free = shutil.disk_usage(draft).free
        if free < one.bytes:
            raise OutputError(f"{str(run)!r} has {size(free)} left, and rank {one.rank} needs {size(one.bytes)}")
        for name, (count, digest) in backup.files.items():
            if name.startswith(root):
                _extract(archive, name, draft / name.removeprefix(root), count, digest, file)
        restored.write(draft, _with_earlier(note, draft))
        for path in _folders(draft):
            flush(path)
        draft.rename(folder)
        flush(run)
    except OSError as error:
        raise OutputError(f"{str(folder)!r} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _put_back_beside(archive: zipfile.ZipFile, file: Path, backup: Backup, run: Path) -> None:
    """Put the files of the run folder itself back, but for those that are there."""
    for name, (count, digest) in backup.files.items():
        folder, _, own = name.partition("/")
        if folder == _RUN and not (run / own).exists():
            draft = run / f".{own}.restoring"
            try:
                draft.unlink(missing_ok=True)
                _extract(archive, name, draft, count, digest, file)
                draft.rename(run / own)
            except OSError as error:
                raise OutputError(f"{str(run / own)!r} cannot be written: {error.strerror or error}") from error
            finally:
                with contextlib.suppress(OSError):
                    draft.unlink(missing_ok=True)


def _extract(archive: zipfile.ZipFile, name: str, path: Path, count: int, digest: str, file: Path) -> None:
    """Write one file; its size and SHA-256 are those that were noted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found, left = hashlib.sha256(), count
    try:
        with archive.open(name) as source, path.open("xb") as target:
            while block := source.read(min(_BLOCK, left + 1)):
                found.update(block)
                left -= len(block)
                if left < 0:
                    break
                target.write(block)
            target.flush()
            os.fsync(target.fileno())
    except _DAMAGED as error:
        raise ConfigurationError(f"{str(file)!r} is damaged: {name}: {error}") from error
    with contextlib.suppress(ValueError, OverflowError):  # no date
        stamp = time.mktime((*archive.getinfo(name).date_time, 0, 0, -1))
        os.utime(path, (stamp, stamp))  # by which people see how old a checkpoint is
    if left or found.hexdigest() != digest:
        raise ConfigurationError(f"{str(file)!r} is damaged: {name} is not what was backed up")


def _with_earlier(note: Restored, folder: Path) -> Restored:
    """The note, with that of a folder which was itself restored and had not taken part again."""
    if not (folder / RESTORED).exists():
        return note
    try:
        before = restored.read(folder)
    except CheckpointError:  # it was damaged when it was backed up
        raise ConfigurationError(f"{RESTORED} in the backup is damaged: use another backup") from None
    assert before is not None
    rounds = [one for one in (before.rounds, note.rounds) if one is not None]
    return dataclasses.replace(note, rounds=max(rounds, default=None), restarts=note.restarts + before.restarts)


def _folders(root: Path) -> Iterator[Path]:
    yield from (path for path in root.rglob("*") if path.is_dir())
    yield root
