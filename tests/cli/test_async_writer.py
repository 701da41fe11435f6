"""The thread that writes for others, and what it does when it cannot keep up."""

import threading

import pytest

from dpeer.cli.async_writer import AsyncWriter


class Target:
    """Writes one line for each `release` of `go`."""

    def __init__(self, lines=0):
        self.lines, self.began, self.go = [], threading.Semaphore(0), threading.Semaphore(lines)

    def write(self, line):
        self.began.release()
        assert self.go.acquire(timeout=60)
        self.lines.append(line)

    def skipped(self, lines):
        self.lines.append(f"{lines} missing")


@pytest.fixture
def target():
    return Target()


@pytest.fixture
def writer(target):
    made = AsyncWriter("test", target, most=10)
    yield made
    assert made.close(60)


def test_a_full_queue_drops_lines_until_all_are_written_and_reports_them_where_they_are_missing(writer, target):
    assert writer.put(0)
    assert target.began.acquire(timeout=60)  # this line has left the queue, and is not written
    assert [writer.put(number) for number in range(1, 12)] == [True] * 10 + [False]
    for _ in range(2):
        target.go.release()
        assert target.began.acquire(timeout=60)
    assert not writer.put("too early"), "it has room for two, and others wait"
    target.go.release(100)
    assert writer.flush(60)
    assert writer.put("in time")
    assert writer.flush(60)
    assert target.lines == [*range(11), "2 missing", "in time"]


def test_where_no_thread_can_be_started_lines_wait_and_a_flush_writes_them(monkeypatch):
    target, start = Target(100), threading.Thread.start
    made = AsyncWriter("test", target, most=10)

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert [made.put(number) for number in range(3)] == [True] * 3
    assert target.lines == []
    assert made.flush(60)
    assert target.lines == [0, 1, 2]
    assert made.put(3)
    monkeypatch.setattr(threading.Thread, "start", start)
    made.put(4)  # a thread can be started again
    assert made.close(60)
    assert target.lines == [0, 1, 2, 3, 4]


def test_a_reader_that_does_not_come_back_is_waited_for_no_longer_than_the_patience(writer, target):
    writer.put("unread")
    assert not writer.close(0.01)
    target.go.release()
    assert writer.flush(60)


def test_the_thread_ends_with_close_and_another_line_starts_one(writer, target):
    def threads():
        return [thread for thread in threading.enumerate() if thread.name == "test"]

    target.go.release(100)
    for line in ("first", "second"):
        assert threads() == []
        writer.put(line)
        (thread,) = threads()
        assert thread.daemon, "a reader that never comes back must not keep the process"
        assert writer.close(60)
        thread.join(60)
    assert target.lines == ["first", "second"]


def test_a_line_that_cannot_be_written_leaves_the_next_its_chance(writer, target):
    def broken():
        raise OSError("no")

    target.go.release(100)
    writer.run(broken)
    writer.put("next")
    assert writer.flush(60)
    assert target.lines == ["next"]
