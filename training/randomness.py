"""Random generators by purpose, seed, rank and round, and control of the process's global generators.

dpeer's own draws (batch orders, partitions) come from generators made on the spot from what they are for: the
seed, the rank, the round, ... Nothing has to be kept to resume.

A task, however, may draw from the *global* generators of torch, numpy or random: dropout does, and so does most
augmentation. Those are seeded before each call into the task, and because a process has only one of each, such
learners must not run side by side in threads. `GlobalGenerators` finds out which learners these are.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import numpy as np
import torch

from dpeer.training.device import CPU

LOCK = threading.RLock()
"""Lock of the process's global generators."""


class Purpose(IntEnum):
    """The use of random numbers: the first component of every key, so that no two purposes share a stream."""

    BATCHES = 0
    PARTITION = 1
    TRAIN = 2
    EVALUATE = 3
    MASK = 4
    FINISH = 5
    HOLD_OUT = 6
    SUBSET = 7
    AUGMENT = 8
    SPARSIFY = 9
    MIXED = 10
    START = 11
    SAVE = 13
    LOAD = 14
    WRITE = 15
    FINE_TUNE = 16
    HYPERNETWORK = 17
    ADAPT = 18


def stream(seed: int, purpose: Purpose, *key: int) -> np.random.Generator:
    """A generator of its own for one use, by purpose and key, independent of every other and of the global ones."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose, *key)))


def seed_globals(seed: int) -> None:
    """Seed the global generators of torch (on all devices), numpy and random; the caller holds `LOCK`."""
    torch.manual_seed(seed % 2**64)
    np.random.seed(seed % 2**32)
    random.seed(seed)


def generator_states(device: torch.device) -> tuple[Any, ...]:
    """The states of the global generators, of the host and of a device, to be compared."""
    kind, key, *rest = np.random.get_state(legacy=True)
    tensors = [torch.get_rng_state()] + ([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])
    torches = (state.numpy().tobytes() for state in tensors)
    return *torches, (kind, np.asarray(key).tobytes(), *rest), random.getstate()


def _rewinder() -> Callable[[], None]:
    """A function that puts the global generators of the host back to their present state."""
    torches, numpys, pythons = torch.get_rng_state(), np.random.get_state(legacy=True), random.getstate()

    def rewind() -> None:
        torch.set_rng_state(torches)
        np.random.set_state(numpys)
        random.setstate(pythons)

    return rewind


class _Blocks:
    """How many blocks of `undisturbed` are running, and what undoes what they draw; changed under `LOCK` only."""

    running = 0
    undo: Callable[[], None]


@contextmanager
def undisturbed() -> Iterator[None]:
    """Whatever is drawn or seeded within it, afterwards the global generators of the host are as they were.

    Of blocks that run at the same time, in several threads, the last to end puts them back to what they were when the
    first began: before that, others are drawing.
    """
    with LOCK:
        if not _Blocks.running:
            _Blocks.undo = staticmethod(_rewinder())
        _Blocks.running += 1
    try:
        yield
    finally:
        with LOCK:
            _Blocks.running -= 1
            if not _Blocks.running:
                _Blocks.undo()


class GlobalGenerators:
    """One learner's use of the process's global generators.

    The first call of each kind runs alone, and whether it moved any generator decides about all later ones: calls
    that draw keep running alone, on freshly seeded generators; calls that do not draw neither wait for other
    learners nor touch the generators. The results are the same bits in one process per learner, in many threads,
    and after a resume. (A task that starts to draw only in some later round is not noticed.)

    Args:
        seed: The federation's seed.
        rank: The learner's rank.
        device: Where it trains, whose generator counts, too.
        draws: Whether the task draws, as it states; None to find out.
    """

    def __init__(self, seed: int, rank: int, device: torch.device = CPU, *, draws: bool | None = None) -> None:
        self._seed, self._rank, self._device = seed, rank, device
        kinds = () if draws is None else (Purpose.TRAIN, Purpose.EVALUATE)
        self._draws: dict[Purpose, bool] = {kind: bool(draws) for kind in kinds}

    @contextmanager
    def kept(self, purpose: Purpose, number: int) -> Iterator[None]:
        """Run the block with the generators in a state that depends on (seed, rank, purpose, round) alone."""
        kind = Purpose.EVALUATE if purpose is Purpose.EVALUATE else Purpose.TRAIN  # all others may train, too
        if self._draws.get(kind) is False:
            yield
            return
        with LOCK:
            seed_globals(int(stream(self._seed, purpose, self._rank, number).integers(2**63)))
            before = None if kind in self._draws else generator_states(self._device)
            yield
            if before is not None:
                self._draws[kind] = before != generator_states(self._device)

    def rewinding(self) -> Callable[[], None]:
        """A function that puts the generators back to their present state, for a task that is to draw the same again.

        To be called within `kept`. Where training is known not to draw, nothing is done: others may be drawing.
        """
        if self._draws.get(Purpose.TRAIN) is False:
            return lambda: None
        on_host = _rewinder()
        device = torch.cuda.get_rng_state(self._device) if self._device.type == "cuda" else None

        def rewind() -> None:
            on_host()
            if device is not None:
                torch.cuda.set_rng_state(device, self._device)

        return rewind
