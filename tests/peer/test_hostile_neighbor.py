"""A neighbor that takes part rightly, and sends thousands of useless messages beside: none has an effect."""

import random
import tracemalloc

import msgpack
import numpy as np

from dpeer.exceptions import ProtocolError
from dpeer.peer.core import wire
from tests.peer.table import CHUNK, chunked, ring

ROUNDS, HOSTILE = 4, 2
BOMB = msgpack.packb({"kind": "hello", "rank": HOSTILE, "manifest": [[]] * 2**19})
"""A header of half a megabyte that would become half a million lists."""


class Hostile:
    """Makes rank 2's useless messages; `expected` is how many of those so far must be counted as dropped."""

    def __init__(self, table):
        self.table, self.limits = table, wire.Limits(payload_bytes=table.learner.payload_bytes)
        self.random, self.expected, self.pending = random.Random(7), 0, False

    def body(self, number):
        """The honest body; chunks that were announced before do not come."""
        self.expected += self.pending
        self.pending = False
        return chunked(self.table.body(HOSTILE, number, number + 0.5), CHUNK)

    def useless(self, number):
        """One message, or some that belong together."""
        kinds = [self.damaged, self.stray, self.foreign, self.dear, self.replayed, self.disordered, self.infinite]
        several, dropped = self.random.choices(kinds, [600, 100, 200, 1, 100, 5, 1])[0](number)
        self.expected += dropped
        return several

    def damaged(self, number):
        table = self.table
        sound = [wire.encode(table.beat(HOSTILE, number)), wire.encode(table.hello(HOSTILE)), table.body(2, number)]
        while True:
            frames = [bytearray(frame) for frame in self.random.choice(sound)]
            for _ in range(self.random.randint(1, 4)):
                if frame := self.random.choice(frames):
                    begin = self.random.randrange(len(frame))
                    frame[begin : begin + self.random.randint(0, 3)] = self.random.randbytes(self.random.randint(0, 3))
            frames = [bytes(frame) for frame in frames]
            try:
                wire.decode(frames, self.limits)
            except ProtocolError:
                return [frames], 1

    def stray(self, number):
        return [wire.chunk(self.random.randbytes(8), self.random.getrandbits(60), b"x")], 1

    def foreign(self, number):
        """Of another rank, another federation, a round that does not exist."""
        fields = {"rank": HOSTILE, "federation": self.table.federation, "round": number}
        wrong = [{"rank": 0}, {"federation": b"other"}, {"round": ROUNDS + 1}, {"round": 2**52}]
        return [wire.encode(wire.Heartbeat(**{**fields, **self.random.choice(wrong)}))], 1

    def dear(self, number):
        """A header that takes long to unpack, or a hello with other settings."""
        return [self.random.choice([wire.encode(self.table.hello(HOSTILE, fingerprint={"size": 5})), [BOMB]])], 1

    def replayed(self, number):
        """An earlier heartbeat, which does no harm and is not counted."""
        return [wire.encode(self.table.beat(HOSTILE, number))], 0

    def disordered(self, number):
        """A second body of the round: its second chunk, its first one, and that again."""
        header, first, second, *_ = chunked(self.table.body(HOSTILE, number, float(number)), CHUNK)
        self.pending = True
        return [header, second, first, first], 3

    def infinite(self, number):
        """A second body of the round, of values that are not finite."""
        interrupted, self.pending = self.pending, False
        value = self.random.choice([np.nan, np.inf, -np.inf])
        return list(chunked(self.table.body(HOSTILE, number, value), CHUNK)), 1 + interrupted


def test_a_neighbor_that_sends_many_useless_messages_changes_nothing():
    """Its bodies, which come in time, are mixed; all else is counted, and takes no memory and few lines of the log."""
    table = ring(rounds=ROUNDS)
    hostile = Hostile(table)
    tracemalloc.start()
    for number in range(ROUNDS):
        table.hear("from 2", *hostile.body(number))
        for _ in range(500):
            table.hear("from 2", *hostile.useless(number))
        table.runs(number)
        table.hear(table.links[1], table.body(1, number))
        bodies = table.ended.pop().bodies
        assert [np.frombuffer(b"".join(bodies[rank].payload))[0] for rank in (1, 2)] == [1.0, number + 0.5]
        table.do(table.core.wait("settle", number, table.now))
        table.written(table.links[1])
        table.written("from 2")
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    dropped = table.core.reports.counts + table.inbox.dropped
    assert dropped.total() == hostile.expected, dropped
    assert not dropped["unhandled"]
    assert len(table.said) < 500
    assert table.core.members.lost == {}
    assert size < 5_000_000
