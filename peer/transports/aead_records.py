"""Encrypted records: how long parts of bodies travel where libzmq's own encryption would take most of a round. No I/O.

Every record is AES-256-GCM of at most `RECORD` bytes, and 16 bytes longer than these. One direction of one connection
has a key of its own, 32 random bytes that the sender has told over CURVE and uses for nothing else. The nonce of a
record is its number, from zero on: none is used twice, and a record that is changed, missing, doubled or in another's
place cannot be opened.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dpeer.exceptions import ProtocolError

KEY_BYTES = 32
RECORD = 2**19
"""Bytes of the longest record before it is encrypted: it stays in the processor's cache on its way to the socket."""

SEAL = 16
"""Bytes by which a record is longer than what it holds."""


def new_key() -> bytes:
    """A key for one direction of one connection."""
    return AESGCM.generate_key(8 * KEY_BYTES)


class _Numbered:
    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self._number = 0

    def _nonce(self) -> bytes:
        self._number += 1
        return (self._number - 1).to_bytes(12, "big")


class Sealing(_Numbered):
    """Makes records, one after the other.

    Args:
        key: From `new_key`, and used by no other instance.
    """

    def seal(self, data: memoryview, room: memoryview) -> None:
        """Write the next record, of these bytes, into room of exactly `SEAL` bytes more."""
        self._cipher.encrypt_into(self._nonce(), data, None, room)


class Opening(_Numbered):
    """Opens the records that a `Sealing` with the same key has made, in their order."""

    def open(self, record: memoryview, room: memoryview) -> None:
        """Write what the next record holds into room of exactly `SEAL` bytes fewer.

        Raises:
            ProtocolError: reason "damaged": this is not that record, and nothing after it can be opened.
        """
        try:
            self._cipher.decrypt_into(self._nonce(), record, None, room)
        except InvalidTag as error:
            raise ProtocolError("damaged", "an encrypted record is not what was sent") from error
