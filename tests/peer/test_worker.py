"""The threads of a peer: jobs, and work in waiting times."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dpeer.peer import Worker
from dpeer.peer.worker import BackgroundRunner


@pytest.fixture
def threads():
    """A thread for tensors, and one for the disk."""
    with ThreadPoolExecutor(1) as tensors, ThreadPoolExecutor(1) as disk:
        yield tensors, disk


async def test_writing_goes_on_beside_the_work_of_another_peer(threads):
    training, written = threading.Event(), threading.Event()

    def train():
        training.set()
        return written.wait(20)

    work = asyncio.create_task(Worker(*threads).run(train))
    assert await asyncio.to_thread(training.wait, 20)
    await Worker(*threads).write(written.set)
    assert await work


async def test_without_a_thread_for_the_disk_all_is_done_by_one(threads):
    worker = Worker(threads[0])
    assert await worker.run(threading.get_ident) == await worker.write(threading.get_ident)


@pytest.mark.parametrize("alike", [True, False])
async def test_a_job_that_may_runs_on_the_event_loop_where_that_computes_the_same(threads, alike):
    worker = Worker(*threads, alike=alike)
    own, other = threading.get_ident(), await worker.run(threading.get_ident)
    assert own != other
    assert await worker.run_at_once(threading.get_ident) == (own if alike else other)


async def test_the_error_of_a_job_on_the_event_loop_is_raised(threads):
    with pytest.raises(ZeroDivisionError):
        await Worker(*threads, alike=True).run_at_once(lambda: 1 / 0)


async def cancelled_write(threads):
    """A worker, its write that was cancelled while the job runs, and the event after which the job fails."""
    begun, go = threading.Event(), threading.Event()

    def save():
        begun.set()
        assert go.wait(20)
        raise OSError("disk full")

    worker = Worker(*threads)
    writing = asyncio.create_task(worker.write(save))
    assert await asyncio.to_thread(begun.wait, 20)
    writing.cancel()
    return worker, writing, go


async def test_a_job_that_a_cancelled_write_leaves_behind_is_waited_for(threads):
    worker, _, go = await cancelled_write(threads)
    go.set()
    assert isinstance(await worker.drain(), OSError)


async def test_a_cancelled_wait_for_such_a_job_leaves_it_to_the_next_one(threads):
    """Of peers in one process each ends where one fails, also while it ends already."""
    wrong = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: wrong.append(context["message"]))
    worker, writing, go = await cancelled_write(threads)
    draining = asyncio.create_task(worker.drain())
    await asyncio.sleep(0)
    draining.cancel()
    await asyncio.gather(writing, draining, return_exceptions=True)
    go.set()
    assert isinstance(await worker.drain(), OSError)
    assert not wrong


class Counting:
    """Work in small parts, on the worker."""

    def __init__(self, most=10**9):
        self.made, self.most, self.calls = 0, most, 0
        self.begun, self.threads = threading.Event(), set()

    @property
    def left(self):
        return self.made < self.most

    def work(self, enough):
        self.calls += 1
        self.threads.add(threading.get_ident())
        self.begun.set()
        while self.left:
            self.made += 1
            if enough():
                return


async def during(threads, work, result):
    """Await the result as soon as the work has begun, and work meanwhile."""

    async def wait():
        if work is not None:
            await asyncio.to_thread(work.begun.wait)
        if isinstance(result, Exception):
            raise result
        return result

    return await asyncio.wait_for(BackgroundRunner(Worker(*threads), work).during(wait()), 20)


async def test_it_works_until_the_awaited_result_is_there(threads):
    work = Counting()
    assert await during(threads, work, "here") == "here"
    assert work.made > 0
    assert work.threads == {await Worker(*threads).run(threading.get_ident)}


async def test_a_result_that_is_there_at_once_is_not_held_up(threads):
    async def ready():
        return 3

    work = Counting()
    assert await BackgroundRunner(Worker(*threads), work).during(ready()) == 3
    assert work.calls == 0
    assert await during(threads, None, 3) == 3


async def test_when_no_work_is_left_it_only_waits(threads):
    work = Counting(most=5)
    assert await during(threads, work, "here") == "here"
    assert work.made == 5


async def test_a_failure_of_the_awaited_is_raised_and_the_work_ends(threads):
    work = Counting()
    with pytest.raises(LookupError):
        await during(threads, work, LookupError("lost"))
    made = work.made
    assert await Worker(*threads).run(lambda: work.made) == made


async def test_cancelled_it_ends_both(threads):
    work, ended, worker = Counting(), [], Worker(*threads)

    async def wait():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    waiting = asyncio.create_task(BackgroundRunner(worker, work).during(wait()))
    await asyncio.to_thread(work.begun.wait)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended == [True]
    assert await worker.drain() is None, "the part that had begun is over soon"
