"""One peer's core on a table: no sockets, no clock; the test says what happens and reads what the core wants done."""

import itertools
from pathlib import Path

import numpy as np

from dpeer.peer.config import LivenessConfig, PeerConfig
from dpeer.peer.core import wire
from dpeer.peer.core.bodies import ChunkedBody, Released
from dpeer.peer.core.effects import Close, Deliver, Dial, Fail, LogEvent, Wake
from dpeer.peer.core.protocol import Core
from dpeer.peer.transport import Arrival, Broken, Opened
from dpeer.topology import build

BEAT = LivenessConfig(heartbeat=1.0, suspect_after=5.0, dead_after=15.0, stop_grace=2.0)
FINGERPRINT = {"size": 3, "rounds": 5}
WIDTH = 50
CHUNK = 64


class Bodies:
    """What a core asks of a learner."""

    def __init__(self):
        self.manifest = {"count": WIDTH}
        self.digest = "same"
        self.payload_bytes = 8 * WIDTH
        self.about = self

    def receive_buffer(self):
        return None


class Table:
    """A core, and the messages of others to it.

    Args:
        rank: The peer.
        topology: Its graphs.
        dialled: The ranks that it dials.
        chunk_bytes: The most bytes of a chunk.
        start: The first round.
        config: Other settings.

    Attributes:
        now: Clock time.
        said: What the core has logged.
        ended: What the round loop was given.
        links: By rank, the link that was dialled last.
        closed: The links that were given up.
    """

    def __init__(self, rank=0, topology=None, dialled=(), chunk_bytes=CHUNK, start=0, **config):
        config = {"rounds": 5, "fingerprint": FINGERPRINT, "liveness": BEAT, "listen": None, "out": Path(), **config}
        self.now = 1000.0
        self.said, self.ended, self.closed, self.links = [], [], [], {}
        self.learner = Bodies()
        self._numbers = itertools.count()
        self.core = Core(PeerConfig(rank=rank, **config), self.learner, topology or build("ring", 3), chunk_bytes)
        self.federation = wire.federation_id(config["fingerprint"])
        self.fingerprint = config["fingerprint"]
        self.open(list(dialled), start)

    def open(self, dialled, start):
        """The peer begins."""
        self.do(self.core.open(dialled, start, self.now))

    def do(self, effects):
        """Take note of what the core wants done; it dials at once."""
        for effect in effects:
            match effect:
                case Dial(rank):
                    self.links[rank] = f"to rank {rank}, {next(self._numbers)}"
                    self.do(self.core.dialled(rank, self.links[rank], self.now))
                case Close(link):
                    self.closed.append(link)
                case LogEvent():
                    self.said.append(effect)
                case Deliver() | Wake() | Fail():
                    self.ended.append(effect)

    def established(self, rank):
        """The link to the rank is there."""
        self.do(self.core.happened(Opened(self.links[rank]), self.now))

    def breaks(self, link):
        self.do(self.core.happened(Broken(link), self.now))

    def hear(self, link, *messages, identity=None):
        """Messages come on a link: of `wire`, or frames; with keys, from who has proved to be this rank."""
        for message in messages:
            frames = message if isinstance(message, list | tuple) and not hasattr(message, "kind") else None
            frames = frames or wire.encode(message)
            self.do(self.core.happened(Arrival(link, frames, identity), self.now))

    def wait(self, seconds, meanwhile=lambda: None):
        """Let time pass in steps of a second, and do something after each."""
        for _ in range(round(seconds)):
            self.now += 1
            self.do(self.core.tick(self.now))
            meanwhile()

    def written(self, link, at_most=10_000):
        """What the core writes on a link that takes so many messages."""
        found = []
        while len(found) < at_most and (frames := self.core.outgoing(link)) is not None:
            self.core.taken(link)
            pong = frames[0] == b"\0Q"
            found.append(frames if pong else wire.decode(frames, wire.Limits(payload_bytes=self.learner.payload_bytes)))
        return found

    def kinds(self, link):
        """The kinds of all that the core writes on a link."""
        return [getattr(message, "kind", "chunk") for message in self.written(link)]

    def events(self, name):
        """What was logged under this name."""
        return [said for said in self.said if said.event == name]

    @property
    def inbox(self):
        return self.core.exchange.inbox

    def status(self, rank):
        return self.core.members[rank].status.value

    # -- what others say ---------------------------------------------------------------------------------------

    def hello(self, rank, number=0, *, reply=False, fingerprint=None, released=0, presence=()):
        return wire.Hello(
            rank=rank, next_round=number, reply=reply, fingerprint=fingerprint or self.fingerprint,
            manifest=self.learner.manifest, digest=self.learner.digest, released=released,
            presence=np.asarray(presence, "<i4").tobytes(),
        )  # fmt: skip

    def beat(self, rank, number, presence=(), *, paused=False, got=0, enters=0):
        """A heartbeat; `presence` has the rounds that each rank has completed, as the sender knows; -1: absent."""
        table = np.asarray(presence, "<i4").tobytes()
        return wire.Heartbeat(
            rank=rank, federation=self.federation, round=number, presence=table, paused=paused, got=got,
            enters=enters,
        )  # fmt: skip

    def goodbye(self, rank, reason):
        return wire.Goodbye(rank=rank, federation=self.federation, reason=reason)

    def body(self, rank, number, value=1.0):
        """A body in one message."""
        return encoded(self.federation, rank, number, [payload(value, self.learner)])

    def releases(self, number, value=None):
        """The round loop releases the body of a round."""
        body = Released.of([payload(number if value is None else value, self.learner)])
        self.do(self.core.release(number, body, self.now))

    def runs(self, number):
        """The round loop begins a round and releases its body; what it waits for is collected."""
        self.do(self.core.begin(number, self.now))
        self.releases(number)
        self.do(self.core.wait("collect", number, self.now))


def encoded(federation, rank, number, buffers, presence=b"", uses=b"0"):
    """A body with its digest, in one message; by default of a round that was begun with list 0."""
    digest = wire.digest_of(buffers)
    return wire.encode(wire.body(federation, rank, number, buffers, digest, presence, b"", uses))


def chunked(frames, chunk_bytes):
    """All messages of a body: one, or a header and chunks if its buffers have more than `chunk_bytes` bytes."""
    body = ChunkedBody(frames)
    while not body.over:
        yield body.next(chunk_bytes)


def payload(value, learner):
    """A body's bytes."""
    return np.full(learner.payload_bytes // 8, value, np.float64).tobytes()


def ring(**options):
    """Rank 0 of a ring of three, which dials 1 and is dialled by 2; both have shaken hands."""
    table = Table(dialled=[1], **options)
    table.established(1)
    table.hear(table.links[1], table.hello(1, reply=True))
    table.hear("from 2", table.hello(2))
    assert [table.status(rank) for rank in (1, 2)] == ["alive", "alive"]
    for link in (table.links[1], "from 2"):
        table.written(link)
    return table
