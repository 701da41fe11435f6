"""Lines on stderr: one each, without what a terminal would obey, and waited for by no peer."""

import io
import os
import pty
import re
import sys
import termios
import threading
from contextlib import suppress

import pytest
from rich.console import Console

from dpeer.cli.progress import Bar
from dpeer.cli.terminal import Terminal, one_line

ENTRY = {
    "time": 0.0,
    "level": "warning",
    "event": "an-event",
    "message": "rank 3 :warning: [bold]is\n\x1b[2Jsilent",
    "rank": 2,
}


def printed(*, terminal):
    console = Console(
        file=io.StringIO(), force_terminal=terminal, width=20, color_system="standard" if terminal else None
    )
    with Terminal(console) as one:
        assert one.log(ENTRY)
        one.say("\x1b]0;title\x07a line that is longer than the terminal is wide, [red]as it is")
    return console.file.getvalue()


def test_a_file_gets_plain_lines_with_nothing_that_a_terminal_would_obey():
    first, second = printed(terminal=False).splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d rank 2 WARNING: rank 3 :warning: \[bold\]is \?\[2Jsilent", first)
    assert second == "?]0;title?a line that is longer than the terminal is wide, [red]as it is"


def test_a_terminal_gets_colour_that_is_ours_alone():
    first, *_ = printed(terminal=True).splitlines()
    assert "\x1b[33mWARNING\x1b[0m" in first
    assert first.count("\x1b") == 2


@pytest.mark.parametrize("nasty", ["a\rb", "a\nb", "a\x1b[31mb", "a\x9b31mb", "a\u202eb", "a\x00b"])
def test_a_text_is_one_line_that_can_be_printed(nasty):
    assert one_line(nasty).isprintable()


class Unread:
    """A pipe that is full and that nobody reads until `read`."""

    def __init__(self):
        self._reading, writing = os.pipe()
        os.set_blocking(writing, False)
        with suppress(BlockingIOError):
            while True:
                os.write(writing, b"x" * 4096)
        os.set_blocking(writing, True)
        self.file = os.fdopen(writing, "w")

    def read(self, last):
        """The lines up to the last one, without what the pipe was full of."""
        found = bytearray()
        while not found.endswith(f"{last}\n".encode()):
            found += os.read(self._reading, 65536)
        return found.decode().lstrip("x").splitlines()

    def close(self):
        os.close(self._reading)
        self.file.close()


@pytest.fixture
def unread():
    pipe = Unread()
    yield pipe
    pipe.close()


def test_an_unread_stderr_is_not_waited_for_and_lines_beyond_a_thousand_are_dropped(unread, monkeypatch):
    monkeypatch.setattr(sys, "stderr", unread.file)
    with Terminal(patience=0.01) as terminal:
        terminal.say("first")
        offered = 0
        while terminal.log(ENTRY | {"message": f"line {offered}"}):
            offered += 1
        assert 900 < offered < 1100
        terminal.say("last")
        assert not terminal.flush()
    first, *lines = unread.read("last")
    assert first == "first"
    assert [line.rpartition(": ")[2] for line in lines[:-1]] == [f"line {number}" for number in range(offered)]


def test_a_line_that_cannot_be_printed_leaves_the_next_its_chance_and_the_thread_ends_with_the_block():
    console = Console(file=io.StringIO(), force_terminal=False)
    before = set(threading.enumerate())
    with Terminal(console) as terminal:
        (thread,) = set(threading.enumerate()) - before
        assert thread.daemon, "a reader that never comes back must not keep the process"
        terminal.run(lambda: 1 / 0)
        terminal.say("next")
        assert terminal.flush()
        assert console.file.getvalue() == "next\n"
    thread.join(60)
    assert not thread.is_alive()


def test_a_bar_on_a_terminal_that_was_stopped_holds_nobody_up():
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as file:
        termios.tcflow(theirs, termios.TCOOFF)  # Ctrl-S
        terminal = Terminal(Console(file=file, width=80, force_terminal=True), patience=0.01)
        before = sys.stdout, sys.stderr
        with terminal:
            with Bar(terminal, 3) as bar:
                bar.begin()
                for number in range(3):
                    terminal.log(ENTRY)
                    bar.completed(number + 1)
            assert not terminal.flush()
            assert (sys.stdout, sys.stderr) == before
            terminal.say("last")
        termios.tcflow(theirs, termios.TCOON)
        found = b""
        while b"last\r\n" not in found:
            found += os.read(ours, 65536)
        assert found.count(b"WARNING") == 3
    os.close(ours)
