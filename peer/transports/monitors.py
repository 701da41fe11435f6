"""Hearing what happens on a socket's connections, without a limit to what has not been heard yet."""

from __future__ import annotations

import zmq


def monitored(socket: zmq.Socket[bytes], events: int) -> zmq.Socket[bytes]:
    """A socket on which libzmq tells of these events.

    pyzmq's `get_monitor_socket` holds a thousand messages. While that many wait, libzmq 4.3.5 blocks the thread that
    has another one to tell, and it holds the lock that `disable_monitor` waits for: a peer that closes under a flood of
    connections would hang for ever. So there is no limit here; who hears reads until the end, and the rest is dropped.

    Raises:
        zmq.ZMQError: There are too many open files, for example.
    """
    address = f"inproc://dpeer.monitor.{socket.FD}"
    socket.monitor(address, events)
    try:
        hearing: zmq.Socket[bytes] = socket.context.socket(zmq.PAIR)
    except zmq.ZMQError:
        socket.disable_monitor()
        raise
    hearing.setsockopt(zmq.LINGER, 0)
    hearing.setsockopt(zmq.RCVHWM, 0)
    hearing.connect(address)
    return hearing
