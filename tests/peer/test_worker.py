"""Where a peer's jobs run."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from dpeer.peer import Worker


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
