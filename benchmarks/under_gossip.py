"""What training loses while bodies pass: 4 neighbors that send and get 45 MB a second each.

    python benchmarks/under_gossip.py [--neighbors 4] [--mb-per-s 45] [--seconds 3] [--repeats 5] [--json]

One process trains as a peer does: `Learner.train` of a CNN on 32x32 images in the tensor thread (one torch thread), and
beside it the event loop with a `ZeroMQTransport`. The baseline is the same process with silent neighbors. The two are
interleaved, which goes first alternating; the loss is of two stretches right after each other, and its median is given.

The neighbors are one other process of plain ZeroMQ sockets, which sends the same pieces over and over and lets go of
what it gets. Both directions are paced, a piece at a time, and both ends count: a repetition in which less than nine
tenths of the bytes arrive fails. The neighbors' process is held on the last core where there are several, its CPU time
is printed, and not counted as training's loss: neighbors are other hosts. The event loop, ZeroMQ's thread and training
share what is left, which is what is measured; with two cores ZeroMQ's thread may move to the other one, too.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import torch
import zmq
from fleet import cpu_seconds, say
from local_training import ImageNet32, random_images
from traffic import Neighborhood, chunks

from dpeer.cores import own_cores
from dpeer.federation.memory_tuning import keep_heap
from dpeer.peer import Limits, ZeroMQTransport
from dpeer.training import Hyperparameters, Task, build_learner

BODY_BYTES = 45_000_000


def partner(address: str, neighbors: int, rate: float, pipe: Connection) -> None:
    """All neighbors: on True they send at that many bytes a second on each link, on False they stop and report."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {own_cores()[-1]})
    with zmq.Context() as context:
        poller = zmq.Poller()
        poller.register(pipe.fileno(), zmq.POLLIN)
        links = [context.socket(zmq.DEALER) for _ in range(neighbors)]
        for link in links:
            link.connect(address)
            link.send(b"here")
            poller.register(link, zmq.POLLIN)
        messages = chunks(BODY_BYTES)
        sending, due, sent, got, used = False, 0.0, 0, 0, 0.0
        while True:
            left = max(0.0, due - time.perf_counter()) if sending else 3600.0
            ready = dict(poller.poll(int(1000 * left)))
            if pipe.fileno() in ready:
                sending = pipe.recv()
                if sending:
                    due, sent, got, used = time.perf_counter(), 0, 0, cpu_seconds()
                else:
                    pipe.send((got, cpu_seconds() - used))
            for link in links:
                if link in ready:
                    got += sum(len(part.buffer) for part in link.recv_multipart(copy=False))
            if sending and time.perf_counter() >= due:
                message = messages[sent // neighbors % len(messages)]
                links[sent % neighbors].send_multipart(message, copy=False)
                due += sum(map(len, message)) / rate / neighbors
                sent += 1


class Training:
    """A learner that trains for some seconds, in its thread."""

    def __init__(self) -> None:
        keep_heap()
        torch.manual_seed(0)
        data = random_images((3, 32, 32), 128)
        task = Task(model=ImageNet32(), head=("head",), train=data, test=data, draws=False)
        self._h = Hyperparameters(head_epochs=1, body_epochs=1)
        self._learner = build_learner(task, "dfedmdc", self._h, rank=0, seed=0)
        self._thread = ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,))

    async def steps_per_s(self, seconds: float) -> float:
        """How many minibatches a second it trains meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._train, seconds)

    def _train(self, seconds: float) -> float:
        began, before = time.perf_counter(), self._learner.gradients
        while (took := time.perf_counter() - began) < seconds:
            self._learner.train(0)
        return (self._learner.gradients - before) / self._h.batch_size / took


async def measure(neighbors: int, rate: float, seconds: float, repeats: int) -> dict[str, Any]:
    """Steps a second with and without traffic."""
    training = Training()
    transport = ZeroMQTransport(Limits(payload_bytes=BODY_BYTES))
    address = await transport.listen("tcp://127.0.0.1:0")
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=partner, args=(address, neighbors, rate, theirs), daemon=True
    )
    process.start()
    found: dict[bool, list[float]] = {False: [], True: []}
    arrived, own_cpu, partner_cpu = [], [], []
    try:
        hood = Neighborhood(transport, neighbors, BODY_BYTES)
        await hood.met()
        await training.steps_per_s(1.0)
        for number in range(repeats):
            for busy in (False, True) if number % 2 else (True, False):
                began, used, before = time.perf_counter(), cpu_seconds(), hood.got
                if busy:
                    ours.send(True)
                    hood.send_at(rate)
                found[busy].append(await training.steps_per_s(seconds))
                if busy:
                    took = time.perf_counter() - began
                    hood.quiet()
                    ours.send(False)
                    got, cpu = await asyncio.to_thread(ours.recv)
                    wanted = neighbors * rate * took
                    arrived.append(min(got, hood.got - before) / wanted)
                    own_cpu.append((cpu_seconds() - used) / took)
                    partner_cpu.append(cpu / took)
                    await asyncio.sleep(0.3)  # what is on its way arrives
                    if arrived[-1] < 0.9:
                        raise RuntimeError(f"only {arrived[-1]:.0%} of the bytes arrived: nothing was measured")
    finally:
        process.kill()
        await transport.close(0)
    lost = [1 - busy / alone for busy, alone in zip(found[True], found[False], strict=True)]
    return {
        "neighbors": neighbors,
        "mb_per_s_each_way": neighbors * rate / 1e6,
        "steps_per_s": median(found[False]),
        "steps_per_s_under_gossip": median(found[True]),
        "loss_percent": 100 * median(lost),
        "arrived_share": median(arrived),
        "cpu_of_the_process": median(own_cpu),
        "cpu_of_the_neighbors": median(partner_cpu),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--neighbors", type=int, default=4)
    parser.add_argument("--mb-per-s", type=float, default=45.0, help="on each link, in each direction")
    parser.add_argument("--seconds", type=float, default=3.0, help="of a stretch of training")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = asyncio.run(measure(arguments.neighbors, 1e6 * arguments.mb_per_s, arguments.seconds, arguments.repeats))
    say(result, as_json=arguments.json)


if __name__ == "__main__":
    main()
