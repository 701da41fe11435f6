"""Messages between a peer and a relay: greeting, proof of a key, answer; no I/O.

    relay  GREETING  the protocol's name, a public key that lasts as long as the relay's process, and a new nonce
    peer   CLAIM     its purpose, its own key, the other end, and the proof
    relay  ANSWER    one byte: joined to the other end, whose bytes follow, or why not; WAITING before, again and again

The proof is HMAC-SHA256 over greeting and claim, under a key that HKDF-SHA256 (RFC 5869) makes of the X25519 secret
(RFC 7748) of both public keys. Only the owner of the claimed key, or the relay itself, can make it. The nonce makes a
recorded proof useless. No key of CURVE is made of it, which hashes the same secret with another function.

A peer that can be called waits on one connection (`LISTEN`). Who dials its key (`DIAL`) is joined to that one, and the
peer opens the next.
"""

from __future__ import annotations

import hmac
import secrets
import struct
from hashlib import sha256
from typing import NamedTuple, Self

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dpeer.exceptions import ProtocolError

NAME = b"dpRelay2"
KEY_BYTES = 32
GREETING_BYTES = len(NAME) + 2 * KEY_BYTES
NOBODY = bytes(KEY_BYTES)

LISTEN, DIAL = b"L", b"D"
"""Purposes of a connection: be called, call the peer with a key."""

_CLAIM = struct.Struct("<c32s32s32s")
CLAIM_BYTES = _CLAIM.size

WAITING, TAKEN = b".", b"+"
REFUSALS = {
    b"k": "it does not take the key of this peer: see that the relay's --keys FILE lists the key that belongs to this "
    "peer's secret",
    b"o": "its --keys FILE does not list the key of that rank beside this peer's",
    b"a": "the peer of that rank is not connected to it",
    b"m": "this peer has too many calls there",
    b"r": "another process connected to it with this peer's key",
}
"""Why a relay refuses or ends a connection, by its byte."""

UNKNOWN_KEY, UNKNOWN_OTHER, ABSENT, TOO_MANY, REPLACED = REFUSALS

CALL_WITHIN = 10.0
"""Seconds that a called peer has to wait again after it was joined to a caller."""

WAITING_EVERY = 15.0
SILENT = 3 * WAITING_EVERY
"""Seconds between two bytes to a peer that waits, and of silence after which it takes the relay for dead."""

_INFO = b"dpeer relay 2: proof of a key"
_NO_RELAY = ("malformed", "what listens at this port is no dpeer relay")


class Claim(NamedTuple):
    """A peer's purpose and key, which the relay has not checked yet.

    Attributes:
        other: The key of the called peer (DIAL), or zeros.
    """

    purpose: bytes
    key: bytes
    other: bytes
    proof: bytes = NOBODY

    def encode(self) -> bytes:
        """The bytes on the wire."""
        return _CLAIM.pack(*self)

    @classmethod
    def decode(cls, message: bytes) -> Self:
        """A claim that came, of `CLAIM_BYTES`.

        Raises:
            ProtocolError: the purpose is none.
        """
        found = cls(*_CLAIM.unpack(message))
        if found.purpose not in (LISTEN, DIAL):
            raise ProtocolError("malformed", "a connection without a purpose")
        return found


def prove(secret: bytes, greeting: bytes, purpose: bytes, other: bytes = NOBODY) -> Claim:
    """The answer to a greeting, of the owner of this secret key.

    Raises:
        ProtocolError: what greets is no relay of this protocol, or its key is none (RFC 7748, section 6.1).
    """
    own = X25519PrivateKey.from_private_bytes(secret)
    claim = Claim(purpose, own.public_key().public_bytes_raw(), other)
    if len(greeting) != GREETING_BYTES or not greeting.startswith(NAME):
        raise ProtocolError(*_NO_RELAY)
    try:
        shared = own.exchange(X25519PublicKey.from_public_bytes(greeting[len(NAME) : -KEY_BYTES]))
    except ValueError as error:
        raise ProtocolError(*_NO_RELAY) from error
    return claim._replace(proof=_proof(shared, greeting, claim))


class Verifier:
    """A relay's half of the proof: one key pair as long as its process lasts, one nonce a connection."""

    def __init__(self) -> None:
        self._own = X25519PrivateKey.generate()

    def greeting(self) -> bytes:
        """The greeting of one connection, used for no other."""
        return NAME + self._own.public_key().public_bytes_raw() + secrets.token_bytes(KEY_BYTES)

    def holds(self, greeting: bytes, claim: Claim) -> bool:
        """Whether the claim answers this greeting with the secret of its key."""
        try:
            shared = self._own.exchange(X25519PublicKey.from_public_bytes(claim.key))
        except ValueError:  # a key of low order, which has no owner
            return False
        return hmac.compare_digest(_proof(shared, greeting, claim), claim.proof)


def _proof(shared: bytes, greeting: bytes, claim: Claim) -> bytes:
    nonce, relay = greeting[-KEY_BYTES:], greeting[len(NAME) : -KEY_BYTES]
    key = HKDF(SHA256(), KEY_BYTES, salt=nonce, info=_INFO + relay + claim.key).derive(shared)
    return hmac.digest(key, greeting + claim.purpose + claim.key + claim.other, sha256)
