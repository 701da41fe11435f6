"""A learner whose bodies name rank, round and incarnation, and that checks every body before it is mixed."""

import struct
from dataclasses import dataclass, field

from dpeer.exceptions import Interrupted
from tests.world import restores, returns
from tests.world.disk import STATED

_BODY = struct.Struct("<qqqdd")


@dataclass
class Found:
    accuracy: float | None = None
    test_loss: float | None = None
    metrics: dict = field(default_factory=dict)
    training_accuracy: float | None = None
    auroc: float | None = None


STEPS = 10
"""Minibatches of a round without a budget."""


def trained(body, rank, number, steps=STEPS):
    """A round's training, of so many steps."""
    whole = tuple(0.9 * value + rank + 1 + 0.1 * number * (index + 1) for index, value in enumerate(body))
    if steps == STEPS:
        return whole
    return tuple(value + steps / STEPS * (end - value) for value, end in zip(body, whole, strict=True))


def mixed(bodies, row):
    """The weighted sum, in rank order."""
    total = (0.0, 0.0)
    for rank in sorted(row):
        total = tuple(sum_ + row[rank] * value for sum_, value in zip(total, bodies[rank], strict=True))
    return total


class WorldLearner:
    """The body is two numbers; the payload names rank, round and incarnation, too."""

    about = figures = property(lambda self: self)
    best_round = None
    kept_point = "mixed"
    finite = True
    disagreement = privacy = None
    digest = "same"
    gradients = 0
    payload_bytes = _BODY.size
    manifest = {"parameters": [{"name": "w", "shape": [2], "offset": 0}]}  # noqa: RUF012

    def __init__(self, world, life):
        self._world, self._life = world, life
        self.rank = life.rank
        self.body = (0.0, 0.0)
        self.next = 0
        self.steps, self.steps_asked = [], []
        self._stop = False

    # -- state ----

    def state(self):
        return {"body": self.body, "next": self.next}

    def take(self, state):
        self.body, self.next = state["body"], state["next"]

    # -- a round ----

    def train(self, number, *, share=1.0):
        if self._stop:
            raise Interrupted("between two minibatches")
        self._world.begins(self._life, number, self.next, trains=True)
        whole = self._world.times.uniform(0.6, 1.4) * self._world.scenario.pace
        steps = max(1, int(STEPS * share + 1e-9))
        self._life.costs.owe(whole * steps / STEPS)
        self.steps, self.steps_asked = [steps], [STEPS]
        self._base = self.body
        self.body = trained(self.body, self.rank, number, steps)
        return float(self.body[0])

    def release(self, number, receivers=()):
        incarnation = self._life.incarnation
        payload = _BODY.pack(self.rank, number, incarnation, *self.body)
        self._world.disks[self.rank].ledger.append((number, incarnation))
        self._world.releases(self._life, number, payload, self._base, self.body)
        returns.releases(self._world, self._life, number, self.body)
        restores.releases(self._world, self._life, number)
        self._own = self.body
        self.releasing = number
        self._world.exchanged.add((self._life, number))
        return [memoryview(payload)]

    def charge_stated(self, rounds):
        disk = self._world.disks[self.rank]
        charged = {number for number, _ in disk.ledger}
        disk.ledger += [(number, STATED) for number in rounds if number not in charged]

    def evaluate(self):
        return Found()

    def mix_sound(self, received, weigh):
        bodies = {self.rank: self._own}
        for rank, payload in received.items():
            raw = b"".join(bytes(part) for part in payload)
            self._world.mixes(self._life, self.releasing, rank, raw, _BODY.unpack(raw)[:3])
            bodies[rank] = _BODY.unpack(raw)[3:]
        row = dict(weigh(received))
        self._world.weighs(self._life, self.releasing, row)
        self._world.check(row.keys() == bodies.keys(), f"rank {self.rank} mixes {row} of {sorted(bodies)}")
        self._world.check(abs(sum(row.values()) - 1) < 1e-12, f"rank {self.rank}'s row {row} does not sum to one")
        self.body = mixed(bodies, row)
        self._world.mixed(self._life, self.releasing, sorted(received))
        self.next = self.releasing + 1
        return {}

    def sit_out(self, number):
        self._world.begins(self._life, number, self.next, trains=False)
        self._life.costs.owe(0.001)
        self._world.sits_out(self._life, number)
        self._own, self.releasing = self.body, number
        self.steps, self.steps_asked = [], []
        self.next = number + 1

    def adopt(self, number, received, weigh):
        bodies = {}
        for rank, payload in received.items():
            raw = b"".join(bytes(part) for part in payload)
            self._world.mixes(self._life, number, rank, raw, _BODY.unpack(raw)[:3])
            bodies[rank] = _BODY.unpack(raw)[3:]
        row = weigh(received)
        self._world.check(row.keys() == bodies.keys(), f"rank {self.rank} adopts {row} of {sorted(bodies)}")
        self._world.check(abs(sum(row.values()) - 1) < 1e-12, f"rank {self.rank}'s row {row} does not sum to one")
        self.body = self._own = mixed(bodies, row)
        self._world.adopts(self._life, number, sorted(received))
        return {}

    def recorded(self, line):
        """The line of a round is made."""
        self._world.records(self._life, line)

    def fine_tune(self, number):
        return None

    def interrupt(self):
        self._stop = True

    def receive_buffer(self):
        return memoryview(bytearray(self.payload_bytes))

    def card(self):
        return {}
