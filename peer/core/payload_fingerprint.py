"""Payload fingerprint: a hash that tells two different bodies of the same round apart. No I/O."""

from __future__ import annotations

import hashlib

from dpeer.peer.learner import Buffer, Payload

WINDOWS = 64
WIDTH = 128
WHOLE = WINDOWS * WIDTH
"""A payload of at most so many bytes is looked at whole."""


class PayloadFingerprint:
    """A hash of a payload's size and of some of its bytes, made while they come.

    A large payload is looked at through 64 evenly spread windows of 128 bytes, so that a body of a hundred megabytes
    costs the event loop no more than a small one. It does not matter how the bytes are cut into buffers.

    This finds accidents: a body that was trained or noised anew differs practically everywhere. It is no defence
    against somebody who alters a few bytes where no window is.

    Args:
        nbytes: How many bytes the payload has.
    """

    def __init__(self, nbytes: int) -> None:
        self._hash = hashlib.blake2b(nbytes.to_bytes(8, "little"), digest_size=16)
        self._step = None if nbytes <= WHOLE else (nbytes - WIDTH) // (WINDOWS - 1)
        self._at = 0

    def add(self, data: Buffer) -> None:
        """Take in the bytes that come next."""
        view = memoryview(data)
        if not view.nbytes:
            return
        view = view.cast("B")
        begin, self._at = self._at, self._at + view.nbytes
        if self._step is None:
            self._hash.update(view)
            return
        first = (begin - WIDTH) // self._step + 1  # the first window that is not over yet
        starts = range(first * self._step - begin, min(view.nbytes, WINDOWS * self._step - begin), self._step)
        self._hash.update(b"".join([view[max(start, 0) : start + WIDTH] for start in starts]))

    def digest(self) -> bytes:
        """The fingerprint of what has come so far."""
        return self._hash.digest()


def fingerprint_of(payload: Payload) -> bytes:
    """The fingerprint of a whole payload."""
    found = PayloadFingerprint(sum(memoryview(buffer).nbytes for buffer in payload))
    for buffer in payload:
        found.add(buffer)
    return found.digest()
