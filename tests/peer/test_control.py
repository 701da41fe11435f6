"""The control socket of a running peer."""

import asyncio
import json
import multiprocessing
import os
import stat
import sys

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.peer.control import LONGEST, SOCKET, ControlSocket, socket_path
from dpeer.topology import build
from tests.peer.conftest import done


async def later(request):
    await asyncio.sleep(0)
    return {"got": request["value"]}


def refuse(request):
    raise ConfigurationError("value = 3: expected less")


HANDLERS = {"echo": lambda request: dict(request), "later": later, "refuse": refuse, "fail": lambda request: 1 / 0}


@pytest.fixture
def warned():
    return []


@pytest.fixture
async def opened(tmp_path, warned):
    async with ControlSocket(tmp_path, HANDLERS, warned.append) as found:
        yield found
    assert not warned


async def talk(folder, *lines):
    """What comes back for these lines, until the peer closes or all are answered."""
    with socket_path(folder) as path:
        reader, writer = await asyncio.open_unix_connection(path, limit=2 * LONGEST)
    found = []
    try:
        for line in lines:
            writer.write(line)
            found.append(json.loads(await reader.readline()))
    finally:
        writer.close()
    return found


async def test_a_request_is_answered_with_a_line(opened, tmp_path):
    found = await talk(tmp_path, b'{"ask": "echo", "x": [1]}\n', b'{"ask": "later", "value": 2}\n')
    assert found == [{"ask": "echo", "x": [1]}, {"got": 2}]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b'{"ask": "refuse"}\n', "value = 3: expected less"),
        (b'{"ask": "fail"}\n', "ZeroDivisionError: division by zero"),
        (b'{"ask": "drive"}\n', "'drive' is no request; known: echo, fail, later, refuse"),
        (b"[]\n", 'a request is a JSON object in one line, such as {"ask": "status"}'),
        (b"\xff\n", 'a request is a JSON object in one line, such as {"ask": "status"}'),
        (b"[" * 100_000 + b"\n", 'a request is a JSON object in one line, such as {"ask": "status"}'),
        (b'{"ask": 5}\n', 'a request is a JSON object in one line, such as {"ask": "status"}'),
    ],
)
async def test_what_cannot_be_answered_costs_one_error(opened, tmp_path, line, error):
    assert await talk(tmp_path, line, b'{"ask": "echo"}\n') == [{"error": error}, {"ask": "echo"}]


async def test_a_request_without_end_ends_its_connection_alone(opened, tmp_path):
    _, writer = await asyncio.open_unix_connection(str(tmp_path / SOCKET))

    async def write_on():
        for _ in range(4 * LONGEST // 65536):
            writer.write(b"x" * 65536)
            await writer.drain()
            await asyncio.sleep(0)

    with pytest.raises(ConnectionError):
        await write_on()
    writer.close()
    assert await talk(tmp_path, b'{"ask": "echo"}\n') == [{"ask": "echo"}]


async def test_a_program_that_neither_asks_nor_reads_holds_up_no_end(tmp_path, warned):
    async with ControlSocket(tmp_path, HANDLERS, warned.append):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / SOCKET))
        await talk(tmp_path, b'{"ask": "echo"}\n')
    assert await reader.read() == b""
    writer.close()
    assert not (tmp_path / SOCKET).exists()


async def test_only_the_owner_may_connect(opened, tmp_path):
    assert stat.S_IMODE((tmp_path / SOCKET).stat().st_mode) == 0o600


@pytest.mark.skipif(sys.platform != "linux", reason="a longer path works on Linux alone")
async def test_a_folder_with_a_long_path_is_reached(tmp_path, warned):
    folder = tmp_path / ("long" * 30) / "rank-0"
    folder.mkdir(parents=True)
    async with ControlSocket(folder, HANDLERS, warned.append):
        assert await talk(folder, b'{"ask": "echo"}\n') == [{"ask": "echo"}]
        assert stat.S_IMODE((folder / SOCKET).stat().st_mode) == 0o600
    assert not list(folder.iterdir())
    assert not warned


def hold(folder, ready):
    async def answer():
        async with ControlSocket(folder, HANDLERS, print):
            ready.set()
            await asyncio.Event().wait()

    asyncio.run(answer())


@pytest.mark.slow
async def test_the_socket_of_a_killed_process_is_replaced(tmp_path, warned):
    folder = tmp_path
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=hold, args=(folder, ready))
    process.start()
    assert await asyncio.to_thread(ready.wait, 60)
    process.kill()
    await asyncio.to_thread(process.join)
    assert (folder / SOCKET).exists()
    async with ControlSocket(folder, HANDLERS, warned.append):
        assert await talk(folder, b'{"ask": "echo"}\n') == [{"ask": "echo"}]
    assert not (folder / SOCKET).exists()
    assert not warned


async def test_a_folder_that_is_gone_costs_a_warning(tmp_path, warned):
    async with ControlSocket(tmp_path / "gone", HANDLERS, warned.append):
        pass
    (line,) = warned
    assert line.startswith(f"no control socket in '{tmp_path}/gone': No such file or directory; the run goes on, ")


async def test_a_snapshot_holds_whom_a_peer_waits_for_and_how_its_neighbors_are(federation, until, tmp_path):
    ours = federation("inprocess", build("ring", 3), rounds=2, out=tmp_path)
    slow = ours.learners[2]
    slow.hold = 1
    running = asyncio.create_task(ours.run())
    peer = ours.peers[0]
    await until(lambda: slow.held.is_set() and [one.completed for one in peer.snapshot().neighbors] == [1, 1])
    await until(lambda: peer.snapshot().phase == "collect" and peer.snapshot().completed == 1)
    async with ControlSocket(tmp_path / "rank-0", peer.requests, print):
        (found,) = await talk(tmp_path / "rank-0", b'{"ask": "status"}\n')
    assert {key: found[key] for key in ("rank", "pid", "phase", "rounds", "completed", "mixed", "missed")} == {
        "rank": 0, "pid": os.getpid(), "phase": "collect", "rounds": 2, "completed": 1, "mixed": [1, 2], "missed": []
    }  # fmt: skip
    assert found["waits_for"] == [{"rank": 2, "why": "in round 2"}]
    assert [(one["rank"], one["liveness"], one["completed"], one["why"]) for one in found["neighbors"]] == [
        (1, "alive", 1, ""), (2, "alive", 1, "")
    ]  # fmt: skip
    assert 0 <= found["checkpoint_seconds"] < 100
    slow.go.set()
    done(await running)
    assert (peer.snapshot().phase, peer.snapshot().completed) == ("ended", 2)
