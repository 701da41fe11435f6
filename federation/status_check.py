"""Check of a peer in a status document from another host: types, lengths and printable text, before it is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, TypeAdapter, ValidationError

from dpeer.exceptions import DpeerError
from dpeer.federation.status_document import FIGURES, KEPT
from dpeer.peer.core.wire import printable

_Text = Annotated[str, Field(max_length=300), AfterValidator(printable)]
_Rank = Annotated[int, Field(ge=0, lt=2**31)]
_Count = Annotated[int, Field(ge=0, lt=2**63)]
_MOST = 2**12
"""Ranks in one list, at most."""

_Ranks = Annotated[list[_Rank], Field(max_length=_MOST), FailFast()]


class _Model(BaseModel):
    """What a newer version adds is left out; what an older one lacks has a default."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class _Neighbor(_Model):
    rank: _Rank
    liveness: _Text
    completed: _Count | None = None
    silent_seconds: float | None = None
    why: _Text = ""
    version: _Count | None = None
    bytes_sent: _Count = 0
    bytes_received: _Count = 0
    unix_socket: bool = False


class _Awaited(_Model):
    rank: _Rank
    why: _Text


class _Epoch(_Model):
    number: _Count
    members: _Ranks
    begins: _Count


class _Round(_Model):
    round: _Count
    round_seconds: float | None = None
    accuracy: float | None = None
    test_loss: float | None = None
    train_loss: float | None = None
    disagreement: float | None = None
    heard: _Ranks = []
    missed: _Ranks = []


class _Running(_Model):
    """The fields of `dpeer.peer.snapshot.Snapshot`, and those of a status document."""

    rank: _Rank
    pid: _Count
    phase: _Text
    rounds: _Count | None = None
    completed: _Count = 0
    quorum: _Count | None = None
    waits_for: Annotated[list[_Awaited], Field(max_length=_MOST), FailFast()] = []
    waiting_seconds: float = 0.0
    why: _Text = ""
    sits_out: bool = False
    drains: bool = False
    epoch: _Epoch | None = None
    next_epoch: _Epoch | None = None
    mixed: _Ranks = []
    missed: _Ranks = []
    checkpoint_seconds: float | None = None
    neighbors: Annotated[list[_Neighbor], Field(max_length=_MOST), FailFast()] = []
    mixes: bool = True
    mixed_round: _Count | None = None
    mixed_seconds: float | None = None
    round_seconds: float | None = None
    left_seconds: float | None = None
    dropped: Annotated[dict[_Text, _Count], Field(max_length=100)] = {}
    epsilon: float | None = None
    delta: float | None = None
    disk_free: _Count | None = None
    withheld: _Ranks = []
    disagreement: float | None = None
    line_share: float | None = None
    age_seconds: float = 0.0
    history: Annotated[list[_Round], Field(max_length=KEPT)] = []


class _Ended(_Model):
    """A peer that a dashboard knows of and that does not run."""

    folder: Annotated[_Text, Field(pattern=r"^[^/]+$")]
    state: _Text
    completed: _Count | None = None
    rounds: _Count | None = None
    checkpoint_seconds: float | None = None


_RUNNING, _ENDED = TypeAdapter(_Running), TypeAdapter(_Ended)


def check_peer(raw: Any, *, history: bool) -> dict[str, Any]:
    """A peer of a status document as plain values; one that does not run has "state".

    Args:
        raw: What JSON has.
        history: Whether its last rounds are kept.

    Raises:
        DpeerError: It is no peer.
    """
    try:
        if not isinstance(raw, Mapping):
            raise DpeerError("answers no status of a peer")
        if raw.get("running") is False:
            return _ENDED.validate_python(raw).model_dump()
        found = _RUNNING.validate_python(raw).model_dump(exclude=None if history else {"history"})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(printable(str(part))[:40] for part in first["loc"])
        raise DpeerError(f"answers no status of a peer: {where[:100]}: {first['msg'].lower()}") from error
    for line in found.get("history", []):  # a peer with privacy states none of them
        for name in FIGURES:
            if line[name] is None:
                del line[name]
    return found
