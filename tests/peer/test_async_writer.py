"""The thread that writes for others, and what it does when it cannot keep up."""

import threading

import pytest

from dpeer.peer.async_writer import AsyncWriter


class Slow:
    """A target whose reader has stopped until it is `read`."""

    def __init__(self):
        self.lines, self.reading, self.began = [], threading.Event(), threading.Event()

    def write(self, line):
        self.began.set()
        assert self.reading.wait(60)
        self.lines.append(line)

    def skipped(self, lines):
        self.lines.append(f"{lines} missing")


@pytest.fixture
def outlet():
    made = AsyncWriter("test", most=10)
    yield made
    assert made.close(60)


def test_who_writes_never_waits_and_what_is_dropped_is_said_where_it_is_missing(outlet):
    target = Slow()
    assert outlet.put(target, 0)
    assert target.began.wait(60)  # this line has left the queue, and is not written
    assert [outlet.put(target, number) for number in range(1, 15)] == [True] * 10 + [False] * 4
    target.reading.set()
    assert outlet.flush(60)
    assert outlet.put(target, 99)
    assert outlet.flush(60)
    assert target.lines == [*range(11), "4 missing", 99]


def test_where_no_thread_can_be_started_lines_wait_and_who_flushes_writes_them(monkeypatch):
    made, target, start = AsyncWriter("test", most=10), Slow(), threading.Thread.start

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    target.reading.set()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert [made.put(target, number) for number in range(3)] == [True] * 3
    assert target.lines == []
    assert made.flush(60)
    assert target.lines == [0, 1, 2]
    assert made.put(target, 3)
    assert made.close(60)
    assert target.lines == [0, 1, 2, 3]
    made.put(target, 4)
    monkeypatch.setattr(threading.Thread, "start", start)
    made.put(target, 5)  # there is one again
    assert made.close(60)
    assert target.lines == [0, 1, 2, 3, 4, 5]


def test_of_two_targets_each_is_told_what_it_lacks(outlet):
    one, other = Slow(), Slow()
    outlet.put(one, 0)
    assert one.began.wait(60)
    for number in range(1, 15):
        outlet.put(one if number % 2 else other, number)
    for target in (one, other):
        target.reading.set()
    assert outlet.flush(60)
    assert one.lines == [0, 1, 3, 5, 7, 9, "2 missing"]
    assert other.lines == [2, 4, 6, 8, 10, "2 missing"]


def test_a_full_queue_takes_nothing_until_half_of_it_is_written(outlet):
    began, go_on = threading.Semaphore(0), threading.Semaphore(0)

    class Stepwise(Slow):
        def write(self, line):
            began.release()
            assert go_on.acquire(timeout=60)
            self.lines.append(line)

    target = Stepwise()
    assert outlet.put(target, 0)
    assert began.acquire(timeout=60)
    assert [outlet.put(target, number) for number in range(1, 12)] == [True] * 10 + [False]
    for _ in range(2):
        go_on.release()
        assert began.acquire(timeout=60)
    assert not outlet.put(target, "too early"), "there is room for two, and less than half is written"
    go_on.release(100)
    assert outlet.flush(60)
    assert outlet.put(target, "in time")
    assert outlet.flush(60)
    assert target.lines == [*range(11), "2 missing", "in time"]


def test_a_reader_who_does_not_come_back_is_waited_for_no_longer_than_said(outlet):
    target = Slow()
    outlet.put(target, "unread")
    assert not outlet.close(0.01)
    target.reading.set()
    assert outlet.flush(60)


def test_the_thread_ends_with_close_and_another_line_starts_one(outlet):
    def threads():
        return [thread for thread in threading.enumerate() if thread.name == "test"]

    target = Slow()
    target.reading.set()
    assert threads() == []
    for line in ("first", "second"):
        outlet.put(target, line)
        (thread,) = threads()
        assert thread.daemon, "a reader who never comes back must not keep the process"
        assert outlet.close(60)
        thread.join(60)
        assert threads() == []
    assert target.lines == ["first", "second"]


def test_a_line_that_cannot_be_written_leaves_the_next_its_chance(outlet):
    target = Slow()
    target.reading.set()

    def broken():
        raise OSError("no")

    outlet.run(broken)
    outlet.put(target, "next")
    assert outlet.flush(60)
    assert target.lines == ["next"]
