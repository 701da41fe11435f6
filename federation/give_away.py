"""The small file by which a site tells others what joining was worth to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import dpeer
from dpeer.exceptions import CheckpointError, ConfigurationError, OutputError
from dpeer.peer import checkpoint
from dpeer.peer.core.wire import federation_id
from dpeer.results.files import SUMMARY, write_json
from dpeer.results.reading import read_object, read_peer_summary
from dpeer.results.sites import Site
from dpeer.results.worth import FEWEST_ROWS

if TYPE_CHECKING:
    from dpeer.results.summaries import PeerSummary


def check_may_give_away(folder: Path, file: Path) -> None:
    """Refuse before a comparison is made for it what cannot be given away.

    Args:
        folder: A rank's folder.
        file: Where it is to be written.

    Raises:
        ConfigurationError: The run is private.
        OutputError: The file is a folder, or there is no folder for it.
    """
    summary = read_peer_summary(folder)
    mode = None if summary is None else summary.settings.get("privacy")
    if mode not in (None, "none"):
        raise ConfigurationError(
            f"--give-away: {str(folder)!r} is of a run with --privacy {mode}, and the gain is computed from records "
            "without noise: it stays at home"
        )
    if file.is_dir() or not file.parent.is_dir():
        why = "is a folder" if file.is_dir() else "is in a folder that does not exist"
        raise OutputError(f"--give-away {str(file)!r} {why}: name a file, such as worth-0.json")


def give_away(folder: Path, file: Path) -> None:
    """Write what joining was worth to the peer of a rank's folder, which has been compared, for others to combine.

    Raises:
        CheckpointError: The folder has no checkpoint, which tells of which federation it is.
        ConfigurationError: It was compared on so few rows that the gain tells of single ones.
        OutputError: The file cannot be written.
    """
    summary = read_peer_summary(folder)
    assert summary is not None, "compared"
    worth = summary.worth
    assert worth is not None, "compared"
    if (worth.rows or 0) < FEWEST_ROWS:
        raise ConfigurationError(
            f"--give-away: {str(folder)!r} was compared on {worth.rows} rows: below {FEWEST_ROWS} a gain tells of "
            "single rows, and stays at home"
        )
    site = Site(
        str(file), dpeer.__version__, _federation(folder), summary.size or 0, _rank(folder),
        summary.completed_rounds or 0, _shares_rows(summary), worth,
    )  # fmt: skip
    try:
        write_json(file, site.to_json())
    except OSError as error:
        raise OutputError(f"--give-away {str(file)!r} cannot be written: {error.strerror}") from error


def _rank(folder: Path) -> int:
    return int(read_object(folder / SUMMARY)["rank"])


def _shares_rows(summary: PeerSummary) -> bool:
    return summary.settings.get("test_split") == "shared"


def _federation(folder: Path) -> str:
    found = checkpoint.latest(folder / checkpoint.FOLDER)
    fingerprint = read_object(found / "state.json").get("fingerprint") if found else None
    if not fingerprint:
        raise CheckpointError(
            f"--give-away: {str(folder / checkpoint.FOLDER)!r} has no checkpoint, which tells of which federation the "
            "peer is"
        )
    return federation_id(fingerprint).hex()
