"""Which connections of a socket are ended: TCP connections of the test's own, whose bytes it takes as libzmq would."""

import asyncio
import contextlib
import os
import socket
import sys
from pathlib import Path

import pytest
import zmq

from dpeer.peer.core.limits import AROUND, MOST_UNPROVED, PROVE_WITHIN, UNREAD
from dpeer.peer.transports.connection_guard import ConnectionGuard
from dpeer.simulation.virtual_time import VirtualLoop

LONGEST = 1000
MOST = (LONGEST + AROUND) * (UNREAD + 2)


class Part:
    """A part of a message that came on a connection, as libzmq hands it out."""

    def __init__(self, number):
        self.number = number

    def get(self, option):
        assert option == zmq.SRCFD
        return self.number


class Guarded:
    """A guard, and the connections of its socket."""

    def __init__(self, closing, *, keys):
        self.endless = []
        self.guard = ConnectionGuard(LONGEST, lambda link, place: self.endless.append((link, place)), keys=keys)
        closing.callback(self.guard.close)
        self.closing = closing
        self.server = closing.enter_context(socket.create_server(("127.0.0.1", 0)))

    def accept(self, host="127.0.0.1", *, told=True):
        """Accept a connection from this host of loopback."""
        there = self.closing.enter_context(
            socket.create_connection(self.server.getsockname(), source_address=(host, 0))
        )
        here = self.closing.enter_context(self.server.accept()[0])
        if told:
            self.guard.happened(zmq.EVENT_ACCEPTED, here.fileno())
        return here, there

    def take(self, connection, nbytes):
        """Have bytes come on a connection, and take them."""
        here, there = connection
        while nbytes:
            some = min(nbytes, 2**16)
            there.sendall(bytes(some))
            assert len(here.recv(some, socket.MSG_WAITALL)) == some
            nbytes -= some

    def came(self, connection, link, identity=None):
        self.guard.came(Part(connection[0].fileno()), link, identity)

    @staticmethod
    def ended(connection):
        connection[1].settimeout(0.01)
        try:
            return connection[1].recv(1) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True


def guarded(*, keys=False):
    """Run a test in virtual time, with a guard."""

    def decorated(test):
        async def guard():
            with contextlib.ExitStack() as closing:
                await test(Guarded(closing, keys=keys))

        def run():
            with asyncio.Runner(loop_factory=VirtualLoop) as runner:
                runner.run(guard())

        run.__name__ = test.__name__
        return run

    return decorated


linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux counts what has come")


@linux
@guarded()
async def test_more_than_may_wait_to_be_read_since_the_last_message_is_endless(here):
    one, other = here.accept(), here.accept()
    here.came(one, b"link")
    here.take(one, MOST)
    await asyncio.sleep(1)
    here.take(one, MOST)
    here.came(one, b"link")
    await asyncio.sleep(1)
    here.take(one, MOST)
    await asyncio.sleep(1)
    assert (here.endless, here.ended(one)) == ([], False)
    here.take(one, 1)
    await asyncio.sleep(1)
    assert here.endless == [(b"link", "127.0.0.1")]
    assert here.ended(one)
    assert not here.ended(other)


@linux
@guarded()
async def test_a_connection_that_never_had_a_whole_message_is_a_strangers(here):
    one = here.accept()
    here.take(one, MOST + 1)
    await asyncio.sleep(1)
    assert here.endless == [(None, "127.0.0.1")]


@linux
@guarded()
async def test_bytes_that_wait_in_the_operating_system_are_not_libzmqs(here):
    one = here.accept()
    one[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2 * MOST)
    here.take(one, MOST)
    one[1].sendall(bytes(1000))
    await asyncio.sleep(1)
    assert here.endless == []


@guarded(keys=True)
async def test_too_many_strangers_displace_those_of_the_busiest_host(here):
    honest = here.accept("127.0.0.2")
    flood = [here.accept() for _ in range(MOST_UNPROVED + 20)]
    assert [here.ended(one) for one in flood] == [True] * 21 + [False] * (MOST_UNPROVED - 1)
    assert not here.ended(honest)


@guarded(keys=True)
async def test_a_key_that_was_proved_outlasts_floods_and_time(here):
    one = here.accept()
    here.came(one, b"link", 7)
    flood = [here.accept() for _ in range(MOST_UNPROVED)]
    await asyncio.sleep(PROVE_WITHIN - 0.1)
    assert not any(here.ended(other) for other in flood)
    await asyncio.sleep(0.2)
    assert all(here.ended(other) for other in flood)
    assert not here.ended(one)


@guarded()
async def test_without_keys_nothing_has_to_be_proved(here):
    some = [here.accept() for _ in range(MOST_UNPROVED + 1)]
    await asyncio.sleep(10 * PROVE_WITHIN)
    assert not any(here.ended(one) for one in some)


@guarded(keys=True)
async def test_of_each_key_the_newest_connection_stays(here):
    other = here.accept()
    here.came(other, b"other", 8)
    several = [here.accept() for _ in range(5)]
    for number, one in enumerate(several):
        here.came(one, b"%d" % number, 7)
        here.came(one, b"%d" % number, 7)
    assert [here.ended(one) for one in several] == [True] * 4 + [False]
    assert not here.ended(other)


@guarded(keys=True)
async def test_a_message_may_come_before_the_event_of_its_connection(here):
    one = here.accept(told=False)
    here.came(one, b"link", 7)
    here.guard.happened(zmq.EVENT_ACCEPTED, one[0].fileno())
    here.came(one, b"link", 7)
    await asyncio.sleep(2 * PROVE_WITHIN)
    assert not here.ended(one)
    here.guard.end(b"link")
    assert here.ended(one)


@guarded(keys=True)
async def test_a_number_that_is_used_again_is_a_new_connection(here):
    one, another = here.accept(), here.accept(told=False)
    number = one[0].fileno()
    here.came(one, b"link", 7)
    one[0].close()
    assert not here.ended(one), "not before the event"
    here.guard.happened(zmq.EVENT_DISCONNECTED, number)
    assert here.ended(one)
    os.dup2(another[0].fileno(), number)
    here.closing.callback(os.close, number)
    here.guard.happened(zmq.EVENT_ACCEPTED, number)
    here.guard.end(b"link")
    assert not here.ended(another)
    await asyncio.sleep(2 * PROVE_WITHIN)
    assert here.ended(another), "it has not proved a key"


@guarded(keys=True)
async def test_a_number_that_is_no_connections_any_more_is_left_alone(here):
    with Path(__file__).open() as file:  # noqa: ASYNC230
        here.guard.happened(zmq.EVENT_ACCEPTED, file.fileno())
        await asyncio.sleep(2 * PROVE_WITHIN)
        assert file.read(3) == '"""'
    here.guard.happened(zmq.EVENT_ACCEPTED, 10**6)
    await asyncio.sleep(2 * PROVE_WITHIN)
    assert here.endless == []
