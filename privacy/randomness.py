"""Private randomness, the only source of secret bits in privacy/ and training/, and Poisson sampling from it.

A `Keystream` is AES-256 in counter mode under a key of 32 bytes from the operating system. One is made for each
release, used once and forgotten, so nothing that a neighbor sees of one release tells anything about the noise of
another, and nothing in a checkpoint or a seed can bring it back. A statistical generator (SFC64, PCG, Philox, Mersenne
Twister) must not take its place: from what it drew, its state can be computed, and with it all that it drew besides.
"""

from __future__ import annotations

import os
from fractions import Fraction

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

KEY_BYTES = 32
_BLOCK_BYTES = 16
_BLOCKS = 1 << 128
"""A counter has 128 bits."""


class Keystream:
    """Random bits for one release; places in it are addressed, so that several threads can read different ones."""

    def __init__(self) -> None:
        self._key = bytearray(os.urandom(KEY_BYTES))

    def words(self, block: int, count: int) -> NDArray[np.uint64]:
        """Words of 64 random bits, shape (count,), in new memory.

        The same place gives the same words. No place may be used for two purposes: the reader lays out the blocks. The
        first block, of 16 bytes, is from 0 below 2^128.

        Raises:
            ValueError: The keystream has been forgotten.
        """
        if not self._key:
            raise ValueError("a keystream is used for one release only")
        counter = modes.CTR((block % _BLOCKS).to_bytes(_BLOCK_BYTES, "big"))
        encryptor = Cipher(algorithms.AES(self._key), counter).encryptor()
        # Up to a block more than is needed: older releases of `cryptography` ask for that much room.
        memory = np.empty(count + _BLOCK_BYTES // 8, dtype=np.uint64)
        encryptor.update_into(bytes(8 * count), memory.view(np.uint8).data)
        return memory[:count]

    def forget(self) -> None:
        """Overwrite the key; nothing can be read any more."""
        self._key[:] = bytes(len(self._key))
        self._key = bytearray()


Indices = NDArray[np.int64]

_AT_ONCE = 1 << 16
"""Units that are drawn together: their bits stay in the processor's cache."""


class Poisson:
    """Draws each of so many units with the same probability, independently, with fresh private bits for each draw.

    Accounting of the Poisson-subsampled Gaussian rests on both. Batches of a fixed size, shuffled epochs, or draws that
    follow from a public seed get no amplification from it.

    A unit is drawn where 64 bits, read as a fraction, are below the rate. So the rate is exact, but for what it has
    beyond 64 binary digits; that is cut off, which protects more.
    """

    def __init__(self, units: int, rate: float) -> None:
        self.units, self.rate = units, rate
        self._below = int(Fraction(rate) * 2**64)

    def draw(self) -> Indices:
        """The units of the next step, ascending; often other numbers of them, and sometimes none."""
        if self.rate == 1.0:
            return np.arange(self.units, dtype=np.int64)
        stream, below = Keystream(), np.uint64(self._below)
        try:
            # 16 bytes, a block of the keystream, are two words.
            drawn = [
                start + np.flatnonzero(stream.words(start // 2, min(_AT_ONCE, self.units - start)) < below)
                for start in range(0, self.units, _AT_ONCE)
            ]
        finally:
            stream.forget()
        return np.concatenate(drawn).astype(np.int64, copy=False)
