"""`dpeer status` and `dpeer drain`, as they are typed; how peers drain is tested in tests/peer/test_draining.py."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from dpeer.federation.snapshot_words import state
from dpeer.peer.control import ControlSocket, Handler
from dpeer.peer.snapshot import Awaited, NeighborSnapshot, Snapshot

WAITING = Snapshot(
    2, 4711, "collect", 20, 7, 6, (Awaited(0, "in round 7"),), 12.0, mixed=(0, 3), missed=(1,), checkpoint_seconds=3.0,
    neighbors=(NeighborSnapshot(0, "alive", 6, 0.4), NeighborSnapshot(1, "dead", 4, 30.0, "silent for 15 s")),
)  # fmt: skip


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@contextmanager
def running(folder: Path, handlers: dict[str, Handler], ends: threading.Event | None = None) -> Iterator[None]:
    """A peer's control socket, on a thread of its own, until the block or the event ends."""
    folder.mkdir(parents=True, exist_ok=True)
    ready, over = threading.Event(), ends or threading.Event()

    async def answer() -> None:
        async with ControlSocket(folder, handlers, print):
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(answer()))
    thread.start()
    ready.wait()
    try:
        yield
    finally:
        over.set()
        thread.join()


def ended(folder: Path, **summary: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "summary.json").write_text(json.dumps(summary))


def test_a_table_has_running_peers_and_those_that_have_ended(dpeer: Callable[..., Any], tmp_path: Path) -> None:
    ended(tmp_path / "rank-0", status="done", completed_rounds=20, rounds=20)
    with running(tmp_path / "rank-2", {"status": lambda request: asdict(WAITING)}):
        found = dpeer("status", tmp_path)
        plain = json.loads(dpeer("status", tmp_path, "--json").out)
    words = " ".join(found.out.split())
    assert "does not run: done" in words
    for part in ("7/20", "waits 12.0 s", "rank 0 (in round 7)", "alive 0", "with 0, 3, without 1", "3.0 s ago"):
        assert part in words
    assert [one["running"] for one in plain] == [False, True]
    assert plain[1]["waits_for"] == [{"rank": 0, "why": "in round 7"}]
    head = dpeer("status", tmp_path).out.splitlines()[0]
    assert head.split() == ["rank", "state"], "a column is left out where no peer has a value"


@pytest.mark.parametrize(
    ("snapshot", "words"),
    [
        (Snapshot(0, 1, "starting"), "starts: reads its data"),
        (Snapshot(0, 1, "work", 3, sits_out=True), "trains; sits out what it missed"),
        (Snapshot(0, 1, "pause", 3, waiting_seconds=5.0, why="cut off"), "waits 5.0 s in a pause (cut off)"),
        (Snapshot(0, 1, "part", 3, waiting_seconds=5.0, drains=True),
         "waits 5.0 s before it leaves; leaves after this round"),
        (Snapshot(0, 1, "ended", 3, drains=True), "has ended its rounds"),
        (Snapshot(0, 1, "meet", waits_for=(Awaited(1, "not heard yet"), Awaited(2, "refused"), Awaited(3, "refused"))),
         "waits 0 ms before the start: rank 1 (not heard yet), rank 2, rank 3 (refused)"),
    ],
)  # fmt: skip
def test_a_state_is_a_sentence(snapshot: Snapshot, words: str) -> None:
    assert state(asdict(snapshot)) == words


def test_a_check_says_of_each_peer_whether_it_takes_part_and_is_the_exit_code(
    dpeer: Callable[..., Any], tmp_path: Path
) -> None:
    well = replace(WAITING, mixed_round=6)
    with running(tmp_path / "rank-2", {"status": lambda request: asdict(well)}):
        assert dpeer("status", tmp_path, "--check").out == "rank-2: takes part\n"
        ended(tmp_path / "rank-1", status="isolated", completed_rounds=3, rounds=20)
        found = dpeer("status", tmp_path, "--check")
    assert found.code == 1
    assert found.out == "rank-1: does not take part: does not run: isolated\nrank-2: takes part\n"


def test_top_has_rates_privacy_loss_drops_and_the_disk(
    dpeer: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    looks: list[int] = []

    def status(request: Any) -> dict[str, Any]:
        looks.append(len(looks))
        neighbors = tuple(replace(one, bytes_sent=5_000_000 * len(looks)) for one in WAITING.neighbors)
        more = {
            "disagreement": 0.0314,
            "round_seconds": 30.0,
            "left_seconds": 390.0,
            "epsilon": 1.25,
            "disk_free": 5 * 10**9,
        }
        return asdict(replace(WAITING, neighbors=neighbors, dropped={"stranger": 2}, **more))

    with running(tmp_path / "rank-2", {"status": status}):
        found = dpeer("top", tmp_path, "--once", "--every", 0.2)
    head, row = (line.split() for line in found.out.splitlines() if line.strip()[:1].isalnum())
    assert head[:5] == ["rank", "rounds", "quorum", "round", "left"]
    words = " ".join(row)
    for part in ("30.0 s 6 min 30 s", "1.25", "0.031", "2 stranger", "5.0 GB", "MB 0 B"):
        assert part in words, (part, words)
    assert len(looks) == 2


def test_a_narrow_top_leaves_columns_out_and_cuts_none(
    dpeer: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"disagreement": 0.0314, "round_seconds": 0.254, "left_seconds": 1002.0, "disk_free": 72_800_000_000}
    asked = asdict(replace(WAITING, rounds=4000, completed=1042, quorum=1041, **more))
    heads = {}
    with running(tmp_path / "rank-2", {"status": lambda request: asked}):
        for width in (60, 80, 120, 240):
            monkeypatch.setenv("COLUMNS", str(width))
            found = dpeer("top", tmp_path, "--once", "--every", 0.2).out
            assert "\N{HORIZONTAL ELLIPSIS}" not in found, (width, found)
            assert max(map(len, found.splitlines())) <= max(80, width)
            head, _, left_out = found.partition("left out in")
            heads[width] = set(head.splitlines()[0].split())
            if width == 240:
                assert not left_out
            else:
                assert set(left_out.partition(": ")[2].replace(",", " ").split()) == heads_of_all() - heads[width]
    assert {"rank", "rounds", "state", "neighbors", "round"} <= heads[80] < heads[120] < heads[240] == heads_of_all()
    assert heads[60] == heads[80], "a printed table has 80 columns at least"


def heads_of_all() -> set[str]:
    """The words of all column heads of `top` for peers without privacy and drops."""
    head = "rank rounds quorum round left state neighbors last mix saved sent/s got/s disagreement disk"
    return set(head.split())


def test_members_on_other_hosts_are_rows_with_their_rounds(dpeer: Callable[..., Any], tmp_path: Path) -> None:
    with (
        running(
            tmp_path / "rank-2", {"status": lambda _: asdict(replace(WAITING, members={0: 6, 1: 4, 2: 7, 5: None}))}
        ),
        running(
            tmp_path / "rank-3", {"status": lambda _: asdict(replace(WAITING, rank=3, members={0: 7, 2: 7, 3: 7}))}
        ),
    ):
        rows = [" ".join(line.split()) for line in dpeer("status", tmp_path).out.splitlines()]
        checked = dpeer("status", tmp_path, "--check").out
    assert [row.split()[0] for row in rows if row[:1].isdigit()] == ["2", "3", "0", "1", "5"]
    assert "0 7/20 - not asked; alive to ranks 2, 3 - - -" in rows
    assert "1 4/20 - not asked; dead to ranks 2, 3 - - -" in rows
    assert "5 - - has not come yet - - -" in rows
    assert [line.partition(":")[0] for line in checked.splitlines()] == ["rank-2", "rank-3"], "those asked alone"


def test_words_of_a_peer_are_shown_as_they_are(dpeer: Callable[..., Any], tmp_path: Path) -> None:
    odd = replace(WAITING, phase="pause", why="[red]see [/nowhere]")
    with running(tmp_path / "rank-2", {"status": lambda request: asdict(odd)}):
        assert "([red]see [/nowhere])" in dpeer("status", tmp_path).out


def test_a_drain_prints_how_the_peer_left(dpeer: Callable[..., Any], tmp_path: Path) -> None:
    folder, asked, over = tmp_path / "rank-2", [], threading.Event()

    def drain(request: Any) -> dict[str, Any]:
        asked.append(request)
        return asdict(WAITING)

    def status(request: Any) -> dict[str, Any]:
        ended(folder, status="stopped", completed_rounds=8, rounds=20)
        over.set()
        return asdict(WAITING)

    with running(folder, {"drain": drain, "status": status}, over):
        found = dpeer("drain", tmp_path, "--rank", 2, "--back-within", 60)
    assert asked == [{"ask": "drain", "back_within": 60}]
    assert (found.code, found.out.splitlines()) == (
        0,
        [
            f"rank-2: finishes its round; dpeer status {folder} shows what it waits for",
            "rank-2: left after 8 of 20 rounds; --resume goes on",
        ],
    )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["status", "nowhere"], "no folder 'nowhere' exists; name the --out of a run, or rank-R in it"),
        (["status"], "no folder 'dpeer-run' exists; name the --out of a run, or rank-R in it"),
        (["drain", "run"], "no peer runs in 'run/rank-0'"),
        (["drain", "run", "--rank", "7"], "--rank 7: 'run' holds rank-0"),
        (
            ["drain", "run", "--back-within", "601"],
            "Invalid value for '--back-within': 601 is not in the range 0<=x<=600.",
        ),
    ],
)  # fmt: skip
def test_a_refusal_is_a_line(
    dpeer: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ended(tmp_path / "run" / "rank-0", status="done", completed_rounds=20, rounds=20)
    found = dpeer(*arguments)
    assert found.code == 2
    assert found.complaints[-1] == f"dpeer: {line}"
