"""What a socket's connections tell, while nobody listens."""

import subprocess
import sys

import pytest

FLOOD = """
import socket, sys, zmq
from dpeer.peer.transports.monitors import monitored

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
