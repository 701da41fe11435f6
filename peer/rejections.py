"""Messages that were dropped: counted by reason, logged once per link and reason."""

from __future__ import annotations

import logging
from collections import Counter

from dpeer.exceptions import ProtocolError
from dpeer.peer.transports import Link
from dpeer.peer.wire import printable

_REMEMBERED = 1024


class Rejections:
    """Counts the messages that were dropped.

    Strangers can open any number of links, so how much of them is remembered and logged is bounded.
    """

    def __init__(self, log: logging.Logger) -> None:
        self.counts: Counter[str] = Counter()
        self._log = log
        self._logged: set[tuple[Link, str]] = set()

    def count(self, link: Link, who: str, error: ProtocolError) -> None:
        """Count a message from `who` on this link that was dropped, and log the first of each link and reason."""
        self.counts[error.reason] += 1
        if (link, error.reason) not in self._logged and len(self._logged) < _REMEMBERED:
            self._logged.add((link, error.reason))
            self._log.warning("dropped a message from %s: %s", who, printable(str(error)))
