"""Where randomness comes from, so that a run can be repeated, resumed and simulated with the same bits.

dpeer's own draws (batch orders, partitions) come from generators made on the spot from what they are for: the
seed, the rank, the round, ... Nothing has to be kept to resume.

A task, however, may draw from the *global* generators of torch, numpy or random: dropout does, and so does most
augmentation. Those are seeded before each call into the task, and because a process has only one of each, such
learners must not run side by side in threads. `GlobalGenerators` finds out which learners these are.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import numpy as np
import torch

LOCK = threading.RLock()
"""Held by whoever uses the process's global generators."""


class Purpose(IntEnum):
    """What numbers are drawn for: the first component of every key, so that no two purposes share a stream."""

    BATCHES = 0
    PARTITION = 1
    TRAIN = 2
    EVALUATE = 3


def stream(seed: int, purpose: Purpose, *key: int) -> np.random.Generator:
    """A generator of its own for one use, independent of every other and of the global ones.

    Args:
        seed: The federation's seed, not negative.
        purpose: What the numbers are for.
        key: Which of the uses for that purpose this is (rank, round, ...), not negative.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose, *key)))


def seed_globals(seed: int) -> None:
    """Seed the global generators of torch, numpy and random; the caller holds `LOCK`."""
    torch.manual_seed(seed % 2**64)
    np.random.seed(seed % 2**32)
    random.seed(seed)


def _states() -> tuple[bytes, Any, Any]:
    kind, key, *rest = np.random.get_state(legacy=True)
    return torch.get_rng_state().numpy().tobytes(), (kind, np.asarray(key).tobytes(), *rest), random.getstate()


class GlobalGenerators:
    """One learner's use of the process's global generators.

    The first call of each kind runs alone, and whether it moved any generator decides about all later ones: calls
    that draw keep running alone, on freshly seeded generators; calls that do not draw neither wait for other
    learners nor touch the generators. The results are the same bits in one process per learner, in many threads,
    and after a resume. (A task that starts to draw only in some later round is not noticed.)

    Args:
        seed: The federation's seed.
        rank: The learner's rank.
    """

    def __init__(self, seed: int, rank: int) -> None:
        self._seed, self._rank = seed, rank
        self._draws: dict[Purpose, bool] = {}

    @contextmanager
    def kept(self, purpose: Purpose, number: int) -> Iterator[None]:
        """Run the block with the generators in a state that depends on (seed, rank, purpose, round) alone.

        Args:
            purpose: Which kind of call the block is.
            number: The round.
        """
        if self._draws.get(purpose) is False:
            yield
            return
        with LOCK:
            seed_globals(int(stream(self._seed, purpose, self._rank, number).integers(2**63)))
            before = None if purpose in self._draws else _states()
            yield
            if before is not None:
                self._draws[purpose] = before != _states()
