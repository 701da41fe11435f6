"""Lines between real peers that a test cuts, mends and opens: the emulator of benchmarks/, on a thread of its own."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from line_emulator import Line


class LineTo:
    """A line to a listener on this host.

    Attributes:
        address: Where it is dialled.
    """

    def __init__(self, line: Line) -> None:
        self.address = f"tcp://127.0.0.1:{line.port}"
        self._line, self._loop = line, asyncio.get_running_loop()

    @property
    def dialled(self) -> int:
        """The connections that have come."""
        return self._line.dialled

    @property
    def ended(self) -> int:
        """The connections that have reached the listener and ended."""
        return self._line.ended

    def cut(self) -> None:
        """Nothing passes from now on; what comes waits."""
        self._loop.call_soon_threadsafe(self._line.cut)

    def mend(self) -> None:
        """What waits passes."""
        self._loop.call_soon_threadsafe(self._line.mend)


@contextmanager
def lines_to(ports: Sequence[int], *, cut: bool = False) -> Iterator[list[LineTo]]:
    """A line to the listener at each port; whether they begin cut."""
    found: list[LineTo] = []
    begun, end = threading.Event(), asyncio.Event()

    async def serve() -> None:
        lines = [Line(port) for port in ports]
        for line in lines:
            await line.listen()
            if cut:
                line.cut()
            found.append(LineTo(line))
        begun.set()
        await end.wait()
        for line in lines:
            await line.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    begun.wait()
    try:
        yield found
    finally:
        found[0]._loop.call_soon_threadsafe(end.set)
        thread.join()
