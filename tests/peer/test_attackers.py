"""Strangers on the port of a peer that uses keys: they learn nothing and change nothing."""

import asyncio
import contextlib
import os

import numpy as np
import zmq
import zmq.asyncio
from zmq.utils import z85

from dpeer.peer.core import wire
from dpeer.peer.core.limits import MOST_UNPROVED
from dpeer.topology import build
from tests.peer.conftest import expected_bodies

STALLED, FLOODS, ROUNDS = 200, 20, 10
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)
WORDS = (b"size", b"body_lr", b"fingerprint", b"hello", b"manifest", b"rank", b"kind", b"offset", b"dpeer")


class Attack:
    """Attacks one address; `got` is all that the strangers were sent, `opened` how many connections they made."""

    def __init__(self, address, server_key):
        self.host, self.port = address.removeprefix("tcp://").split(":")
        self.address, self.server_key = address, server_key
        self.got, self.opened = bytearray(), 0

    async def begin(self, junk):
        """Begin handshakes and stall, or send junk without pause; on a new connection whenever one is ended."""
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(self.host, self.port)
                self.opened += 1
                writer.write(GREETING)
                while junk:
                    writer.write(junk)
                    await writer.drain()
                while data := await reader.read(65536):
                    self.got += data
                writer.close()
            await asyncio.sleep(0.05)

    async def hello(self, context, secret, server_key):
        """Send hellos on a ZeroMQ socket, and read the answers."""
        with context.socket(zmq.DEALER) as dealer:
            dealer.linger = 0
            if secret is not None:
                dealer.curve_secretkey = secret
                dealer.curve_publickey = z85.decode(zmq.curve_public(z85.encode(secret)))
                dealer.curve_serverkey = server_key
            dealer.connect(self.address)
            hello = wire.encode(wire.Hello(rank=1, next_round=0, fingerprint={"size": 99}, manifest={}, digest=""))
            while True:
                with contextlib.suppress(zmq.Again):
                    dealer.send_multipart(hello, zmq.NOBLOCK)
                if await dealer.poll(50):
                    self.got += b"".join(await dealer.recv_multipart())

    def jobs(self, context):
        unlisted, wrong = (z85.decode(zmq.curve_keypair()[1]) for _ in range(2))
        other = z85.decode(zmq.curve_keypair()[0])
        hellos = [(None, b""), (unlisted, self.server_key), (wrong, other)]
        return [
            *(self.begin(b"") for _ in range(STALLED)),
            *(self.begin(os.urandom(65536)) for _ in range(FLOODS)),
            *(self.hello(context, *keys) for keys in hellos),
        ]


async def test_stalled_handshakes_floods_and_strangers_with_keys_have_no_effect(federation, until):
    topology = build("ring", 3)
    ours = federation("keys", topology, rounds=ROUNDS, wait=60)
    ours.learners[1].hold = 3
    addresses = await ours.listen()
    attacked = ours.transports[2]  # which both others dial
    counts, most = ours.peers[2].core.reports.counts, 0
    attack = Attack(addresses[2], ours.keyrings[2].public)
    with zmq.asyncio.Context() as context:
        attacking = [asyncio.create_task(job) for job in attack.jobs(context)]
        running = asyncio.create_task(ours.serve(addresses))
        await until(ours.learners[1].held.is_set)

        def displaced():
            nonlocal most
            most = max(most, len(attacked.guard.unproved()))
            return counts["unlisted-key"] and counts["no-key"] and attack.opened > 2 * (STALLED + FLOODS)

        await until(displaced)
        ours.learners[1].go.set()
        found = await running
        for task in attacking:
            task.cancel()
        await asyncio.gather(*attacking, return_exceptions=True)
    assert [outcome.status for outcome in found.values()] == ["done"] * 3
    assert not any(outcome.lost for outcome in found.values())
    np.testing.assert_allclose(ours.bodies(), expected_bodies(topology, ROUNDS), rtol=1e-12)
    assert 0 < most <= MOST_UNPROVED
    assert attack.got, "greetings of ZeroMQ"
    assert not any(word in attack.got for word in WORDS)
