"""members.json in a rank's folder: its two member lists as operators have signed them, replaced as a whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dpeer.exceptions import system_error
from dpeer.peer.core.member_list import MemberList, MemberListError, of_document
from dpeer.results.files import MEMBERS, write_json


def write_lists(folder: Path, counts: MemberList, waits: MemberList | None) -> None:
    """Put both lists on disk; list 0 is in the federation file."""
    write_json(
        folder / MEMBERS,
        {"list": counts.document if counts.version else None, "next": None if waits is None else waits.document},
    )


def read_lists(folder: Path) -> tuple[MemberList | None, MemberList | None]:
    """The list that counts and the one that waits; None for list 0, and for none. They are not verified.

    Raises:
        MemberListError: The file is damaged.
    """
    path = folder / MEMBERS
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return _list(content["list"]), _list(content["next"])
    except FileNotFoundError:
        return None, None
    except (OSError, ValueError, TypeError, KeyError, RecursionError, MemberListError) as error:
        if (why := system_error(error)) is not None:
            raise MemberListError(f"{str(path)!r} cannot be read: {why.strerror}") from error
        raise MemberListError(
            f"{str(path)!r} is damaged ({' '.join(str(error).split())[:100]}): put back a copy, or remove it: the peer "
            "gets the lists from the others"
        ) from error


def _list(document: Any) -> MemberList | None:
    return None if document is None else of_document(document)
