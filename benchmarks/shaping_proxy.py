"""Emulated lines by TCP proxies on loopback, opened on demand for each pair of hosts and port.

A host's connections share its uplink and its downlink, whichever hosts they go to. Each has a window of 4 MiB, what
Linux lets a sender have under way. Shares are even, nothing is lost, and no connection has to find its rate first: on
real lines a round's last bytes come later.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

from emulated_lines import LOCAL, Loopback, Shape, beside
from link_emulator import Line, Pipe, Way

WINDOW = 2**22


@dataclass(frozen=True)
class ProxiedLines(Loopback):
    """The lines as a process sees them: all are on this host, and only where it dials makes the difference.

    Attributes:
        port: Where the proxies' process is asked for one.
    """

    port: int

    def reach(self, dialler: int, listener: int, port: int) -> tuple[str, int]:
        """A proxy before that port."""
        with socket.create_connection((LOCAL, self.port)) as asked, asked.makefile("rw") as lines:
            lines.write(json.dumps([dialler, listener, port]) + "\n")
            lines.flush()
            return LOCAL, int(lines.readline())


@contextmanager
def proxied(shapes: Sequence[Shape]) -> Iterator[ProxiedLines]:
    """Lines of these shapes."""
    with beside(_serve, shapes) as port:
        yield ProxiedLines(port)


def _serve(shapes: Sequence[Shape], port: Connection) -> None:
    asyncio.run(_proxies(shapes, port))


async def _proxies(shapes: Sequence[Shape], port: Connection) -> None:
    up, down = ([Pipe(shape.bytes_per_second) for shape in shapes] for _ in range(2))
    lines: dict[tuple[int, int, int], Line] = {}

    def way(sender: int, receiver: int) -> Way:
        delay = (shapes[sender].round_trip + shapes[receiver].round_trip) / 4  # each host's line has half of each way
        return Way(delay, up[sender], down[receiver], WINDOW)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dialler, listener, target = json.loads(await reader.readline())
        if (dialler, listener, target) not in lines:
            line = lines[dialler, listener, target] = Line(
                target, ways=(way(dialler, listener), way(listener, dialler))
            )
            await line.listen()
        writer.write(f"{lines[dialler, listener, target].port}\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, LOCAL, 0)
    port.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()
