"""Loss of a federation while one of its sites is cut off: real processes, and a proxy that holds all messages up.

    python benchmarks/cuts.py [--cuts 40 120 20,20,20] [--peers 4] [--rounds 120] [--round-seconds 0.5]
                              [--site-seconds 0.5] [--dead-after 15] [--wait 300] [--quorum majority] [--json]

The peers are `dpeer start`s on this host, on a ring. The last one is dialled by both of its neighbors through the
proxy. Ten seconds after the first round nothing passes for so many seconds; several numbers are cuts that follow each
other, with ten seconds between two of them. Then everything passes that has not been given up. A cut of 0 is the run
without one. By run and peer:

    completed   rounds
    mixed       of these, those in which a neighbor's body was mixed
    nothing     those in which the peer trained and mixed nothing
    sat out     those that it let go by, to catch up
    paused      seconds for which it began no round
    exit        the process's code
    nowhere     of the whole run: rounds in which no peer mixed anything
    seconds     of the whole run
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from link_emulator import free_ports

TASK = Path(__file__).parent / "examples" / "paced.py"
BEFORE = BETWEEN = 10.0
"""Seconds from the first round to the first cut, and from one cut to the next."""


class Line:
    """What passes on to a listener, unless it is cut.

    Args:
        port: The listener's.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self) -> int:
        """Accept connections; returns the port."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(server.sockets[0].getsockname()[1])

    async def cut(self, seconds: float) -> None:
        """Let nothing pass for so long; what comes meanwhile passes afterwards, as TCP sends it again."""
        self._open.clear()
        await asyncio.sleep(seconds)
        self._open.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:  # the listener has ended
            writer.close()
            return
        for source, target in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._pass(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(2**16):
                await self._open.wait()
                target.write(data)
                await target.drain()
        await self._open.wait()
        target.close()


async def run(cuts: Sequence[float], options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run the federation behind these cuts; returns what it has come to."""
    size = options.peers
    ports = free_ports(size)
    line = Line(ports[-1])
    away = size - 1
    # The last peer listens at its port; its neighbors know the proxy's.
    seen = [*ports[:-1], await line.listen()]
    for name, known in (("near", seen), ("far", ports)):
        text = "".join(f'[rank.{rank}]\naddress = "tcp://127.0.0.1:{port}"\n\n' for rank, port in enumerate(known))
        (folder / f"{name}.toml").write_text(text)
    peers = []
    for rank in range(size):
        file = folder / ("far.toml" if rank == away else "near.toml")
        seconds = options.round_seconds if rank != away or options.site_seconds is None else options.site_seconds
        peers.append(await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dpeer", "start", "--federation", str(file), "--rank", str(rank),
            "--size", str(size), "--topology", "ring", "--rounds", str(options.rounds), "--task", f"{TASK}:task",
            "--task-option", f"seconds={seconds}", "--body-epochs", "1", "--head-epochs", "1",
            "--alone", "never", "--threads", "1", "--out", str(folder / "run"), "--wait", str(options.wait),
            "--dead-after", str(options.dead_after), *options.more,
            stdout=asyncio.subprocess.DEVNULL, stderr=(folder / f"stderr-{rank}").open("w"),
        ))  # fmt: skip
    try:
        await _first_round(folder / "run" / "rank-0" / "metrics.jsonl", peers)
        began = time.monotonic()
        cutting = asyncio.create_task(_cut(line, cuts))
        codes = await asyncio.gather(*(peer.wait() for peer in peers))
        seconds = time.monotonic() - began
        cutting.cancel()
    finally:
        for peer in peers:
            if peer.returncode is None:
                peer.kill()
                await peer.wait()
    return {"cuts": list(cuts), "seconds": round(seconds, 1), **_figures(folder / "run", codes)}


async def _first_round(metrics: Path, peers: Sequence[asyncio.subprocess.Process]) -> None:
    while not _has_lines(metrics):
        if any(peer.returncode is not None for peer in peers):
            errors = [path.read_text().strip() for path in sorted(metrics.parents[2].glob("stderr-*"))]
            raise SystemExit("\n".join(["a peer has ended before its first round:", *errors]))
        await asyncio.sleep(0.05)


def _has_lines(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


async def _cut(line: Line, cuts: Sequence[float]) -> None:
    pause = BEFORE
    for seconds in cuts:
        await asyncio.sleep(pause)
        await line.cut(seconds)
        pause = BETWEEN


def _figures(out: Path, codes: Sequence[int]) -> dict[str, Any]:
    peers, heard = [], set()
    for rank, code in enumerate(codes):
        folder = out / f"rank-{rank}"
        lines = [json.loads(one) for one in (folder / "metrics.jsonl").read_text().splitlines()]
        summary = json.loads((folder / "summary.json").read_text()) if (folder / "summary.json").exists() else {}
        heard |= {one["round"] for one in lines if one["heard"]}
        peers.append({
            "rank": rank,
            "completed": len(lines),
            "mixed": sum(bool(one["heard"]) for one in lines),
            "nothing": sum(one["active"] and not one["heard"] for one in lines),
            "sat out": sum(not one["active"] for one in lines),
            "paused": summary.get("paused_seconds"),
            "status": summary.get("status"),
            "exit": code,
        })  # fmt: skip
    completed = max(one["completed"] for one in peers)
    return {"nowhere": completed - len(heard), "peers": peers}


def _show(found: dict[str, Any]) -> None:
    cuts = ", ".join(f"{seconds:g} s" for seconds in found["cuts"])
    print(f"\ncut for {cuts}: {found['seconds']:g} s, no exchange anywhere in {found['nowhere']} rounds")
    columns = ("rank", "completed", "mixed", "nothing", "sat out", "paused", "status", "exit")
    print("  ".join(f"{name:>9}" for name in columns))
    for peer in found["peers"]:
        print("  ".join(f"{'-' if peer[name] is None else peer[name]:>9}" for name in columns), flush=True)


def main() -> None:
    """Run a federation behind each series of cuts, and print what it has come to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cuts", nargs="+", default=["40", "120", "20,20,20"], metavar="SECONDS[,SECONDS...]")
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=120)
    parser.add_argument("--round-seconds", type=float, default=0.5)
    parser.add_argument("--site-seconds", type=float, help="of the site that is cut off, if it is faster or slower")
    parser.add_argument("--dead-after", type=float, default=15.0)
    parser.add_argument("--wait", type=float, default=300.0)
    parser.add_argument("--quorum", choices=("majority", "any"))
    parser.add_argument("--json", action="store_true", help="print a JSON object a line instead of tables")
    options = parser.parse_args()
    options.more = [] if options.quorum is None else ["--quorum", options.quorum]
    for series in options.cuts:
        with tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(run([float(one) for one in series.split(",")], options, Path(folder)))
        print(json.dumps(found), flush=True) if options.json else _show(found)


if __name__ == "__main__":
    main()
