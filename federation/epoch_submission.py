"""Submission of epochs to running peers: epoch files, operators' signatures, and both sides of the control socket."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dpeer.atomic import replacing
from dpeer.exceptions import ConfigurationError, ProtocolError, not_written
from dpeer.federation.control_client import any_running, ask
from dpeer.federation.next_epoch import Situation
from dpeer.federation.operators import CANNOT_CHANGE, read_operator
from dpeer.peer.control import Handler
from dpeer.peer.core.epoch import SignedEpoch, check_successor
from dpeer.peer.core.limits import EPOCH_BYTES


class Running(NamedTuple):
    """A running peer and what it knows of its federation's membership."""

    folder: Path
    there: Situation


def running(run: Path) -> Running:
    """Ask a running peer for its membership.

    Args:
        run: A run folder, of which the lowest running rank is asked, or a rank's folder.

    Raises:
        ConfigurationError: No peer runs there, or its federation cannot change.
    """
    folder = any_running(run)
    return Running(folder, Situation.of(ask(folder, {"ask": "membership"})))


def answers(
    requests: Mapping[str, Handler], *, encrypted: bool, keys: Mapping[int, tuple[bytes, ...]] | None = None
) -> dict[str, Handler]:
    """The requests that a peer answers, with those of its membership complete.

    Args:
        requests: The peer's own.
        encrypted: Whether its connections need keys.
        keys: Those of the federation file, by rank.
    """
    listed = {str(rank): [key.hex() for key in some] for rank, some in (keys or {}).items()}

    def refuse(request: Mapping[str, Any]) -> Mapping[str, Any]:
        raise ConfigurationError(CANNOT_CHANGE)

    def membership(request: Mapping[str, Any]) -> Mapping[str, Any]:
        found = requests["membership"](request)
        assert isinstance(found, Mapping), "it is known at once"
        return {**found, "encrypted": encrypted, "keys": listed}

    known = {"membership": membership} if "membership" in requests else {"membership": refuse, "epoch": refuse}
    return {**requests, **known}


def hand(peer: Running, signed: SignedEpoch) -> None:
    """Hand a signed epoch to a running peer, which sends it on to all.

    Raises:
        ConfigurationError: The peer refuses it, or would: nothing is changed.
    """
    epoch = signed.epoch
    try:
        check_successor(signed, peer.there.epoch)
    except ProtocolError as error:
        raise ConfigurationError(str(error).removeprefix("epoch: ")) from error
    if epoch.begins < peer.there.earliest:
        raise ConfigurationError(
            f"epoch {epoch.number} begins with round {epoch.begins + 1}, and a change that is handed over now cannot "
            f"begin before round {peer.there.earliest + 1}: make it anew"
        )
    ask(peer.folder, {"ask": "epoch", "document": base64.b64encode(signed.encode()).decode()})


def sign(signed: SignedEpoch, operator: Path, operators: tuple[str, ...] | None = None) -> SignedEpoch:
    """Add an operator's signature.

    Args:
        signed: The epoch.
        operator: The file of the operator's secret key.
        operators: Public keys of those who may sign it; None where the epoch before it is not known.

    Raises:
        ConfigurationError: The key cannot be read, or is of none of them.
    """
    return signed.signed_with(read_operator(operator, operators))


def read_epoch(file: Path) -> SignedEpoch:
    """The epoch in a file.

    Raises:
        ConfigurationError: It cannot be read, or holds none.
    """
    try:
        with file.open("rb") as opened:
            content = opened.read(EPOCH_BYTES + 2)
        return SignedEpoch.decode(content.removesuffix(b"\n"))
    except OSError as error:
        raise ConfigurationError(f"{str(file)!r}: {error.strerror}") from error
    except ProtocolError as error:
        raise ConfigurationError(f"{str(file)!r} holds no epoch, or was changed: {error}") from error


def write_epoch(file: Path, signed: SignedEpoch) -> None:
    """Write an epoch to a file, whole or not at all; an earlier one in it is replaced.

    Raises:
        ConfigurationError: It cannot be written.
    """
    try:
        with replacing(file) as draft:
            draft.write_bytes(signed.encode() + b"\n")
    except OSError as error:
        raise not_written(repr(str(file)), error) from error
