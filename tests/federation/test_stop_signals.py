"""Stop signals: which are answered, and what a second one does."""

import asyncio
import os
import signal
from types import SimpleNamespace

import pytest

from dpeer.federation.serving import Stopper
from dpeer.federation.stop_signals import WARNINGS, Requests, stop_signals


@pytest.fixture
def handlers():
    """The handlers before a test, which are put back after it; a test sets its own."""
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, *WARNINGS)}
    for number in before:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_signals_that_are_ignored_or_have_a_use_in_the_program_are_left_alone():
    assert {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, *WARNINGS} == {*stop_signals()}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGUSR2, lambda *_: None)
    assert {signal.SIGINT, signal.SIGTERM, signal.SIGXCPU} == {*stop_signals()}


class Peer:
    def __init__(self):
        self.stops = 0

    def stop(self):
        self.stops += 1


async def sent(*numbers):
    """The peer whose process gets these signals one after the other."""
    peer, stopper, answered = Peer(), Stopper(), stop_signals()
    stopper.install()
    stopper.watch(peer)
    try:
        for number in numbers:
            os.kill(os.getpid(), number)
            for _ in range(3):  # the loop reads it, then calls its handler
                await asyncio.sleep(0)
        return peer
    finally:
        stopper.ended()
        for number in answered:
            asyncio.get_running_loop().remove_signal_handler(number)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", WARNINGS)
def test_a_schedulers_warning_stops_a_peer_and_may_come_again(number, monkeypatch):
    """SIGXCPU comes each second beyond the limit: it ended the process with the first."""
    exits = []
    monkeypatch.setattr("dpeer.federation.serving.os._exit", exits.append)
    assert asyncio.run(sent(number, number, number)).stops == 1
    assert not exits
    asyncio.run(sent(number, signal.SIGTERM))
    assert exits == [128 + signal.SIGTERM]


@pytest.mark.usefixtures("handlers")
def test_a_signal_that_comes_twice_at_once_is_one_request(monkeypatch):
    """`timeout` sends it to the process, and then to its group: the peer ended without a model."""
    exits, now = [], [0.0]
    monkeypatch.setattr("dpeer.federation.serving.os._exit", exits.append)
    monkeypatch.setattr("dpeer.federation.stop_signals.time", SimpleNamespace(monotonic=lambda: now[0]))
    assert asyncio.run(sent(signal.SIGTERM, signal.SIGTERM)).stops == 1
    assert not exits
    requests = Requests()
    for at, insists in ((0.0, False), (0.4, False), (0.6, True)):
        now[0] = at
        assert requests.insists(signal.SIGINT) is insists
    now[0] = 0.7
    assert requests.insists(signal.SIGTERM), "another one is another request"
