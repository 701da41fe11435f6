"""Keys of CURVE: a peer's own, and those of the others. libzmq does the cryptography."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import zmq
from zmq.utils import z85

from dpeer.peer.transport import Identity

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
        listed: The public keys of everybody, 32 bytes each. Several of one, while it changes from one to another.
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
