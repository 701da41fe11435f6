"""Duplicate rows across the peers of one host, found by keyed digests in a private folder, never sent.

Each peer leaves the digests of its rows in a folder that its user alone can read, and looks at those of the others once
its neighbors are there. The key is drawn for that folder. A peer holds a lock on its file while it runs, so that the
file of one that was killed is known as such.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils.data import TensorDataset

from dpeer.training import Task
from dpeer.training.data.duplicate_rows import WIDTH, digests

_MOST = 1 << 28
"""Bytes of inputs of a task of one's own up to which they are compared: it takes a second or so."""

_KEY = 32
"""Bytes of a folder's key."""


class Held(NamedTuple):
    """Digests of a peer's rows: of those that it trains on or chooses by, and of those that it is tested on."""

    trained: Sequence[bytes]
    tested: Sequence[bytes]


class Found(NamedTuple):
    """The rows of a peer that another rank has, too.

    Attributes:
        rank: The other.
        rows: How many rows of the peer it has.
        of: How many rows the peer has.
        tested: How many of the peer's test rows it trains on.
        of_tested: How many test rows the peer has.
    """

    rank: int
    rows: int
    of: int
    tested: int
    of_tested: int

    def __str__(self) -> str:
        also = f"rank {self.rank}, on this host, also has {self.rows:,} of this peer's {self.of:,} rows"
        if not self.tested:
            return f"{also}: give each rank rows of its own"
        return (
            f"{also}, and trains on {self.tested:,} of its {self.of_tested:,} test rows: the gain is measured on rows "
            "that another rank has trained on; give each rank rows of its own"
        )


class Registry:
    """The digests of the peers of one federation on this host.

    Args:
        folder: Where they are: of this user, and closed to others.
        fingerprint: What is equal on all peers of the federation.
        rank: This peer.
        held: Its rows, by digests without a key.
    """

    def __init__(self, folder: Path, fingerprint: Mapping[str, Any], rank: int, held: Held) -> None:
        self._folder, self._rank, self._key = folder, rank, _key_of(folder)
        self._federation = self._keyed(json.dumps(fingerprint, sort_keys=True, default=str).encode()).hex()
        self._held = Held(*(list(map(self._keyed, part)) for part in held))

    def _keyed(self, content: bytes) -> bytes:
        return blake2b(content, key=self._key, digest_size=WIDTH).digest()

    @contextmanager
    def published(self) -> Iterator[None]:
        """Leave this peer's digests in the folder while the block runs."""
        path = self._folder / f"{self._federation}-{self._rank}-{os.getpid()}.rows"
        made = path.with_suffix(".new")
        with _one_at_a_time(self._folder):  # between opening and locking it must not look like a killed peer's
            made.unlink(missing_ok=True)
            file = os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with file:
            try:
                head = {"rank": self._rank, "trained": len(self._held.trained), "tested": len(self._held.tested)}
                file.write(json.dumps(head).encode() + b"\n" + b"".join(part for two in self._held for part in two))
                file.flush()
                made.rename(path)
                yield
            finally:
                made.unlink(missing_ok=True)
                path.unlink(missing_ok=True)

    def compare(self) -> list[Found]:
        """The rows of this peer that other ranks of this host have, too; digests of killed peers are removed."""
        found = {}
        for path in sorted(self._folder.glob("*.rows")):
            with suppress(OSError, ValueError, KeyError, TypeError):
                read = _read(path)
                if read is not None and read[0] != self._rank and path.name.startswith(f"{self._federation}-"):
                    found[read[0]] = self._shared(*read)
        return [one for _, one in sorted(found.items()) if one is not None]

    def _shared(self, rank: int, theirs: Held) -> Found | None:
        """None where all that both have is what both are tested on: many tasks give all peers the same test data."""
        trained, everything = {*theirs.trained}, {*theirs.trained, *theirs.tested}
        mine = [*self._held.trained, *self._held.tested]
        tested = sum(one in trained for one in self._held.tested)
        if not tested and everything.isdisjoint(self._held.trained):
            return None
        return Found(rank, sum(one in everything for one in mine), len(mine), tested, len(self._held.tested))


@contextmanager
def registered(fingerprint: Mapping[str, Any], rank: int, held: Held | None) -> Iterator[Registry | None]:
    """Take part in the comparison while the block runs; None where nothing is compared, or without a folder."""
    with ExitStack() as stack:
        registry = None
        with suppress(OSError):  # no room, or a folder without locks: then nothing can be found
            folder = private_folder(make=held is not None)
            if folder is not None:
                _sweep(folder)
            if held is not None and folder is not None:
                registry = Registry(folder, fingerprint, rank, held)
                stack.enter_context(registry.published())
        yield registry


def held_rows(task: Task) -> Held | None:
    """Digests of a task's rows; None where a common pool is divided, or inputs are no tensors in memory."""
    if (found := task.contents) is not None:
        return Held([*found["train"], *found["validation"]], found["test"])
    parts = [part for part in (task.train, task.validation, task.test) if part is not None]
    if task.built is not None or task.division is not None:
        return None
    if not all(isinstance(part, TensorDataset) for part in parts):
        return None
    inputs = [part.tensors[0] for part in parts]
    # A single number a row may be the row's content, or its place in something else.
    if any(one.ndim < 2 or one.layout != torch.strided for one in inputs) or sum(one.nbytes for one in inputs) > _MOST:
        return None
    with suppress(TypeError):  # types that numpy does not have
        *trained, tested = (digests(one.detach().cpu().numpy()) for one in inputs)
        return Held([row for part in trained for row in part], tested)
    return None


def private_folder(*, make: bool = True) -> Path | None:
    """The folder of this user's peers on this host, which this user alone can read; None where it cannot be had.

    Args:
        make: Whether a missing one is made.
    """
    usual = os.environ.get("XDG_RUNTIME_DIR")
    for place in (usual, tempfile.gettempdir()):
        if not place or not Path(place).is_absolute():
            continue
        folder = Path(place) / f"dpeer-rows-{os.getuid()}"
        with suppress(OSError):
            if make:
                folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.lstat()  # anybody may have made it, where all may write
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
                return folder
    return None


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Within it no other peer makes or removes files of the folder."""
    with (folder / "key").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _sweep(folder: Path) -> None:
    """Remove what killed peers have left: files without a lock."""
    if not (folder / "key").exists():
        return
    with _one_at_a_time(folder):
        for path in [*folder.glob("*.rows"), *folder.glob("*.new")]:
            with suppress(OSError), path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)


def _key_of(folder: Path) -> bytes:
    """The folder's key, drawn by the first peer."""
    path = folder / "key"
    if not path.exists():
        drawn = folder / f"key-{os.getpid()}"
        drawn.unlink(missing_ok=True)
        try:
            with os.fdopen(os.open(drawn, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(secrets.token_bytes(_KEY))
            with suppress(FileExistsError):
                path.hardlink_to(drawn)
        finally:
            drawn.unlink(missing_ok=True)
    key = path.read_bytes()
    if len(key) != _KEY:
        raise OSError(f"{str(path)!r} is damaged")
    return key


def _read(path: Path) -> tuple[int, Held] | None:
    """Whose digests a file has, and these; None, and the file is removed, where its peer does not run any more."""
    with path.open("rb") as file:
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
            return None
        head, content = json.loads(file.readline()), file.read()
    parts = [content[start : start + WIDTH] for start in range(0, len(content), WIDTH)]
    return int(head["rank"]), Held(parts[: head["trained"]], parts[head["trained"] :])
