"""Status documents and repeated looks for the peers of run folders on this host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dpeer.federation.control_client import Place, look, ranks_of
from dpeer.federation.repeated_look import Look
from dpeer.federation.status_document import Document, document, running_peer


def looks_at(runs: Iterable[Path]) -> dict[str, Look]:
    """A look at each peer in some folders, with its last rounds, in this order.

    Raises:
        ConfigurationError: A folder holds no run.
    """
    return {str(folder): partial(look, folder, history=True) for run in runs for folder in ranks_of(run)}


def as_document(places: Sequence[Place]) -> Document:
    """The status document of peers that were looked at, with histories where the answers have them."""
    return document(_peer(one) for one in places)


def _peer(place: Place) -> dict[str, Any]:
    if place.answer is None:
        return {**place.as_json(), "folder": place.name, "unready": place.state}
    answer = dict(place.answer)
    history = answer.pop("history", [])
    return running_peer(place.name, answer, history)
