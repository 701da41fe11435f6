"""The threads of a peer: jobs, and work in waiting times."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from dpeer.peer import Worker
from dpeer.peer.worker import BackgroundRunner


async def test_writing_goes_on_beside_the_work_of_another_peer() -> None:
    training, written = threading.Event(), threading.Event()

    def train() -> bool:
        training.set()
        return written.wait(20)

    with ThreadPoolExecutor(1) as tensors, ThreadPoolExecutor(1) as disk:
        work = asyncio.create_task(Worker(tensors, disk).run(train))
        assert await asyncio.to_thread(training.wait, 20)
        await Worker(tensors, disk).write(written.set)
        assert await work


async def test_without_a_thread_for_the_disk_all_is_done_by_one() -> None:
    with ThreadPoolExecutor(1) as executor:
        worker = Worker(executor)
        assert await worker.run(threading.get_ident) == await worker.write(threading.get_ident)


async def test_what_a_cancelled_write_leaves_behind_is_waited_for() -> None:
    begun, go = threading.Event(), threading.Event()

    def save() -> None:
        begun.set()
        assert go.wait(20)
        raise OSError("disk full")

    with ThreadPoolExecutor(1) as tensors, ThreadPoolExecutor(1) as disk:
        worker = Worker(tensors, disk)
        writing = asyncio.create_task(worker.write(save))
        assert await asyncio.to_thread(begun.wait, 20)
        writing.cancel()
        go.set()
        assert isinstance(await worker.drain(), OSError)


class Counting:
    """Work in small parts, on the worker."""

    def __init__(self, most: int = 10**9) -> None:
        self.made, self.most, self.calls = 0, most, 0
        self.begun = threading.Event()
        self.threads: set[int] = set()

    @property
    def left(self) -> bool:
        return self.made < self.most

    def work(self, enough: Callable[[], bool]) -> None:
        self.calls += 1
        self.threads.add(threading.get_ident())
        self.begun.set()
        while self.left:
            self.made += 1
            if enough():
                return


@pytest.fixture
def worker() -> Iterator[Worker]:
    with ThreadPoolExecutor(1) as executor:
        yield Worker(executor)


async def test_it_works_until_what_is_awaited_is_there(worker: Worker) -> None:
    work = Counting()

    async def wait() -> str:
        await asyncio.to_thread(work.begun.wait)
        return "here"

    assert await asyncio.wait_for(BackgroundRunner(worker, work).during(wait()), 20) == "here"
    assert work.made > 0
    assert work.threads == {await worker.run(threading.get_ident)}


async def test_what_is_there_at_once_is_not_held_up(worker: Worker) -> None:
    work = Counting()

    async def ready() -> int:
        return 3

    assert await BackgroundRunner(worker, work).during(ready()) == 3
    assert await BackgroundRunner(worker, None).during(ready()) == 3
    assert work.calls == 0


async def test_when_nothing_is_left_it_only_waits(worker: Worker) -> None:
    work = Counting(most=5)

    async def wait() -> None:
        while work.left:
            await asyncio.to_thread(work.begun.wait)
        await asyncio.sleep(0)

    await BackgroundRunner(worker, work).during(wait())
    assert work.made == 5


async def test_a_failure_of_what_is_awaited_is_raised_and_the_work_ends(worker: Worker) -> None:
    work = Counting()

    async def fail() -> None:
        await asyncio.to_thread(work.begun.wait)
        raise LookupError("lost")

    with pytest.raises(LookupError):
        await BackgroundRunner(worker, work).during(fail())
    made = work.made
    assert await worker.run(lambda: work.made) == made


async def test_cancelled_it_ends_both(worker: Worker) -> None:
    work, ended = Counting(), []

    async def wait() -> None:
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
