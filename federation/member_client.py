"""Member lists in files and at running peers: read, written, asked for, and handed over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dpeer.atomic import replacing
from dpeer.exceptions import ConfigurationError, DpeerError, not_written
from dpeer.federation import config
from dpeer.federation.control_client import NotRunning, ask, ranks_of
from dpeer.federation.member_changes import Situation
from dpeer.federation.policy import check_graph
from dpeer.federation.settings import Settings
from dpeer.peer.core.member_list import MOST_BYTES, NO_KEY, Key, MemberList, MemberListError, Stamp, decode, of_document


class Asked(NamedTuple):
    """Where a change goes, and what is known there; the folder is that of a running peer, None for a list in a file."""

    folder: Path | None
    there: Situation
    settings: Settings


def asked(place: Path, federation: Path | None) -> Asked:
    """What a change of a run, or of the list in a file, follows.

    Args:
        place: The folder of a run of which a peer runs here, or a file with a list.
        federation: The federation file; None for ./dpeer.toml. A running peer has settings of its own.

    Raises:
        ConfigurationError: No peer runs there, its federation has no operators, the file cannot be read, or the
            site's policy forbids the graph's program.
    """
    if not place.is_dir():
        one = read_list(place)
        if config.source(federation) is None:
            raise ConfigurationError(f"{str(place)!r}: name the federation file, too, with --federation FILE")
        found = Asked(None, Situation(one), config.load(federation, {}))
    else:
        folder, answer = _ask(place)
        found = Asked(folder, _situation(answer), Settings.model_validate_json(json.dumps(answer["settings"])))
    check_graph(found.settings.topology, found.settings.secret)
    return found


def look(place: Path) -> tuple[Situation, Mapping[str, Any]]:
    """What a running peer, or a file, says of member lists, and the same as plain JSON values.

    Raises:
        NotRunning: No peer runs there.
        ConfigurationError: The file cannot be read, or is no list.
    """
    if place.is_dir():
        _, answer = _ask(place)
        return _situation(answer), answer
    one = read_list(place)
    return Situation(one), one.document


def hand(folder: Path, one: MemberList) -> None:
    """Hand a list to the peer that runs in a rank's folder; one that it does not take is an error."""
    answer = ask(folder, {"ask": "members", "members": "hand", "list": one.document})
    if not answer["taken"]:
        raise ConfigurationError(
            f"the peer in {str(folder)!r} does not take member list {one.version}: {answer['why']}"
        )


def ask_again(folder: Path) -> Situation:
    """What the peer in a rank's folder knows now."""
    return _situation(ask(folder, {"ask": "members", "members": "show"}))


def _ask(run: Path) -> tuple[Path, Mapping[str, Any]]:
    """The lowest rank of a run folder whose peer runs, and its answer."""
    reasons = []
    for folder in ranks_of(run):
        try:
            return folder, ask(folder, {"ask": "members", "members": "show"})
        except NotRunning as error:
            reasons.append(error)
    raise reasons[0]


def _situation(answer: Mapping[str, Any]) -> Situation:
    try:
        stamps = {int(rank): Stamp(_key(counts), _key(waits)) for rank, (counts, waits) in answer["stamps"].items()}
        waits = answer["next"]
        return Situation(
            of_document(answer["list"]),
            None if waits is None else of_document(waits),
            frozenset(answer["living"]),
            answer["rank"],
            stamps,
            answer["round"],
            answer["since"],
        )
    except (KeyError, TypeError, ValueError, MemberListError) as error:
        raise DpeerError(f"the peer's answer cannot be read ({error!r}): is it of another version of dpeer?") from error


def _key(pair: Any) -> Key:
    return NO_KEY if pair is None else Key(int(pair[0]), bytes.fromhex(pair[1]))


def read_list(file: Path) -> MemberList:
    """The list in a file; its signatures are not verified."""
    try:
        with file.open("rb") as opened:
            return decode(opened.read(MOST_BYTES + 2).removesuffix(b"\n"))
    except OSError as error:
        raise ConfigurationError(f"{str(file)!r}: {error.strerror}") from error
    except MemberListError as error:
        raise ConfigurationError(f"{str(file)!r}: {error}") from error


def write_list(file: Path, one: MemberList) -> None:
    """Write a list to a file, whole or not at all; an earlier one is replaced."""
    try:
        with replacing(file) as draft:
            draft.write_bytes(one.encode() + b"\n")
    except OSError as error:
        raise not_written(repr(str(file)), error) from error
