"""Sockets on the event loop: backpressure, and events that no reader takes."""

import multiprocessing
import select
import socket

import pytest
import zmq

from dpeer.peer.transports.sockets import Reader, Sockets, monitored
from tests.ipv6 import has_ipv6


@pytest.mark.slow
def test_a_socket_whose_many_events_no_reader_takes_is_closed_all_the_same():
    """In a process of its own: where it hangs, it hangs in libzmq, which no timeout of Python ends."""
    process = multiprocessing.get_context("spawn").Process(target=flooded)
    process.start()
    process.join(60)
    hangs = process.is_alive()
    process.kill()
    assert (hangs, process.exitcode) == (False, 0)


def flooded():
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router, monitored(router, zmq.EVENT_ALL):
        port = router.bind_to_random_port("tcp://127.0.0.1")
        for _ in range(800):  # more than 2000 events that wait would block the thread that reports them
            socket.create_connection(("127.0.0.1", port), timeout=20).close()
        router.disable_monitor()


async def test_while_there_is_no_room_the_event_loop_does_not_turn_for_what_waits(until):
    signals, found, room = [], [], [True]
    with zmq.Context() as context, context.socket(zmq.PULL) as here, context.socket(zmq.PUSH) as there:
        here.linger = there.linger = 0
        port = here.bind_to_random_port("tcp://127.0.0.1")
        there.connect(f"tcp://127.0.0.1:{port}")
        reader = Reader(
            here, lambda message: found.append(message[0].bytes), lambda: room[0], signalled=lambda: signals.append(1)
        )
        there.send(b"first")
        await until(lambda: found == [b"first"])
        room[0] = False
        signals.clear()
        there.send(b"second")
        await until(lambda: signals)
        await until(lambda: not select.select([int(here.getsockopt(zmq.FD))], [], [], 0)[0], 10)
        assert found == [b"first"]
        room[0] = True
        reader.look_soon()
        await until(lambda: len(found) == 2)
        there.send(b"third")
        await until(lambda: len(found) == 3)
        assert found == [b"first", b"second", b"third"]
        reader.close()


async def test_a_message_whose_signal_another_call_on_the_socket_has_used_up_is_read(until):
    found, signals = [], []
    with zmq.Context() as context, context.socket(zmq.PAIR) as here, context.socket(zmq.PAIR) as there:
        here.bind("inproc://here")
        there.connect("inproc://here")
        reader = Reader(here, lambda message: found.append(message[0].bytes), signalled=lambda: signals.append(1))
        await until(lambda: not select.select([here.FD], [], [], 0)[0], 10)
        signals.clear()
        there.send(b"first")
        here.send(b"away")  # which takes in that a message has come
        assert not select.select([here.FD], [], [], 0)[0]
        reader.called()
        await until(lambda: found == [b"first"])
        assert not signals
        reader.called()
        assert reader._due is None
        reader.close()


async def test_links_take_turns_however_much_one_of_them_sends():
    """A link that was dialled has every other turn beside all that were accepted, whose messages are in one queue."""
    sockets = Sockets(1000, 8, 1.0, lambda: None)
    for number in range(100):
        sockets.push("flood", number)
    for number in range(3):
        sockets.push("honest", -number)
    assert [await sockets.receive() for _ in range(7)] == [0, 0, 1, -1, 2, -2, 3]
    sockets.push("honest", -3)
    assert [await sockets.receive() for _ in range(3)] == [4, -3, 5]
    await sockets.terminate()


@pytest.mark.skipif(not has_ipv6(), reason="the host has no IPv6")
async def test_all_interfaces_are_those_of_ipv4_and_of_ipv6():
    sockets = Sockets(1000, 8, 1.0, lambda: None)
    with sockets.open(zmq.ROUTER, "tcp://*:0") as router:
        router.bind("tcp://*:0")
        port = router.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2]
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, int(port))).close()
    await sockets.terminate()
