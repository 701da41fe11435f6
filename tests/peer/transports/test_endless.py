"""Messages without end: their connection is ended, memory stays, and no honest peer loses its own by that."""

import asyncio
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
import zmq

from dpeer.peer.core.limits import CHUNK, Limits
from dpeer.peer.transport import Arrival, Broken, Endless, Opened
from dpeer.peer.transports import connection_guard
from tests.peer.keys import keyrings
from tests.peer.transports.conftest import TCP, next_of
from tests.peer.transports.endless import attacker, endless, greet

GROWTH = 200 * 2**20
"""Bytes by which a process may grow: ten of the longest messages, and what comes over loopback between two looks."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux counts what has come")


@pytest.fixture(params=[False, True], ids=["plain", "keys"])
def rings(request):
    """Of the attacked one, the attacker, and an honest one."""
    return keyrings(3) if request.param else [None] * 3


def most_resident(*, anew=False):
    """The most bytes that this process has had in memory since the last call with `anew`."""
    if anew:
        Path("/proc/self/clear_refs").write_text("5")
    (line,) = [one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


async def attacked_and_honest(rings, opened, *, dialled):
    """The attacked transport, an honest one with its link to it, and the attacker."""
    ours, honest = opened(rings[0]), opened(rings[2])
    keys = [] if rings[1] is None else [rings[1].secret.hex()]
    address = await ours.listen(TCP)
    if dialled:
        process = attacker("listen", *keys)
    else:
        process = attacker("dial", address.rpartition(":")[2], *keys, *([rings[0].public.hex()] if keys else []))
    return ours, honest, honest.dial(address, 0), process


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rings", "dialled"), [(False, False), (True, True)], ids=["a listener", "dialled, with keys"], indirect=["rings"]
)
async def test_the_sender_of_a_message_without_end_alone_loses_its_connection(rings, opened, dialled):
    ours, honest, link, process = await attacked_and_honest(rings, opened, dialled=dialled)
    await next_of(honest, Opened)
    honest.send(link, [b"here", b"first"])
    first = await next_of(ours, Arrival)
    async with process as hostile:
        if dialled:
            theirs = ours.dial(f"tcp://127.0.0.1:{int(await hostile.stdout.readline())}", 1)
            if rings[0] is not None:
                await next_of(ours, Opened)
                ours.send(theirs, [b"here"])
        theirs = (await next_of(ours, Arrival)).link
        before = most_resident(anew=True)
        hostile.stdin.write(b"now\n")
        got = await next_of(ours, Endless, Arrival)
        assert got == Endless(theirs, "127.0.0.1")
        assert await hostile.stdout.readline() == b"ended\n"
        assert most_resident() - before < GROWTH
        if dialled:
            assert await next_of(ours, Broken) == Broken(theirs)
        for _ in range(3):
            honest.send(link, [b"still", b"here"])
            assert (await next_of(ours, Arrival)).link == first.link
            ours.send(first.link, [b"so"])
            await next_of(honest, Arrival)


async def test_a_connection_that_begins_with_a_message_without_end_is_ended_too(opened):
    listener = opened(None)
    address = await listener.listen(TCP)

    def attack():
        with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as connection:
            greet(connection)
            with suppress(OSError):
                endless(connection)
                return "arrived"
        return "ended"

    attacking = asyncio.create_task(asyncio.to_thread(attack))
    assert await next_of(listener, Endless, Arrival) == Endless(None, "127.0.0.1")
    assert await attacking == "ended"


async def test_an_older_protocol_of_zeromq_is_heard(opened):
    """libzmq does not tell the connection of such a message."""
    listener = opened(None)
    address = await listener.listen(TCP)
    with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as connection:
        connection.sendall(b"\xff" + bytes(8) + b"\x7f\x01\x05\x00\x00" + b"\x00\x05older" * 2)  # ZMTP 2.0, a DEALER
        for _ in range(2):
            assert bytes((await next_of(listener, Arrival)).frames[0]) == b"older"


# -- who is slow, but honest -------------------------------------------------------------------------------------------

LONG = [bytes(2**16), bytes(CHUNK)]


class Sender:
    """Sends long messages from a thread, as quickly as they are taken, until none is for half a second."""

    def __init__(self, address, ring, listener):
        self.sent = 0
        self.go, self.stuck, self.over = threading.Event(), threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.run, args=(address, ring, listener), daemon=True)
        self.thread.start()

    def run(self, address, ring, listener):
        with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
            dealer.linger = 0
            dealer.sndhwm = 4
            if ring is not None:
                dealer.curve_secretkey, dealer.curve_publickey = ring.secret, ring.public
                dealer.curve_serverkey = listener.public
            dealer.connect(address)
            dealer.send(b"here")
            self.go.wait()
            while dealer.poll(500, zmq.POLLOUT):
                dealer.send_multipart([b"%08d" % self.sent, *LONG], copy=False)
                self.sent += 1
            self.stuck.set()
            self.over.wait()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rings", "frozen"),
    [(False, False), (True, True)],
    ids=["no task receives", "keys, and the event loop stands still"],
    indirect=["rings"],
)
async def test_a_peer_that_does_not_read_for_a_while_loses_no_connection(rings, opened, frozen, monkeypatch):
    """What waits meanwhile is far more than one message, in libzmq and in the operating system."""
    monkeypatch.setattr(connection_guard, "LOOK", 0.001)
    listener = opened(rings[0])
    address = await listener.listen(TCP)
    senders = [Sender(address, ring, rings[0]) for ring in rings[1:]]
    for _ in senders:
        assert bytes((await next_of(listener, Arrival)).frames[0]) == b"here"
    for sender in senders:
        sender.go.set()
        if frozen:
            sender.stuck.wait()
        else:
            await asyncio.to_thread(sender.stuck.wait)
    assert min(sender.sent for sender in senders) > 3
    await asyncio.sleep(0.1)  # some looks
    following = {}
    for _ in range(sum(sender.sent for sender in senders)):
        arrival = await listener.receive()
        assert isinstance(arrival, Arrival), arrival
        number = following.setdefault(arrival.link, 0)
        assert bytes(arrival.frames[0]) == b"%08d" % number
        following[arrival.link] += 1
    for sender in senders:
        sender.over.set()
        await asyncio.to_thread(sender.thread.join)


async def test_of_a_message_with_too_many_frames_few_are_kept(rings, opened):
    listener, dialler, other = (opened(ring) for ring in rings)
    address = await listener.listen(TCP)
    link, honest = dialler.dial(address, 0), other.dial(address, 0)
    await next_of(dialler, Opened)
    await next_of(other, Opened)
    dialler.send(link, [b"x"] * 30_000)
    dialler.send(link, [b"next"])
    assert len((await next_of(listener, Arrival)).frames) == Limits().buffers + 2
    assert [bytes(frame) for frame in (await next_of(listener, Arrival)).frames] == [b"next"]
    other.send(honest, [b"here"])
    assert [bytes(frame) for frame in (await next_of(listener, Arrival)).frames] == [b"here"]
