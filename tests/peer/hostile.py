"""Rank 3 of a ring of four, as a program: it takes part rightly, and sends each neighbor much of no use beside.

    python -m tests.peer.hostile < what.json

`what.json` has the neighbors' addresses ("addresses"), the hello ("hello"), and how many messages of no use each gets
("junk"). Prints how many it has sent to each, and how many of those have to be counted as dropped.
"""

import asyncio
import json
import random
import sys
from collections import deque

import msgpack
import numpy as np

from dpeer.exceptions import ProtocolError
from dpeer.peer import ZeroMQTransport
from dpeer.peer.core import wire
from dpeer.peer.core.chunking import chunked
from dpeer.peer.transport import Arrival, Broken, Opened, Sent, Writable

ROUNDS = 4
WIDTH = 20_000
CHUNK = 2**16
HOSTILE = 3
LIMITS = wire.Limits(payload_bytes=8 * WIDTH)
BOMB = msgpack.packb({"kind": "hello", "rank": HOSTILE, "manifest": [[]] * 2**19})
"""A header of half a megabyte that would become half a million lists."""


class Hostile:
    """Speaks for rank 3 to one honest neighbor: its bodies in time, and before each of them what is of no use.

    Args:
        transport: Its own.
        hello: What it says of itself, as it has to be.
        junk: How many messages beside.

    Attributes:
        expected: How many messages must be counted as dropped.
        sent: How many messages were sent beside the honest ones.
    """

    def __init__(self, transport, hello, junk):
        self.transport, self.hello, self.junk = transport, hello, junk
        self.federation = wire.federation_id(hello.fingerprint)
        self.random = random.Random(7)
        self.expected = self.sent = 0
        self._room, self._left = asyncio.Event(), asyncio.Event()
        self._pending = False
        self._old = deque(maxlen=200)

    async def run(self, address):
        """Until the last round is over."""
        self.link = self.transport.dial(address)
        self._bodies = asyncio.Queue()
        reading = asyncio.create_task(self._read())
        assert await self._bodies.get() == "open"
        await self._put(wire.encode(self.hello))
        await self._body(0)
        for number in range(ROUNDS):
            while await self._bodies.get() != number:
                pass
            for _ in range(self.junk // ROUNDS):
                for frames in self._useless(number):
                    await self._put(frames)
            if number + 1 < ROUNDS:
                await self._body(number + 1)
        await self._put(wire.encode(wire.Heartbeat(rank=HOSTILE, federation=self.federation, round=ROUNDS)))
        # The neighbor leaves when it has read this, and so all before. To close a connection on which something waits
        # to be read takes back what is under way, and the neighbor would wait until it takes this peer for dead.
        await self._left.wait()
        return reading

    async def _read(self):
        while True:
            event = await self.transport.receive()
            match event:
                case Opened():
                    self._bodies.put_nowait("open")
                case Writable():
                    self._room.set()
                case Broken():
                    self._left.set()
                case Arrival(_, frames):
                    self._old.append([bytes(frame) for frame in frames])
                    message = wire.decode(frames, LIMITS)
                    if isinstance(message, wire.Body):
                        self._bodies.put_nowait(message.round)
                    if isinstance(message, wire.Goodbye):
                        self._left.set()

    async def _put(self, frames):
        while self.transport.send(self.link, frames) is not Sent.TAKEN:
            self._room.clear()
            await self._room.wait()

    async def _body(self, number):
        self.expected += self._pending  # what was announced before does not come
        self._pending = False
        for frames in chunked(self._encoded(number, number + 0.5), CHUNK):
            await self._put(frames)

    def _encoded(self, number, value):
        return wire.encode(wire.body(self.federation, HOSTILE, number, [np.full(WIDTH, value).tobytes()]))

    # -- what is of no use -------------------------------------------------------------------------------------

    def _useless(self, number):
        """One message, or some that belong together."""
        kind = self.random.choices(
            [self._damaged, self._stray, self._foreign, self._dear, self._replayed, self._disordered, self._infinite],
            [600, 100, 200, 1, 100, 5, 1],
        )[0]
        several, dropped = kind(number)
        self.sent += len(several)
        self.expected += dropped
        return several

    def _damaged(self, number):
        """A message of its own or of its neighbor, damaged so that it cannot be decoded any more."""
        while True:
            frames = [bytearray(frame) for frame in self.random.choice(self._sound(number))]
            for _ in range(self.random.randint(1, 4)):
                frame = self.random.choice(frames)
                if frame:
                    begin = self.random.randrange(len(frame))
                    frame[begin : begin + self.random.randint(0, 3)] = self.random.randbytes(self.random.randint(0, 3))
            frames = [bytes(frame) for frame in frames]
            try:
                wire.decode(frames, LIMITS)
            except ProtocolError:
                return [frames], 1

    def _sound(self, number):
        beat = wire.Heartbeat(rank=HOSTILE, federation=self.federation, round=number)
        body = wire.body(self.federation, HOSTILE, number, [bytes(80), bytes(8)])
        small = [one for one in self._old if wire.size(one) < 5000]
        return [wire.encode(beat), wire.encode(body), wire.encode(self.hello), *small]

    def _stray(self, number):
        """A piece of nothing that was announced."""
        return [wire.chunk(self.random.randbytes(8), self.random.getrandbits(60), [b"x"])], 1

    def _foreign(self, number):
        """Of another rank, another federation, a round that does not exist."""
        fields = {"rank": HOSTILE, "federation": self.federation, "round": number}
        wrong = [{"rank": 0}, {"federation": b"other"}, {"round": ROUNDS + 1}, {"round": 2**52}]
        return [wire.encode(wire.Heartbeat(**{**fields, **self.random.choice(wrong)}))], 1

    def _dear(self, number):
        """A header that takes long to unpack, or a hello with other settings."""
        other = self.hello.model_copy(update={"fingerprint": {"size": 5}})
        return [self.random.choice([wire.encode(other), [BOMB]])], 1

    def _replayed(self, number):
        """A heartbeat as it has sent it before: that is no harm, and nothing to count."""
        return [wire.encode(wire.Heartbeat(rank=HOSTILE, federation=self.federation, round=number))], 0

    def _disordered(self, number):
        """A body that was sent already, whose pieces come in disorder: the second, the first, the first again."""
        header, first, second, *_ = list(chunked(self._encoded(number, float(number)), CHUNK))
        interrupted, self._pending = self._pending, True
        return [header, second, first, first], 2 + interrupted

    def _infinite(self, number):
        """A second body of the round, of values that are not finite, in one piece or in several."""
        interrupted, self._pending = self._pending, False
        value = self.random.choice([np.nan, np.inf, -np.inf])
        return list(chunked(self._encoded(number, value), CHUNK)), 1 + interrupted


async def main():
    """Speak to all neighbors, to the end of the last round."""
    what = json.load(sys.stdin)
    hello = wire.Hello(rank=HOSTILE, next_round=0, **what["hello"])
    transports = [ZeroMQTransport(LIMITS) for _ in what["addresses"]]
    several = [Hostile(transport, hello, what["junk"]) for transport in transports]
    addressed = zip(several, what["addresses"], strict=True)
    reading = await asyncio.gather(*(one.run(address) for one, address in addressed))
    for task, transport in zip(reading, transports, strict=True):
        task.cancel()
        await transport.close(60)
    print(json.dumps([{"sent": one.sent, "expected": one.expected} for one in several]))


if __name__ == "__main__":
    asyncio.run(main())
