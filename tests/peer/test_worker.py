"""The threads of a peer: jobs, and work in waiting times."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dpeer.peer.worker import Worker


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
