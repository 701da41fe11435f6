"""Virtual time: the clock jumps from timer to timer, and stands still for jobs."""

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dpeer.simulation.virtual_time import Process, VirtualLoop, VirtualWorker


def virtually(main):
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


class Costing:
    def __init__(self, before=0.0, after=0.0):
        self.seconds = before, after

    def before(self, job):
        return self.seconds[0]

    def after(self, job):
        return self.seconds[1]


def test_timers_go_off_late_on_the_clock():
    async def main():
        for seconds in (3e7, 0.01, 3e9, 0.01):  # there 1e-9 seconds are lost in rounding
            await asyncio.sleep(seconds)
        return asyncio.get_running_loop().time()

    assert virtually(main()) == pytest.approx(3.03e9)


def test_timers_go_off_in_order_and_at_their_time():
    async def main():
        loop, heard = asyncio.get_running_loop(), []

        async def later(seconds):
            await asyncio.sleep(seconds)
            heard.append(loop.time())

        await asyncio.gather(*(later(seconds) for seconds in (0.3, 0.1, 7.0, 0.2)))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 5)
        return [*heard, loop.time()]

    assert virtually(main()) == pytest.approx([0.1, 0.2, 0.3, 7.0, 12.0])


def test_a_frozen_process_does_nothing_and_then_all_due_callbacks():
    async def main():
        loop, heard, process = asyncio.get_running_loop(), [], Process()

        async def tick():
            for _ in range(4):
                await asyncio.sleep(1)
                heard.append(loop.time())

        ticking = process.start(tick())
        await asyncio.sleep(1.5)
        process.freeze()
        process.freeze()
        await asyncio.sleep(10)
        process.thaw()
        await asyncio.sleep(1)
        assert heard == pytest.approx([1.0])
        process.thaw()
        await ticking
        return heard

    # What slept goes on at the thaw, and sleeps from then on as usual.
    assert virtually(main()) == pytest.approx([1.0, 12.5, 13.5, 14.5])


@pytest.mark.parametrize("pooled", [False, True])
def test_a_job_has_its_effect_in_its_time(pooled):
    async def main():
        loop, process, effects = asyncio.get_running_loop(), Process(), []
        with ThreadPoolExecutor(1) as pool:
            worker = VirtualWorker(process, Costing(2, 3), pool if pooled else None)
            process.slowness = 10
            assert await worker.run(_say, effects, "done") == "done"
            assert loop.time() == pytest.approx(50)
            with pytest.raises(FileExistsError):
                await worker.write(_fail)
            assert loop.time() == pytest.approx(100)
            return effects

    assert virtually(main()) == ["done"]


def _say(effects, word):
    effects.append(word)
    return word


def _fail():
    raise FileExistsError


@pytest.mark.parametrize("pooled", [False, True])
def test_a_job_of_a_killed_process_has_no_effect(pooled):
    async def main():
        process, effects = Process(), []
        with ThreadPoolExecutor(1) as pool:
            worker = VirtualWorker(process, Costing(2), pool if pooled else None)
            working = process.start(worker.run(effects.append, "done"))
            await asyncio.sleep(1)
            process.dead = True
            with pytest.raises(asyncio.CancelledError):
                await working
        return effects

    assert virtually(main()) == []


def test_a_cancelled_job_is_waited_for():
    async def main():
        loop, process = asyncio.get_running_loop(), Process()
        worker = VirtualWorker(process, Costing(4, 2))
        working = process.start(worker.write(_fail))
        await asyncio.sleep(1)
        working.cancel()
        assert isinstance(await worker.drain(), OSError)
        return loop.time()

    assert virtually(main()) == pytest.approx(6)


def test_jobs_of_the_same_time_run_beside_each_other_and_go_on_in_order():
    async def main():
        together, heard = threading.Barrier(3), []

        async def work(number, seconds):
            await VirtualWorker(Process(), Costing(seconds), pool).run(together.wait)
            heard.append((number, asyncio.get_running_loop().time()))

        with ThreadPoolExecutor(3) as pool:
            await asyncio.gather(*(work(number, 2) for number in range(3)))
        return heard

    # The barrier opens only if all three run at once, and no clock runs on meanwhile.
    assert virtually(main()) == [(number, pytest.approx(2)) for number in range(3)]


def test_a_signal_is_answered_while_the_clock_stands_still_for_a_job():
    async def main():
        released = threading.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, released.set)

        def job():
            os.kill(os.getpid(), signal.SIGUSR1)
            return released.wait(60)

        with ThreadPoolExecutor(1) as pool:
            return await VirtualWorker(Process(), Costing(1), pool).run(job)

    assert virtually(main()) is True
