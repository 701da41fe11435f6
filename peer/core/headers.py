"""Headers: unpacking msgpack that anybody may have made, within bounds. No I/O.

A byte of msgpack can stand for a container of a hundred bytes of memory, for an error report as long, or for four
thousand million entries that do not follow. So what a header may hold has bounds of its own, and is looked at once
without making anything of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack

from dpeer.exceptions import ProtocolError
from dpeer.peer.core.limits import HEADER_CONTAINERS, HEADER_DEPTH, HEADER_FIELDS
from dpeer.peer.learner import Buffer


def unpack(header: Buffer) -> dict[str, Any]:
    """The fields of a message, not validated: tables whose keys are text, lists and plain values.

    Raises:
        ProtocolError: reason "malformed".
    """
    try:
        skim = msgpack.Unpacker(max_buffer_size=max(memoryview(header).nbytes, 1))
        skim.feed(header)
        skim.skip()  # nothing is allocated: whatever is announced below has come
        made = _Made()
        # A timestamp, of which there is none in a header, becomes a number: its own objects are slow to make.
        fields = msgpack.unpackb(
            header, raw=False, object_pairs_hook=made.table, list_hook=made.sequence, ext_hook=_refuse, timestamp=1
        )
    except Exception as error:  # msgpack raises many kinds, none of which says anything but "not msgpack"
        raise ProtocolError("malformed", f"header is not msgpack as expected: {type(error).__name__}") from error
    if not isinstance(fields, dict) or len(fields) > HEADER_FIELDS or not _is_flat(fields, HEADER_DEPTH):
        raise ProtocolError("malformed", "header is not a message's")
    return fields


class _Made:
    """Counts containers while they are made."""

    def __init__(self) -> None:
        self._left = HEADER_CONTAINERS

    def sequence(self, values: list[Any]) -> list[Any]:
        self._left -= 1
        if self._left < 0:
            raise ValueError("too many containers")
        return values

    def table(self, pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
        self._left -= 1
        found = dict(pairs)
        # Of two values of one key, two programs could each take another.
        if self._left < 0 or len(found) < len(pairs) or not all(isinstance(key, str) for key in found):
            raise ValueError("too many containers, a key twice, or one that is not text")
        return found


def _refuse(kind: int, data: bytes) -> None:
    raise ValueError(f"extension type {kind}")


def _is_flat(value: Any, levels: int) -> bool:
    """Whether containers are within each other at most so many times."""
    inner = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_is_flat(one, levels - 1) for one in inner if isinstance(one, dict | list))
