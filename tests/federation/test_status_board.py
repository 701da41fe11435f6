"""StatusBoard: what the event loop leaves for threads to read, and that reading costs it nothing."""

import asyncio
import json
import threading
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from dpeer.federation import status_board
from dpeer.federation.status_board import StatusBoard
from dpeer.federation.status_document import KEPT, STALE, blocked, why_unready
from dpeer.peer.snapshot import Awaited, NeighborSnapshot
from tests.federation.statuses import WELL, entry


@pytest.fixture
def clock(monkeypatch):
    """The clock of the board: a list with the seconds in it."""
    now = [100.0]
    monkeypatch.setattr(status_board, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def only(board):
    (found,) = board.read()["peers"]
    return found


def test_the_document_has_the_snapshot_and_what_follows_from_it(clock):
    found = only(StatusBoard("rank-2", lambda: WELL, private=False))
    assert {name: found[name] for name in asdict(WELL)} == asdict(WELL)
    assert (found["folder"], found["running"], found["age_seconds"]) == ("rank-2", True, 0.0)
    assert (found["unready"], found["disagreement"], found["history"]) == (None, 0.125, [])


def test_a_reason_that_may_name_an_address_or_a_setting_stays_on_the_host(clock):
    why = "its name 'site-1.example' cannot be resolved (Name or service not known)"
    snapshot = replace(
        WELL, withheld=(1,), waits_for=(Awaited(0, "in round 9"), Awaited(1, why)),
        neighbors=(
            NeighborSnapshot(1, "unseen", None, None, why), NeighborSnapshot(3, "dead", 2, 9.0, "silent for 9 s"),
        ),
    )  # fmt: skip
    board = StatusBoard("rank-2", lambda: snapshot, private=False)
    assert "site-1" not in json.dumps(board.read())
    assert [one["why"] for one in only(board)["waits_for"]] == ["in round 9", "see the peer's log"]
    assert [one["why"] for one in only(board)["neighbors"]] == ["see the peer's log", "silent for 9 s"]
    assert board.answer({})["waits_for"][1]["why"] == why, "the control socket is the owner's"


def test_a_reader_gets_what_the_loop_has_left_and_how_old_it_is(clock):
    now = [WELL]
    board = StatusBoard("rank-2", lambda: now[0], private=False)
    now[0], clock[0] = replace(WELL, completed=10), 104.0
    assert (only(board)["completed"], only(board)["age_seconds"]) == (9, 4.0), "a reader takes no snapshot"
    board.fill()
    assert (only(board)["completed"], only(board)["age_seconds"]) == (10, 0.0)


def test_a_loop_that_does_not_fill_the_board_is_taken_for_blocked(clock):
    board = StatusBoard("rank-2", lambda: WELL, private=False)
    clock[0] += STALE
    assert blocked(only(board)) is None
    clock[0] += 1.5
    assert blocked(only(board)) == "its event loop is blocked: its last sign is 12 s old"
    assert only(board)["unready"] == blocked(only(board))


def test_a_snapshot_that_cannot_be_taken_ends_no_peer_and_shows_by_its_age(clock):
    board = StatusBoard("rank-2", lambda: WELL, private=False)

    def fail():
        raise RuntimeError("a neighbor has no link")

    board.follow(fail)
    clock[0] += STALE + 2
    board.add_round(entry(9))
    assert (only(board)["completed"], len(only(board)["history"])) == (9, 1)
    assert blocked(only(board)) is not None
    with pytest.raises(RuntimeError):  # which the control socket answers with
        board.answer({"ask": "status"})


def test_the_history_has_the_last_rounds():
    board = StatusBoard("rank-2", lambda: WELL, private=False)
    for number in range(KEPT + 5):
        board.add_round(entry(number))
    history = only(board)["history"]
    assert [line["round"] for line in history] == list(range(5, KEPT + 5))
    assert history[0] == {
        "round": 5, "round_seconds": 1.75, "accuracy": 0.5, "test_loss": 1.5, "train_loss": 2.5, "disagreement": None,
        "heard": [0], "missed": [1],
    }  # fmt: skip


def test_after_a_restart_the_history_goes_on():
    board = StatusBoard("rank-2", lambda: WELL, private=True)
    board.recall([entry(number) for number in range(300)])
    board.add_round(entry(300))
    history = only(board)["history"]
    assert [line["round"] for line in history] == list(range(301 - KEPT, 301))
    assert "accuracy" not in history[0]


def test_a_damaged_line_is_a_round_of_which_little_is_known():
    board = StatusBoard("rank-2", lambda: WELL, private=False)
    board.recall([{"round": 3, "train_seconds": "long", "heard": {"0": 1}, "accuracy": None}])
    assert only(board)["history"] == [{
        "round": 3, "round_seconds": None, "accuracy": None, "test_loss": None, "train_loss": None,
        "disagreement": None, "heard": [], "missed": [],
    }]  # fmt: skip


def test_where_data_are_protected_no_figure_of_them_is_shown():
    board = StatusBoard("rank-2", lambda: WELL, private=True)
    board.add_round(entry(0, training_accuracy=0.75, metrics={"accuracy": 0.5}, privacy={"clipped": 0.25}))
    (line,) = only(board)["history"]
    assert {*line} == {"round", "round_seconds", "disagreement", "heard", "missed"}


def test_a_round_puts_the_present_snapshot_on_the_board():
    now = [WELL]
    board = StatusBoard("rank-2", lambda: now[0], private=False)
    now[0] = replace(WELL, completed=10)
    board.add_round(entry(9))
    assert only(board)["completed"] == 10


def test_the_control_socket_answers_with_the_present_snapshot_and_on_request_with_the_history():
    now = [WELL]
    board = StatusBoard("rank-2", lambda: now[0], private=False)
    board.add_round(entry(9))
    now[0] = replace(WELL, completed=11)
    assert board.answer({"ask": "status"}) == asdict(now[0])
    assert board.answer({"ask": "status", "history": True})["history"] == [*only(board)["history"]]


async def test_it_is_kept_filled_until_that_is_cancelled(monkeypatch):
    monkeypatch.setattr(status_board, "EVERY", 0.0)
    taken, enough = [0], asyncio.Event()

    def take():
        taken[0] += 1
        if taken[0] == 5:
            enough.set()
        return replace(WELL, completed=taken[0])

    board = StatusBoard("rank-2", take, private=False)
    filling = asyncio.create_task(board.keep_filled())
    await enough.wait()
    filling.cancel()
    await asyncio.gather(filling, return_exceptions=True)
    assert only(board)["completed"] == taken[0]


def test_threads_that_read_see_whole_documents_while_the_loop_writes():
    board = StatusBoard("rank-2", lambda: WELL, private=False)
    over, wrong = threading.Event(), []

    def read():
        while not over.is_set():
            numbers = [line["round"] for line in only(board)["history"]]
            if numbers != list(range(numbers[0], numbers[0] + len(numbers))) if numbers else False:
                wrong.append(numbers)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(1000):
        board.add_round(entry(number))
    over.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_peer_that_does_not_run_takes_no_part():
    peer = {"running": False, "folder": "rank-1", "state": "does not run: done"}
    assert (why_unready(peer), blocked(peer)) == ("does not run: done", None)
