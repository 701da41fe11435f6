"""Requests to running peers, and folders in which none runs."""

import asyncio
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import ConfigurationError, DpeerError
from dpeer.federation.control_client import NoAnswer, NotRunning, ask, held, look
from dpeer.peer.control import SOCKET, ControlSocket


def folder_of(run: Path, rank: int, **summary: Any) -> Path:
    folder = run / f"rank-{rank}"
    folder.mkdir(parents=True)
    if summary:
        (folder / "summary.json").write_text(json.dumps(summary))
    return folder


async def test_a_look_asks_each_rank(tmp_path: Path) -> None:
    folder_of(tmp_path, 1, status="done")
    async with ControlSocket(folder_of(tmp_path, 3), {"status": dict}, print):
        found = await asyncio.to_thread(look, [tmp_path])
        plain = await asyncio.to_thread(look, [tmp_path / "rank-3"])
    assert [one.name for one in found] == ["rank-1", "rank-3"]
    assert found[1].answer == plain[0].answer == {"ask": "status"}


def refuse(request: Any) -> Any:
    raise ConfigurationError("round 3 is over")


@pytest.mark.parametrize("name", ["run", "long" * 40])
async def test_a_peer_is_asked_by_its_folder_and_by_that_of_its_run(tmp_path: Path, name: str) -> None:
    folder = folder_of(tmp_path / name, 3)
    async with ControlSocket(folder, {"echo": dict, "refuse": refuse}, print):
        for named in (folder, tmp_path / name):
            assert await asyncio.to_thread(ask, named, {"ask": "echo", "x": 1}) == {"ask": "echo", "x": 1}
        with pytest.raises(ConfigurationError) as raised:
            await asyncio.to_thread(ask, folder, {"ask": "refuse"})
    assert str(raised.value) == f"the peer in {str(folder)!r} refuses: round 3 is over"


def test_a_peer_that_holds_its_folder_and_has_no_socket_starts_or_ends(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "run", 0)
    words = "starts, or ends, or has no control socket (its log.jsonl says which)"
    with held(folder):
        with pytest.raises(NotRunning) as raised:
            ask(tmp_path / "run", {"ask": "drain"})
        assert str(raised.value) == f"the peer in {str(folder)!r} {words}: try again"
        assert [one.state for one in look([folder])] == [words]
    assert [one.state for one in look([folder])] == ["does not run"]


async def test_a_look_shows_a_peer_that_hangs_beside_those_that_answer(tmp_path: Path) -> None:
    hanging, ended = folder_of(tmp_path / "run", 0), folder_of(tmp_path / "run", 1, status="done")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(hanging / SOCKET))
        silent.listen()
        async with ControlSocket(folder_of(tmp_path / "other", 2), {"status": dict}, print):
            found = await asyncio.to_thread(look, [tmp_path / "run", tmp_path / "other"], 2.0)
    assert [one.folder.name for one in found] == ["rank-0", ended.name, "rank-2"]
    assert [one.answer for one in found] == [None, None, {"ask": "status"}]
    assert found[0].state == "runs, and does not answer within 2 s"


@pytest.mark.parametrize(
    ("does", "error", "words"),
    [
        ("was killed", NotRunning, "no peer runs in {}"),
        ("ends", NotRunning, "no peer runs in {} any more: it ended before it answered"),
        ("hangs", NoAnswer, "the peer in {} has not answered within 0.2 s: see whether its process is stopped, or its "
         "host overloaded"),
    ],
)  # fmt: skip
def test_a_peer_that_does_not_answer(tmp_path: Path, does: str, error: type[DpeerError], words: str) -> None:
    folder = folder_of(tmp_path / "run", 0)
    with socket.socket(socket.AF_UNIX) as there, ThreadPoolExecutor() as pool:
        there.bind(str(folder / SOCKET))

        def hear_and_end() -> None:
            connection, _ = there.accept()
            with connection:
                connection.recv(100)

        if does != "was killed":
            there.listen()
        if does == "ends":
            pool.submit(hear_and_end)
        with pytest.raises(error) as raised:
            ask(folder, {"ask": "status"}, timeout=0.2 if does == "hangs" else 5.0)
    assert str(raised.value) == words.format(repr(str(folder)))
    assert type(raised.value) is not NoAnswer or raised.value.exit_code == 1
