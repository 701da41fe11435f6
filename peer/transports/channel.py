"""One TCP connection on which the buffers of one link's long messages travel as encrypted records."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from dpeer.exceptions import ProtocolError
from dpeer.peer.transports.aead_records import RECORD, SEAL, Opening, Sealing

_AT_ONCE = 8
"""Records that are read or written before others of the event loop have their turn."""


class Incoming:
    """Buffers that are on their way.

    Args:
        lengths: Bytes of each.

    Attributes:
        buffers: Those that have begun to come; memory is taken no earlier.
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        self.buffers: list[memoryview] = []
        self._lengths = deque(lengths)
        self._rest = memoryview(b"")  # of the last buffer

    @property
    def complete(self) -> bool:
        """Whether all buffers are here."""
        return not (self._rest or any(self._lengths))

    def next(self) -> memoryview:
        """Where what the next record holds belongs; not if all is complete."""
        while not self._rest:
            self._rest = np.empty(self._lengths.popleft(), np.uint8).data
            self.buffers.append(self._rest)
        return self._rest[:RECORD]

    def took(self, nbytes: int) -> None:
        """Note that these bytes are there."""
        self._rest = self._rest[nbytes:]
        if self.complete:
            self.buffers += [memoryview(b"") for _ in self._lengths]  # nothing is sent of these
            self._lengths.clear()


class Channel:
    """Sends and receives records on a connected, non-blocking socket.

    What comes on it is announced on the link that it belongs to (`expect`); nothing else is read.

    Args:
        connection: The socket; closed with the channel.
        sealing: For what is sent.
        opening: For what comes.
        arrived: Called when what was expected first has come.
        drained: Called when another message can be sent.
        ended: Called once when the connection has ended: with the reason if something that was sent or expected is
            lost by that, else with None.
    """

    def __init__(
        self,
        connection: socket.socket,
        sealing: Sealing,
        opening: Opening,
        arrived: Callable[[], None],
        drained: Callable[[], None],
        ended: Callable[[str | None], None],
    ) -> None:
        self._connection, self._sealing, self._opening = connection, sealing, opening
        self._arrived, self._drained, self._ended = arrived, drained, ended
        self._loop = asyncio.get_running_loop()
        self._sending: deque[memoryview] = deque()
        self._sealed = memoryview(bytearray(RECORD + SEAL))
        self._unsent = self._sealed[:0]
        self._writing = False
        self._expected: deque[Incoming] = deque()
        self._record = memoryview(bytearray(RECORD + SEAL))
        self._read = 0
        self._reading = False
        self._paused = self._leaving = self._last = False
        self.closed = False
        self._set_reading(on=True)

    # -- sending -----------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether something is still to be written."""
        return bool(self._sending or self._unsent)

    def send(self, buffers: Sequence[memoryview]) -> None:
        """Send buffers that the other side has been told to expect, without waiting. They must not change."""
        self._sending.extend(buffer for buffer in buffers if buffer.nbytes)
        self._write()

    def _write(self) -> None:
        try:
            for _ in range(_AT_ONCE):
                if not self._unsent:
                    if not self._sending:
                        break
                    self._seal()
                self._unsent = self._unsent[self._connection.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError as error:
            self._end(f"its connection for bodies is broken: {error.strerror}")
            return
        if self.busy and not self._writing:
            self._writing = True
            self._loop.add_writer(self._connection, self._write)
        elif not self.busy and self._writing:
            self._writing = False
            self._loop.remove_writer(self._connection)
            self._drained()
            if self._last:
                self._end(None)

    def _seal(self) -> None:
        buffer = self._sending.popleft()
        if buffer.nbytes > RECORD:
            self._sending.appendleft(buffer[RECORD:])
        self._unsent = self._sealed[: min(buffer.nbytes, RECORD) + SEAL]
        self._sealing.seal(buffer[:RECORD], self._unsent)

    # -- receiving ---------------------------------------------------------------------------------------------

    def expect(self, incoming: Incoming) -> None:
        """Read this after what is expected already."""
        self._expected.append(incoming)
        self._set_reading(on=not self._paused)

    def set_paused(self, paused: bool) -> None:
        """Read nothing for now, or read again."""
        if paused != self._paused and not self.closed:
            self._paused = paused
            self._set_reading(on=not paused)

    def _set_reading(self, *, on: bool) -> None:
        if on != self._reading and not self._leaving:
            self._reading = on
            if on:
                self._loop.add_reader(self._connection, self._readable)
            else:
                self._loop.remove_reader(self._connection)

    def _readable(self) -> None:
        try:
            for _ in range(_AT_ONCE):
                if self._leaving:
                    self._discard()
                elif not self._expected:
                    self._look_for_the_end()
                    return
                elif not self._read_on():
                    return
                if self._paused or self.closed:
                    return
        except BlockingIOError:
            pass
        except OSError as error:
            self._end(f"its connection for bodies is broken: {error.strerror}")
        except ProtocolError as error:
            self._end(str(error))

    def _read_on(self) -> bool:
        """Read some of the next record; returns whether there may be more."""
        incoming = self._expected[0]
        room = incoming.next()
        length = room.nbytes + SEAL
        read = self._connection.recv_into(self._record[self._read : length])
        if not read:
            self._end("its connection for bodies has ended before a body")
            return False
        self._read += read
        if self._read == length:
            self._read = 0
            self._opening.open(self._record[:length], room)
            incoming.took(room.nbytes)
            if incoming.complete:
                self._expected.popleft()
                self._arrived()
        return True

    def _look_for_the_end(self) -> None:
        """Nothing is expected: see whether the other side has closed the connection, and leave what it has sent."""
        if self._connection.recv(1, socket.MSG_PEEK):
            self._set_reading(on=False)  # it is announced in a moment
        elif self.busy:
            self._set_reading(on=False)
            self._last = True  # the other side is leaving, and reads on for a while
        else:
            self._end(None)

    # -- the end -----------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Say that nothing more is sent, and drop whatever comes until the other side has closed the connection."""
        self._set_reading(on=True)
        self._leaving = True
        with contextlib.suppress(OSError):  # it is broken, which reading says, too
            self._connection.shutdown(socket.SHUT_WR)

    def _discard(self) -> None:
        if not self._connection.recv_into(self._record):
            self._end(None)

    def close(self) -> None:
        """Close the connection; what is unsent or has not come is lost."""
        if not self.closed:
            self.closed = True
            if self._reading:
                self._loop.remove_reader(self._connection)
            if self._writing:
                self._loop.remove_writer(self._connection)
            self._connection.close()
            self._sending.clear()
            self._expected.clear()

    def _end(self, lost: str | None) -> None:
        if not self.closed:
            self.close()
            self._ended(lost)
