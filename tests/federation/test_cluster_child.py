"""A child of `dpeer cluster` and its launcher: lines that wait for nobody, the line to begin, and the end as a stop."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.federation import cluster_child, serving
from dpeer.federation.settings import Settings

Begin = Callable[[Callable[..., Awaitable[Any]]], asyncio.Task[int]]
PLACES = {0: "ipc:///run/0", 1: "ipc:///run/1"}


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The launcher's end and the child's."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    yield ours, theirs
    ours.close()


@pytest.fixture
def launcher(pair: tuple[socket.socket, socket.socket]) -> socket.socket:
    return pair[0]


@pytest.fixture
def begin(pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Begin:
    """Begin rank 1 with this in place of `serve`; as that does, it ends the stopper's limit, or pytest would end."""

    def begin(serve: Callable[..., Awaitable[Any]]) -> asyncio.Task[int]:
        async def limited(*values: Any, stopper: serving.Stopper, **given: Any) -> Any:
            try:
                return await serve(*values, stopper=stopper, **given)
            finally:
                stopper.ended()

        monkeypatch.setattr(serving, "serve", limited)
        return asyncio.create_task(cluster_child._run(Settings(size=2, out=tmp_path), 1, False, pair[1], None, PLACES))

    return begin


async def lines(launcher: socket.socket) -> list[dict[str, Any]]:
    """All that the child writes until it ends."""
    loop, read = asyncio.get_running_loop(), b""
    while came := await loop.sock_recv(launcher, 2**20):
        read += came
    return [json.loads(line) for line in read.splitlines()]


async def test_it_begins_when_it_may_and_waits_for_a_launcher_that_does_not_read(
    launcher: socket.socket, begin: Begin
) -> None:
    written = asyncio.Event()

    async def serve(settings: Settings, rank: int, *, listen: str, meet: Any, report: Any, **given: Any) -> Any:
        met = await meet(listen)
        for number in range(200):
            report({"kind": "record", "number": number, "text": "é" * 10_000})
        written.set()
        return SimpleNamespace(status=f"{listen} {len(met)}")

    running = begin(serve)
    assert json.loads(await asyncio.get_running_loop().sock_recv(launcher, 1000)) == {"kind": "listening"}
    assert not written.is_set()
    launcher.send(b"\n")
    await written.wait()
    await asyncio.sleep(0)
    assert not running.done(), "its last words are not taken yet"
    told = await lines(launcher)
    assert [one["number"] for one in told[:-1]] == [*range(200)]
    assert told[-1] == {"kind": "end", "status": "ipc:///run/1 2"}
    assert await running == 0


@pytest.mark.parametrize("begun", [True, False])
async def test_the_end_of_the_file_stops_it_before_and_after_it_begins(
    begun: bool, launcher: socket.socket, begin: Begin
) -> None:
    meets, in_round = asyncio.Event(), asyncio.Event()

    async def serve(settings: Settings, rank: int, *, listen: str, meet: Any, stopper: Any, **given: Any) -> Any:
        meets.set()
        if await meet(listen) is None:
            return None
        in_round.set()
        await stopper.requested.wait()
        return SimpleNamespace(status="stopped in a round")

    running = begin(serve)
    await meets.wait()
    if begun:
        launcher.send(b"\n")
        await in_round.wait()
    launcher.shutdown(socket.SHUT_WR)
    assert (await lines(launcher))[-1]["status"] == ("stopped in a round" if begun else "stopped")
    assert await running == 0


async def test_a_killed_launcher_stops_it(launcher: socket.socket, begin: Begin) -> None:
    met = asyncio.get_running_loop().create_future()

    async def serve(settings: Settings, rank: int, *, listen: str, meet: Any, report: Any, **given: Any) -> None:
        report({"kind": "record"})
        met.set_result(await meet(listen))
        report({"kind": "record"})

    running = begin(serve)
    await asyncio.get_running_loop().sock_recv(launcher, 1)
    launcher.close()  # with bytes that it has not read
    assert await running == 0
    assert met.result() is None


async def test_an_error_comes_with_its_traceback_and_its_code(launcher: socket.socket, begin: Begin) -> None:
    async def serve(settings: Settings, rank: int, **given: Any) -> Any:
        raise ConfigurationError("--task: no such")

    running = begin(serve)
    (told,) = await lines(launcher)
    assert (told["kind"], told["message"], "Traceback" in told["traceback"]) == ("error", "--task: no such", True)
    assert await running == 2
