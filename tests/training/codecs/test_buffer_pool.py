"""Memory for payloads is given out again when, and only when, nobody refers to it."""

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import zmq

from dpeer.training import payload
from dpeer.training.codecs.base import BufferPool

NBYTES = 2**18


def address(memory: Any) -> int:
    return int(np.frombuffer(memory, np.uint8).ctypes.data)


USES: dict[str, Callable[[memoryview], Any]] = {
    "itself": lambda buffer: buffer,
    "a memoryview": memoryview,
    "a slice": lambda buffer: buffer[10:20],
    "a slice of a slice": lambda buffer: buffer[10:20][2:3],
    "read-only": lambda buffer: buffer.toreadonly(),
    "another format": lambda buffer: buffer.cast("f"),
    "an array": lambda buffer: np.frombuffer(buffer, np.float32),
    "a part of an array": lambda buffer: np.frombuffer(buffer, np.float32)[5:7],
    "a tensor": lambda buffer: torch.frombuffer(buffer, dtype=torch.float32),
    "a part of a tensor": lambda buffer: torch.frombuffer(buffer, dtype=torch.float32)[5:7].view(2, 1),
    "a tensor of an array": lambda buffer: torch.from_numpy(np.frombuffer(buffer, np.float32)),
    "a view of a payload": lambda buffer: payload.views([buffer.toreadonly()], NBYTES // 4),
    "a view of half a payload": lambda buffer: payload.views([buffer], NBYTES // 2, "bfloat16"),
    "a frame": lambda buffer: zmq.Frame(buffer, copy=False),
}


@pytest.mark.parametrize("use", USES)
def test_a_buffer_in_use_is_not_given_out_again(use: str) -> None:
    buffers = BufferPool(NBYTES)
    buffer = buffers.take()
    assert (buffer.nbytes, buffer.readonly, buffer.format) == (NBYTES, False, "B")
    place = address(buffer)
    user = USES[use](buffer)
    del buffer
    others = [buffers.take() for _ in range(4)]
    assert place not in {address(other) for other in others}
    assert len({address(other) for other in others}) == 4
    del user
    if use != "a frame":  # whose memory a thread gives back: see below
        assert address(buffers.take()) == place


def test_buffers_that_no_round_needs_are_given_back() -> None:
    buffers = BufferPool(NBYTES)
    many = [buffers.take() for _ in range(5)]
    places = {address(buffer) for buffer in many}
    del many
    sent: list[memoryview] = []
    used = set[int]()
    for _ in range(12):
        buffers.settle()
        sent = [*sent[-1:], buffers.take()]  # a body is kept until the next but one is made
        used.add(address(sent[-1]))
    assert len(used) == 3
    assert used < places, "none was made"
    assert len(buffers._free) == 1, "two are in use, and two of the five were given back"
    sent.clear()
    buffers.trim()
    assert not buffers._free


def test_a_buffer_that_a_socket_still_sends_is_not_given_out() -> None:
    buffers = BufferPool(NBYTES)
    context = zmq.Context()
    there, here = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
    try:
        there.bind("inproc://there")
        here.connect("inproc://there")
        buffer = buffers.take()
        buffer[:] = b"s" * NBYTES
        place = address(buffer)
        here.send(buffer, copy=False)
        del buffer
        other = buffers.take()
        assert address(other) != place, "nobody has read it"
        other[:] = b"o" * NBYTES
        frame = there.recv(copy=False)
        assert bytes(frame.buffer) == b"s" * NBYTES
        assert address(buffers.take()) != place, "it is being read"
        del frame
        back = threading.Event()
        seen: list[memoryview] = []
        for _ in range(10_000):  # by a thread of pyzmq's
            seen.append(buffers.take())
            if address(seen[-1]) == place:
                back.set()
                break
            seen.clear()
            back.wait(0.005)
        assert back.is_set()
    finally:
        here.close(linger=0)
        there.close(linger=0)
        context.term()


def test_two_threads_never_have_the_same_buffer() -> None:
    buffers = BufferPool(4096)
    start, wrong = threading.Barrier(2), []

    def work(mark: int) -> None:
        start.wait()
        held: list[tuple[memoryview, int]] = []
        for number in range(3000):
            buffer, content = buffers.take(), (mark + 2 * number) % 256
            buffer[:] = bytes([content]) * 4096
            held.append((buffer, content))
            if number % 3 == 2:
                for one, expected in held:
                    if bytes(one) != bytes([expected]) * 4096:
                        wrong.append((mark, number))
                held.clear()

    threads = [threading.Thread(target=work, args=(mark,)) for mark in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    gc.collect()
    assert len({address(one) for one in [buffers.take() for _ in range(8)]}) == 8
