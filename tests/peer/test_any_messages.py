"""A core that is told anything, in any order, is at a loss for nothing."""

import random

import pytest

from dpeer.peer.core import wire
from tests.peer.table import chunked, ring

FINGERPRINTS = [{}, {"size": [[[1]]]}, {"size": {"a": {}}}, {"size": None}, {"size": float("nan")}]
MANIFESTS = [{"parameters": [1, {}, {"name": [1]}]}, {"parameters": {}}, {"extras": []}, {}]


def message(table, seed):
    """One message, or those of a body; damaged or in disorder now and then."""
    rank, number = seed.choice([1, 2]), seed.randint(0, 6)
    hello = table.hello(rank, number, reply=seed.random() < 0.5)
    makers = [
        lambda: wire.encode(hello),
        lambda: wire.encode(table.beat(rank, number, got=seed.choice([0, 1, 2**22, 2**63]))),
        lambda: wire.encode(table.goodbye(rank, seed.choice(["done", "stopped", "failed"]))),
        lambda: table.body(rank, number, seed.choice([1.0, float("nan")])),
        lambda: wire.encode(wire.Unknown(rank=rank)),
        lambda: wire.encode(table.hello(seed.randint(0, 9), number, fingerprint=seed.choice(FINGERPRINTS))),
        lambda: wire.encode(hello.model_copy(update={"manifest": seed.choice(MANIFESTS)})),
        lambda: wire.encode(hello.model_copy(update={"running": seed.choice([False, True])})),
        lambda: [*wire.ping(rank, seed.randbytes(9)), *[b"filler"] * seed.randint(0, 1)],
    ]
    several = [seed.choice(makers)()]
    if len(several[0]) > 1 and seed.random() < 0.7:
        several = list(chunked(several[0], 64))
    if seed.random() < 0.3:
        seed.shuffle(several)
    for frames in several:
        damaged = [bytearray(frame) for frame in frames]
        if seed.random() < 0.3:
            one = seed.choice(damaged)
            begin = seed.randrange(len(one))
            one[begin : begin + seed.randint(0, 3)] = seed.randbytes(seed.randint(0, 3))
        yield [bytes(frame) for frame in damaged]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 100, 50))
def test_nothing_that_others_say_is_unhandled(first):
    for number in range(first, first + 50):
        seed = random.Random(number)
        table, rounds = ring(), 0
        table.runs(0)
        links = [table.links[1], "from 2", "from a stranger"]
        for _ in range(60):
            what = seed.random()
            if what < 0.8:
                for frames in message(table, seed):
                    table.hear(seed.choice(links), frames)
            elif what < 0.88:
                table.wait(seed.choice([1, 3]))
            elif what < 0.92:
                table.breaks(seed.choice(links))
            elif what < 0.96 and rounds < 4:
                rounds += 1
                table.runs(rounds)
            else:
                for link in links:
                    table.written(link, at_most=seed.randint(0, 5))
        assert not table.core.reports.counts["unhandled"], table.events("message-unhandled")
        assert len(table.core.reassembly) <= len(links)
        assert len(table.inbox) <= 4
