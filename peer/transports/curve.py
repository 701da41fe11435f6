"""CURVE: the keys of all peers, and the authentication of connections; libzmq does the cryptography."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import zmq
from zmq.auth.asyncio import AsyncioAuthenticator
from zmq.utils import z85

from dpeer.peer.core.limits import HANDSHAKE, UNREPORTED
from dpeer.peer.transport import Identity, TurnedAway
from dpeer.peer.transports.sockets import Sockets

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


_DOMAIN = "dpeer"

FAILED = zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
"""The events of the socket's monitor that `failed` is for."""


class CurveAuth(AsyncioAuthenticator):
    """CURVE authentication of a listening socket: lets in the peers of a keyring alone.

    libzmq asks by its authentication protocol (ZAP, rfc.zeromq.org/spec/27), through a socket of the transport's own
    context, which no other process can reach.

    Args:
        router: The listening socket, before it is bound.

    Attributes:
        proved: The identities that have proved a key so far, also without a message since.
    """

    def __init__(self, sockets: Sockets, router: zmq.Socket[bytes], keyring: Keyring) -> None:
        super().__init__(sockets.context)
        self.proved: set[Identity] = set()
        self._sockets = sockets
        self._place = ""
        self.relist(keyring)
        self._unreported: dict[str, tuple[str, int]] = {}
        self.configure_curve_callback(_DOMAIN, self)
        self.start()
        router.curve_server = True
        router.curve_secretkey = keyring.secret
        router.setsockopt(zmq.ZAP_DOMAIN, _DOMAIN.encode())
        router.setsockopt(zmq.HANDSHAKE_IVL, int(HANDSHAKE * 1000))

    def relist(self, keyring: Keyring) -> None:
        """Let in the peers of this keyring alone from now on; `owner` knows no others, connected or not."""
        self._owners = {z85.encode(key).decode(): identity for key, identity in keyring.owners.items()}

    def owner(self, user: str) -> Identity | None:
        """Who has sent a message, by its connection's `curve_user_id`; None if its key is listed no more."""
        return self._owners.get(user)

    async def handle_zap_message(self, msg: list[bytes]) -> None:
        """Answer a question of libzmq's, and note the host that it is about."""
        self._place = msg[3].decode(errors="replace")
        with contextlib.suppress(zmq.ZMQError):  # the asking connection is gone
            await super().handle_zap_message(msg)

    def callback(self, domain: str, key: bytes) -> bool:
        """Whether a key, as text of Z85, is listed."""
        owner = self._owners.get(key.decode())
        if owner is None:
            # Of a Unix socket libzmq gives localhost, the user, its group and the process.
            local = self._place.startswith("localhost:")
            self._turned_away("localhost" if local else self._place, "unlisted-key")
            return False
        self.proved.add(owner)
        return True

    def curve_user_id(self, client_public_key: bytes) -> str:
        """What messages of a connection with this key carry: the key, as text of Z85."""
        return z85.encode(client_public_key).decode()

    def failed(self) -> None:
        """Report a connection on which no key was proved."""
        self._turned_away("", "no-key")

    def _turned_away(self, place: str, reason: str) -> None:
        self._unreported[reason] = place, self._unreported.get(reason, ("", 0))[1] + 1
        if self._sockets.waiting(self) < UNREPORTED:
            for reason, (place, count) in self._unreported.items():
                self._sockets.push(self, TurnedAway(place, reason, count))
            self._unreported.clear()
