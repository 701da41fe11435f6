"""Error messages of federation/: backups and their restoration, trackers of experiments."""

import json
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dpeer.exceptions import CheckpointError, ConfigurationError, OutputError, UnknownName
from dpeer.federation.backup import back_up, restore
from dpeer.federation.privacy import account
from dpeer.federation.trackers import check
from dpeer.peer import checkpoint, restored
from dpeer.peer.restored import Restored
from dpeer.privacy import Charge, Ledger
from tests.messages.message import Message

MECHANISMS: Mapping[str, Mapping[str, Any]] = {
    "client": {"noise_multiplier": 1.0, "clip_norm": 0.5},
    "sample": {"sampling_rate": 0.05, "noise_multiplier": 1.0, "unit": "record"},
}


def ranks(folder: Path, *numbers: int, level: Any = "client", saved: bool = True) -> Path:
    """A run folder with these ranks of a federation of four, each with a round, which is completed if it is saved."""
    for number in numbers:
        own = folder / "run" / f"rank-{number}"
        own.mkdir(parents=True)
        if level is not None:
            ledger = Ledger(own / "privacy", MECHANISMS[level], level=level, resume=False, data="d")
            if level == "client":
                ledger.release(0, lambda: b"x")
            else:
                ledger.charge(0, Charge(0.05, 1.0, 3))
        if saved:
            state = checkpoint.State(1, {"size": 4}, (), None)
            checkpoint.write(own / "checkpoint", state, lambda to: None)
    return folder / "run"


def backing(text: str, file: str, error: type[Exception] = OutputError, rank: int | None = None) -> Message:
    """An error of making a backup of rank 3."""

    def cause(folder: Path) -> None:
        run = ranks(folder, 3)
        (folder / "there.zip").touch()
        (run / "rank-5").mkdir()
        back_up(run, folder / file, [3] if rank is None else [rank])

    return Message(cause, error, text)


def restoring(
    text: str, *numbers: int, level: Any = "client", saved: bool = True,
    error: type[Exception] = ConfigurationError, change: Callable[[Path], Any] = lambda folder: None, **how: Any,
) -> Message:  # fmt: skip
    """An error of putting a backup of these ranks back."""

    def cause(folder: Path) -> None:
        back_up(ranks(folder, *numbers, level=level, saved=saved), folder / "b.zip")
        change(folder)
        restore(folder / "b.zip", folder / "new", **how)

    return Message(cause, error, text)


def said(content: Mapping[str, Any]) -> Callable[[Path], Any]:
    """A file that holds this and nothing else."""

    def write(folder: Path) -> None:
        with zipfile.ZipFile(folder / "b.zip", "w") as archive:
            archive.writestr("backup.json", json.dumps(content))

    return write


def _with_note(folder: Path, content: str) -> None:
    (folder / "restored.json").write_text(content)
    restored.read(folder)


def _put_back_and_begun(folder: Path) -> None:
    own = ranks(folder, 3) / "rank-3"
    restored.write(own, Restored(0.0, 1))
    account(own / "privacy", resume=False, protects=True)


def _without_a_server(folder: Path) -> None:
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    check(["mlflow"])


MESSAGES = {
    "a backup that is there": backing(
        "'{folder}/there.zip' exists: name another file, for example with the date in its name", "there.zip"),
    "a backup in the folder that it is of": backing(
        "'{folder}/run/b.zip' lies in '{folder}/run': name a file on another disk, which outlives this one",
        "run/b.zip"),
    "a backup below a file": backing(
        "'{folder}/there.zip/b.zip' cannot be written: …", "there.zip/b.zip"),
    "a backup of a rank that is not there": backing(
        "--rank 7: '{folder}/run' holds rank-3, rank-5", "b.zip", ConfigurationError, 7),
    "a backup of nothing": backing(
        "'{folder}/run/rank-5' holds no completed round and no ledger: nothing to back up", "b.zip",
        ConfigurationError, 5),
    "no backup": Message(
        lambda folder: restore(folder / "b.zip", folder / "new"), ConfigurationError,
        "no file '{folder}/b.zip' exists"),
    "a backup that is none": restoring(
        "'{folder}/b.zip' is no backup, or a damaged one: File is not a zip file", 3,
        change=lambda folder: (folder / "b.zip").write_text("x" * 100)),
    "a folder in place of a backup": restoring(
        "'{folder}/b.zip' cannot be read: Is a directory", 3,
        change=lambda folder: (folder / "b.zip").rename(folder / "c.zip").with_name("b.zip").mkdir()),
    "a backup of another format": restoring(
        "'{folder}/b.zip' has format 2, and this dpeer reads format 1: use the dpeer that wrote it (9.0)", 3,
        change=said({"format": 2, "dpeer": "9.0"})),
    "a backup without a list": restoring(
        "'{folder}/b.zip' is no backup, or a damaged one: backup.json: KeyError('files')", 3,
        change=said({"format": 1})),
    "a rank that the backup has not": restoring("--rank 4: '{folder}/b.zip' holds rank-3", 3, ranks=[4]),
    "a rank that is there": restoring(
        "'{folder}/new/rank-3' exists: a backup replaces nothing; if its disk is lost, move what is left of it away", 3,
        error=OutputError, change=lambda folder: (folder / "new" / "rank-3" / "checkpoint").mkdir(parents=True)),
    "restarts of a peer that protects records": restoring(
        "rank 3 protects records (--privacy sample): a process that began again between backup and loss took the steps "
        "of its round twice, and no file tells how often; give --restarts N, at most so often (0: never)", 3,
        level="sample"),
    "rounds of a federation that is put back": restoring(
        "the backup puts back 2 of 4 ranks, so no quorum of others remembers what was released since: give --rounds N, "
        "the most rounds that a rank can have completed before the loss", 2, 3),
    "rounds of a rank that has completed none": restoring(
        "rank 3 has completed no round in the backup, so it cannot wait for one that has gone on since: give --rounds "
        "N, the most rounds that a rank can have completed before the loss", 3,
        saved=False),
    "a damaged note of a restored folder": Message(
        lambda folder: _with_note(folder, '{"completed": 3}'), CheckpointError,
        "'{folder}/restored.json' is damaged: what was released since the backup cannot be counted; restore the backup "
        "again"),
    "a private run in a restored folder": Message(
        _put_back_and_begun, CheckpointError,
        "'{folder}/run/rank-3' was put back from a backup, and what it has released since is not counted yet: go on "
        "with --resume, and --overwrite later; or give --new-data if the data are others now"),
    "an unknown tracker": Message(
        lambda folder: check(["mlfow"]), UnknownName,
        "unknown tracker 'mlfow': did you mean 'mlflow'? valid: tensorboard, mlflow, wandb"),
    "MLflow without a server": Message(
        _without_a_server, ConfigurationError,
        "--log-to mlflow: set MLFLOW_TRACKING_URI to the server's address, such as http://host:5000"),
}  # fmt: skip
