"""Pool of payload buffers, reused because the first touch of fresh memory costs more than copying."""

from __future__ import annotations

import weakref
from collections import deque

import numpy as np
import torch
from numpy.typing import NDArray


class BufferPool:
    """Room for payloads of one size.

    A buffer is free once nothing refers to it: no socket that still sends from it, no neighbor of the same process
    that still reads it, no tensor that looks into it. So nobody ever waits for a buffer, and none is overwritten too
    early: while all are in use, a new one is made. How far neighbors can be apart bounds how many are made.

    Args:
        nbytes: The size of each buffer.
        pinned: Whether they are page-locked, so that a GPU copies from and to them by itself.
    """

    def __init__(self, nbytes: int, *, pinned: bool = False) -> None:
        self.nbytes = nbytes
        self._pinned = pinned
        self._free: deque[NDArray[np.uint8]] = deque()

    def take(self) -> memoryview:
        """A buffer, writable, with whatever was in it before; any thread may call this."""
        try:
            memory = self._free.pop()
        except IndexError:
            memory = torch.empty(self.nbytes, dtype=torch.uint8, device="cpu", pin_memory=self._pinned).numpy()
        # All that is ever made of the memoryview refers to this very array object; with the last of it, it goes.
        lease = memory.view()
        weakref.finalize(lease, self._free.append, memory).atexit = False
        return memoryview(lease.data)
