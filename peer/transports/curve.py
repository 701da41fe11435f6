"""CURVE: the keys of all peers, and the authentication of connections; libzmq does the cryptography."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import zmq
from zmq.utils import z85

from dpeer.peer.core.limits import HANDSHAKE, UNREPORTED
from dpeer.peer.transport import Identity, TurnedAway
from dpeer.peer.transports.sockets import Parts, Sockets

KEY_BYTES = 32


def new_secret() -> bytes:
    """A new secret key, of 32 random bytes."""
    return z85.decode(zmq.curve_keypair()[1])


def public_of(secret: bytes) -> bytes:
    """The public key of a secret one; both have 32 bytes."""
    return z85.decode(zmq.curve_public(z85.encode(secret)))


@dataclass(frozen=True)
class Keyring:
    """A peer's secret key, and the public keys of all.

    Attributes:
        secret: This peer's secret key, 32 bytes.
        listed: The public keys of all, 32 bytes each. Several of one, while it changes from one to another.
    """

    secret: bytes = field(repr=False)
    listed: Mapping[Identity, tuple[bytes, ...]]

    @cached_property
    def public(self) -> bytes:
        """The public key of `secret`."""
        return public_of(self.secret)

    @cached_property
    def owners(self) -> Mapping[bytes, Identity]:
        """The owner of each public key."""
        return {key: identity for identity, keys in self.listed.items() for key in keys}


_DOMAIN = b"dpeer"
_ZAP = "inproc://zeromq.zap.01"
_VERSION = b"1.0"

FAILED = zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
"""The events of the socket's monitor that `failed` is for."""


class CurveAuth:
    """CURVE authentication of a listening socket: lets in the peers of a keyring alone.

    libzmq asks by its authentication protocol (ZAP, rfc.zeromq.org/spec/27), through a socket of the transport's own
    context, which no other process can reach.

    Args:
        sockets: Of the transport; take the events, too.
        router: The listening socket, before it is bound.
        keyring: The keys.
    """

    def __init__(self, sockets: Sockets, router: zmq.Socket[bytes], keyring: Keyring) -> None:
        self._sockets = sockets
        self.owners = keyring.owners
        """The owner of each public key that is let in."""
        self.proved: set[Identity] = set()
        """The identities that have proved a key so far, also without a message since."""
        self._unreported: dict[str, tuple[str, int]] = {}
        self._questions = sockets.open(zmq.REP, _ZAP)
        self._questions.bind(_ZAP)
        sockets.watch(self._questions, self._answer)
        router.curve_server = True
        router.curve_secretkey = keyring.secret
        router.setsockopt(zmq.ZAP_DOMAIN, _DOMAIN)
        router.setsockopt(zmq.HANDSHAKE_IVL, int(HANDSHAKE * 1000))

    def close(self) -> None:
        """Let no peer in any more."""
        self._sockets.close(self._questions)

    def _answer(self, parts: Parts) -> None:
        question = [part.bytes for part in parts]
        version, request, key = question[0], question[1], question[6] if len(question) == 7 else b""
        owner = self.owners.get(key) if question[5] == b"CURVE" else None
        if owner is None:
            place = question[3].decode(errors="replace")
            # Of a Unix socket libzmq gives localhost, the user, its group and the process.
            self._turned_away("localhost" if place.startswith("localhost:") else place, "unlisted-key")
            code, text, name = b"400", b"not listed", b""
        else:
            code, text, name = b"200", b"", str(owner).encode()
            self.proved.add(owner)
        with contextlib.suppress(zmq.ZMQError):  # the asking connection is gone
            self._questions.send_multipart([version or _VERSION, request, code, text, name, b""], zmq.NOBLOCK)

    def failed(self) -> None:
        """Report a connection on which no key was proved."""
        self._turned_away("", "no-key")

    def _turned_away(self, place: str, reason: str) -> None:
        self._unreported[reason] = place, self._unreported.get(reason, ("", 0))[1] + 1
        if self._sockets.waiting(self) < UNREPORTED:
            for reason, (place, count) in self._unreported.items():
                self._sockets.push(self, TurnedAway(place, reason, count))
            self._unreported.clear()
