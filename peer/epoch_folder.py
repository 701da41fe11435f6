"""Chain of epochs on disk: a file for each signed document, and one that names what was accepted.

epochs/0001-8c1f0e22.json    a signed epoch: its number, and the first digits of its hash
epochs/chain.json            the documents in order, those accepted, those void
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from dpeer.exceptions import CheckpointError, ProtocolError
from dpeer.peer.core.epoch import SignedEpoch
from dpeer.peer.core.epoch_chain import ChainRecord
from dpeer.results.files import flush, make_folder, replace

FOLDER = "epochs"
"""In a rank's folder: its chain."""

CHAIN = "chain.json"

_KEYS = {"documents", "line", "void", "revision"}


def write(folder: Path, record: ChainRecord) -> None:
    """Put a record on disk; after a power loss it is there, or the one before.

    Args:
        folder: Of the chain.
        record: What is to be there; documents that are there already are not written again.
    """
    make_folder(folder)
    names = []
    for document in record.documents:
        name = _name(document)
        names.append(name)
        if not (folder / name).exists():
            replace(folder / name, document.decode("ascii"))
    content = {"documents": names, "line": record.line, "void": record.void, "revision": record.revision}
    replace(folder / CHAIN, json.dumps(content, indent=1) + "\n")
    flush(folder)


def read(folder: Path) -> ChainRecord:
    """The record on disk; an empty one without one.

    Raises:
        CheckpointError: It is damaged; names the file.
    """
    chain = folder / CHAIN
    if not chain.exists():
        return ChainRecord()
    try:
        found = json.loads(chain.read_text(encoding="ascii"))
        if set(found) != _KEYS:
            raise ValueError("not what was written")
        named = [found[name] for name in ("documents", "line", "void")]
        revision = found["revision"]
        if not all(isinstance(one, list) and all(isinstance(text, str) for text in one) for one in named):
            raise ValueError("not what was written")
        if not (isinstance(revision, int) and 0 <= revision < 2**32):
            raise ValueError(f"revision {revision!r}")
        documents, line, void = named
        return ChainRecord(tuple(_read(folder / name) for name in documents), tuple(line), tuple(void), revision)
    except (OSError, ValueError, TypeError, RecursionError, ProtocolError) as error:
        raise CheckpointError(
            f"the epochs in {str(folder)!r} are damaged: {type(error).__name__}: {error}; restore the folder, or take "
            "it from a neighbor's rank folder"
        ) from error


def misfit(folder: Path, error: ProtocolError) -> CheckpointError:
    """The error of a record that cannot be followed from the settings with which a peer is resumed.

    Args:
        folder: Of the chain.
        error: Why it cannot be.
    """
    why = str(error).removeprefix("epoch: ")
    return CheckpointError(
        f"the epochs in {str(folder)!r} do not fit this run: {why}; resume with the federation file, rounds included, "
        "with which the federation began"
    )


def remove(folder: Path) -> None:
    """Remove an earlier run's chain."""
    shutil.rmtree(folder, ignore_errors=True)


def _name(document: bytes) -> str:
    epoch = SignedEpoch.decode(document).epoch
    return f"{epoch.number:04d}-{epoch.digest[:8]}.json"


def _read(path: Path) -> bytes:
    document = path.read_bytes()
    if _name(document) != path.name:
        raise ValueError(f"{path.name} is not what was written")
    return document
