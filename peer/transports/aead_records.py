"""AES-256-GCM records: how payloads travel where libzmq's own encryption would take most of a round; no I/O.

A record holds at most `RECORD` bytes, and is `TAG` bytes longer than these. Each direction of a connection has a key of
its own: 32 random bytes, which the sender passes over CURVE and uses for nothing else. The nonce of a record is its
number, from zero on, as 12 bytes, the highest first. No nonce is used twice, and a record that is changed, missing,
doubled or in another's place cannot be opened. tests/peer/transports/test_aead_records.py has vectors.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dpeer.exceptions import ProtocolError

KEY_BYTES = 32
RECORD = 2**19
"""Bytes of the longest record before it is encrypted: it stays in the processor's cache on its way to the socket."""

TAG = 16
"""Bytes by which a record is longer than its content."""


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


class Encryptor(_Numbered):
    """Makes records, one after the other.

    Args:
        key: From `new_key`, and used by no other instance.
    """

    def encrypt(self, data: memoryview, record: memoryview) -> None:
        """Write the next record, of these bytes, into exactly `TAG` bytes more."""
        self._cipher.encrypt_into(self._nonce(), data, None, record)


class Decryptor(_Numbered):
    """Opens the records that an `Encryptor` with the same key has made, in their order."""

    def decrypt(self, record: memoryview, data: memoryview) -> None:
        """Write the content of the next record into exactly `TAG` bytes fewer.

        Raises:
            ProtocolError: reason "damaged": this is not that record, and nothing after it can be opened.
        """
        try:
            self._cipher.decrypt_into(self._nonce(), record, None, data)
        except InvalidTag as error:
            raise ProtocolError("damaged", "an encrypted record is not what was sent") from error
