"""Plans of faults: printed, drawn and injected."""

import asyncio
import math
import random

from dpeer.simulation.network import FaultyNetwork
from dpeer.simulation.virtual_time import Process, VirtualLoop
from tests.world.faults import KINDS, Director, Fault, draw


def test_a_plan_survives_being_printed():
    plan = draw(random.Random(7), 6, 20.0, 200)
    assert {fault.what for fault in plan} == set(KINDS)
    assert any(fault.seconds == math.inf for fault in plan)
    plan.append(Fault("slow", (2,), 1.5, 2.0, times=3.0, round=4))
    assert eval(repr(plan), {"Fault": Fault, "inf": math.inf}) == plan


def test_drawing_follows_the_seed_and_the_limits():
    plan = draw(random.Random(3), 4, 9.0, 50, ("cut", "slow"))
    assert plan == draw(random.Random(3), 4, 9.0, 50, ("cut", "slow"))
    assert {fault.what for fault in plan} == {"cut", "slow"}
    assert all(0 <= fault.at <= 9 and max(fault.ranks) < 4 for fault in plan)


class Stage:
    """Records the faults."""

    def __init__(self, size):
        self.size = size
        self.network = FaultyNetwork(random.Random(0))
        self.processes = [Process() for _ in range(size)]
        self.happened = []

    def process(self, rank):
        return self.processes[rank]

    def stop(self, rank):
        self._note("stop", rank)

    def kill(self, rank, *, notice):
        self._note("crash" if notice else "power", rank)

    def restart(self, rank):
        self._note("restart", rank)

    def _note(self, what, rank):
        self.happened.append((round(asyncio.get_running_loop().time(), 6), what, rank))


def test_faults_happen_in_their_time():
    async def main():
        stage = Stage(4)
        director = Director(
            stage,
            [
                Fault("freeze", (1,), 2.0, 3.0),
                Fault("slow", (1, 2), 2.0, 3.0, times=4.0),
                Fault("part", (0, 3), 2.0, 3.0),
                Fault("stall", (1, 2), 2.0, 3.0),
                Fault("power", (2,), 6.0, math.inf),
                Fault("crash", (3,), 7.0, 1.5),
                Fault("stop", (0,), 0.5, 1.0, round=2),
            ],
        )
        director.start()
        await asyncio.sleep(4)
        assert [process.frozen for process in stage.processes] == [False, True, False, False]
        assert [process.slowness for process in stage.processes] == [1, 4, 4, 1]
        held = [(a, b) for a in range(4) for b in range(4) if stage.network.held(a, b)]
        assert held == [(0, 1), (0, 2), (1, 0), (1, 2), (1, 3), (2, 0), (2, 3), (3, 1), (3, 2)]
        await asyncio.sleep(6)
        assert [process.frozen for process in stage.processes] == [False] * 4
        assert [process.slowness for process in stage.processes] == [1] * 4
        assert not any(stage.network.held(a, b) for a in range(4) for b in range(4))
        director.begun(0, 1)
        director.begun(1, 2)
        director.begun(0, 2)
        director.begun(0, 2)
        await asyncio.sleep(5)
        return stage.happened

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(main()) == [
            (6.0, "power", 2), (7.0, "crash", 3), (8.5, "restart", 3), (10.5, "stop", 0), (11.5, "restart", 0),
        ]  # fmt: skip
