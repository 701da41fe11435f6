"""Traffic shaper: a TCP proxy in user space with a delay and a rate.

    python shaper.py --listen 127.0.0.1:7790 --to 10.77.0.1:7790 [--delay 0.02] [--rate 20e6]

Where the kernel has no netem. All connections share the line's rate, each way. What does not fit on the line is not
read, so a sender waits as on a real one. SIGSTOP cuts the line: nothing passes until SIGCONT, as with a pulled cable.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections import deque
from typing import Any

PIECE = 2**14
"""Bytes that are read at once."""

BUFFER = 2**18
"""Bytes that wait in front of the line, as in a router's queue."""


class Way:
    """One direction of the line.

    Args:
        delay: Seconds that each byte is under way.
        rate: Bits a second.
    """

    def __init__(self, delay: float, rate: float) -> None:
        self._delay, self._rate = delay, rate
        self._free = 0.0

    async def enter(self, nbytes: int) -> float:
        """Wait for the line; returns when these bytes come out at its other end."""
        loop = asyncio.get_running_loop()
        start = max(loop.time(), self._free)
        self._free = start + 8 * nbytes / self._rate
        if (early := start - loop.time() - 8 * BUFFER / self._rate) > 0:
            await asyncio.sleep(early)
        return self._free + self._delay


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
    """Copy one direction of a connection, until its end."""
    loop, coming, more = asyncio.get_running_loop(), deque[tuple[float, bytes]](), asyncio.Event()

    async def deliver() -> None:
        while True:
            while not coming:
                more.clear()
                await more.wait()
            due, data = coming.popleft()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not data:
                return
            writer.write(data)
            await writer.drain()

    delivering = asyncio.create_task(deliver())
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(PIECE):
            coming.append((await way.enter(len(data)), data))
            more.set()
            if delivering.done():
                break
    coming.append((await way.enter(0), b""))
    more.set()
    with contextlib.suppress(ConnectionError):
        await delivering
    writer.close()


async def open_line(listen: tuple[str, int], to: tuple[str, int], delay: float, rate: float) -> asyncio.Server:
    """A line that takes connections at one place and passes them on to the other."""
    there, back = Way(delay, rate), Way(delay, rate)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*to, limit=PIECE)
        except OSError:
            writer.close()
            return
        await asyncio.gather(carry(reader, far_writer, there), carry(far_reader, writer, back))

    return await asyncio.start_server(accept, *listen, limit=PIECE)


async def _serve(*line: Any) -> None:
    async with await open_line(*line) as server:
        await server.serve_forever()


def place(text: str) -> tuple[str, int]:
    """HOST:PORT."""
    host, _, port = text.rpartition(":")
    return host, int(port)


def main() -> None:
    """Run the line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--listen", type=place, required=True, metavar="HOST:PORT")
    parser.add_argument("--to", type=place, required=True, metavar="HOST:PORT")
    parser.add_argument("--delay", type=float, default=0.02, help="seconds each way")
    parser.add_argument("--rate", type=float, default=20e6, help="bits a second each way")
    arguments = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(arguments.listen, arguments.to, arguments.delay, arguments.rate))


if __name__ == "__main__":
    main()
