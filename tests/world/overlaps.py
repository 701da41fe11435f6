"""Schedules of overlapped rounds: bodies travel while the next round trains, through faults and returns."""

import random
from dataclasses import replace

from tests.world import returns
from tests.world.learner import WorldLearner, mixed, trained
from tests.world.scenario import Scenario, generate

OVERLAPS = 120
"""The number of schedules, from seed 0 on, in the test suite."""

SHARE = 0.5
"""The share of a late difference that is mixed in."""


def generate_overlaps(seed: int) -> Scenario:
    """The scenario of a seed: one of the families `faults` and `returns`, in which all peers take part."""
    rng = random.Random(f"overlaps {seed}")
    found = rng.choice((generate, returns.generate_returns))(rng.randrange(10**6))
    topology = "full" if found.topology == "server" else found.topology
    return replace(found, topology=topology, participation=1.0, budgets=(), overlap=True)


class OverlappedLearner(WorldLearner):
    """Releases of the round that is exchanged, and of the one that trains: the first are mixed, by half."""

    def __init__(self, world, life):
        super().__init__(world, life)
        self._held = self._before = self._waits = None
        self._ahead, self.releasing = False, -1

    def state(self):
        return {**super().state(), "held": self._held}

    def take(self, state):
        super().take(state)
        self._held = state["held"]
        if self._held is not None:
            self._own = self._held[2]

    def held(self, number):
        if self._held is None or self._held[0] != number:
            return None
        self._world.begins(self._life, number, self.next, trains=True)
        self._exchange(number)
        return self._waits or [memoryview(self._held[1])]

    def _begins(self, number):
        if number == self.next:  # the next one begins when it is exchanged
            super()._begins(number)

    def release(self, number):
        before = self._held
        self._ahead = before is not None and before[0] == number - 1 == self.releasing
        self._waits = super().release(number)
        if self._ahead:
            self._before = before[2]
        self._held = number, bytes(self._waits[0]), self.body
        return self._waits

    def _exchange(self, number):
        if not self._ahead or number == self._held[0]:
            super()._exchange(number)

    def _mix(self, bodies, row):
        """The own release of the next round, and half of the late difference."""
        if self._before is None:
            self._held = None
            return super()._mix(bodies, row)
        late = {**bodies, self.rank: self._before}
        self._before = None
        total = super()._mix(late, row)
        return tuple(
            value + SHARE * (mix - own) for value, mix, own in zip(self._own, total, late[self.rank], strict=True)
        )

    def _discard(self):
        self._held = self._before = self._waits = None


def reference(graphs, rounds):
    """The bodies after a run without faults, by rank: z(t) = b(t) + training, b(t+1) = z(t) + 1/2 (W - I) z(t-1)."""
    ranks = range(graphs.size)
    z = [trained((0.0, 0.0), rank, 0) for rank in ranks]
    bodies = z
    for number in range(rounds):
        exchanged, last = z, number == rounds - 1
        if not last:
            z = [trained(bodies[rank], rank, number + 1) for rank in ranks]
        mixes = []
        for rank in ranks:
            mix = mixed(dict(enumerate(exchanged)), graphs.at(number, rank).row)
            late = zip(z[rank], mix, exchanged[rank], strict=True)
            mixes.append(mix if last else tuple(value + SHARE * (sum_ - own) for value, sum_, own in late))
        bodies = mixes
    return bodies
