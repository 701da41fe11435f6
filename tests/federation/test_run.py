"""Background loop: Ctrl-C stops its run, whichever thread the kernel delivers it to, once or twice."""

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dpeer.federation import run as module
from dpeer.federation.run import BackgroundLoop


@pytest.fixture(autouse=True)
def ctrl_c_raises() -> Iterator[None]:
    """As in a script: pytest's workers ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class TwiceInterrupted(asyncio.SelectorEventLoop):
    """Ctrl-C comes again while the main thread answers the first."""

    again = True

    def call_soon_threadsafe(self, *arguments: Any, **named: Any) -> Any:  # type: ignore[override]
        if threading.current_thread() is threading.main_thread() and self.again:
            self.again = False
            signal.raise_signal(signal.SIGINT)
        return super().call_soon_threadsafe(*arguments, **named)


class Interrupted:
    """A run that interrupts a thread and ends when it is stopped."""

    connected, status = True, None

    def __init__(self, loop_factory: Callable[[], asyncio.AbstractEventLoop], thread: Callable[[], int]) -> None:
        self.loop_factory = loop_factory
        self.ran_on = threading.current_thread()
        self._stopped = asyncio.Event()
        self._thread = thread

    async def run(self) -> None:
        self.ran_on = threading.current_thread()
        while not waits_for_the_run():  # noqa: ASYNC110 - no event tells where another thread is
            await asyncio.sleep(0.001)
        signal.pthread_kill(self._thread(), signal.SIGINT)
        await self._stopped.wait()

    def stop(self) -> None:
        self._stopped.set()

    def kill(self) -> None:
        raise AssertionError("a run that stops is not killed")


def main_thread() -> int:
    ident = threading.main_thread().ident
    assert ident is not None
    return ident


def waits_for_the_run() -> bool:
    """Whether the main thread waits in the loop's module: in `Event.wait`, not yet where it starts the thread."""
    frame = sys._current_frames()[main_thread()]
    waiting = frame.f_back and frame.f_back.f_back
    return waiting is not None and waiting.f_code.co_filename == module.__file__


def run(loop_factory: Callable[[], asyncio.AbstractEventLoop], thread: Callable[[], int]) -> BackgroundLoop:
    beside, runner = BackgroundLoop(), Interrupted(loop_factory, thread)
    beside(runner)
    assert runner.ran_on is not threading.main_thread()
    runner.ran_on.join(60)
    assert not runner.ran_on.is_alive()
    return beside


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, TwiceInterrupted])
@pytest.mark.parametrize("thread", [main_thread, threading.get_ident])
def test_ctrl_c_stops_a_run_and_leaves_nothing_running(loop_factory: Any, thread: Callable[[], int]) -> None:
    assert run(loop_factory, thread).interrupted
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_caller_that_raises_stops_a_run_and_stays() -> None:
    def handler(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handler)
    assert run(asyncio.new_event_loop, main_thread).interrupted
    assert signal.getsignal(signal.SIGINT) is handler
