"""Sockets on the event loop: backpressure, and events that nobody has read."""

import select
import subprocess
import sys

import pytest
import zmq

from dpeer.peer.transports.sockets import Reader

FLOOD = """
import socket, sys, zmq
from dpeer.peer.transports.sockets import monitored

context = zmq.Context()
router = context.socket(zmq.ROUTER)
heard = monitored(router, zmq.EVENT_ALL)
port = router.bind_to_random_port("tcp://127.0.0.1")
for _ in range(1500):  # each of them tells of several events; nobody reads
    socket.create_connection(("127.0.0.1", port), timeout=20).close()
router.disable_monitor()
heard.close()
context.destroy(linger=0)
print("closed")
"""


@pytest.mark.slow
def test_a_socket_whose_many_events_nobody_has_read_is_closed_all_the_same() -> None:
    """In a process of its own: where it hangs, it hangs in libzmq, which no timeout of Python ends."""
    done = subprocess.run([sys.executable, "-c", FLOOD], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "closed\n", done.stderr


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
        reader.stop()
