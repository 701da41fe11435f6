"""Tasks that draw from the process's global generators, and tasks that do not."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from dpeer.training import Hyperparameters, TorchLearner, build_learner
from dpeer.training.randomness import LOCK, undisturbed
from tests.training.small import Rows, small_task

H = Hyperparameters(body_epochs=2, batch_size=16)


DRAW = {"numpy": np.random.normal, "random": random.random}


def drawing(data: Any, source: str) -> Rows:
    """The same data, augmented with one of the global generators."""
    return Rows(data, lambda row: (row[0] + float(DRAW[source]()), row[1]))


def bits(learner: TorchLearner) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in learner.trainer.module.parameters()])


def run(learner: TorchLearner, rounds: int = 2) -> torch.Tensor:
    for number in range(rounds):
        learner.train(number)
        learner.evaluate()
    return bits(learner)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["numpy", "random", "mixed"])
def test_threads_give_the_bits_of_one_after_another(kind: str) -> None:
    def peers() -> list[TorchLearner]:
        found = []
        for rank in range(4):
            # Mixed: two draw and two do not; these run beside the others.
            task = small_task(rank, dropout=0.5 if kind == "mixed" and rank % 2 else 0.0)
            if kind != "mixed":
                task.train = drawing(task.train, kind)
            found.append(build_learner(task, "dfedsmdc", H, rank=rank, seed=0))
        return found

    alone = [run(learner) for learner in peers()]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(run, peers()))
    assert all(map(torch.equal, alone, together))


def test_dropout_differs_between_ranks_and_rounds() -> None:
    def first_mask(rank: int, number: int) -> torch.Tensor:
        learner = build_learner(small_task(dropout=0.5), "dfedmdc", H, rank=rank, seed=0)
        masks: list[torch.Tensor] = []
        learner.trainer.module.drop.register_forward_hook(lambda _m, _i, out: masks.append(out.detach() == 0))
        learner.train(number)
        return masks[-1]

    first = first_mask(0, 0)
    assert not torch.equal(first, first_mask(1, 0))
    assert not torch.equal(first, first_mask(0, 1))


def test_tasks_that_draw_hold_the_lock() -> None:
    learner = build_learner(small_task(dropout=0.5), "dfedmdc", H, rank=0, seed=0)
    free: list[bool] = []

    def probe(*_: Any) -> None:
        def attempt() -> None:
            got = LOCK.acquire(blocking=False)
            free.append(got)
            if got:
                LOCK.release()

        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()

    learner.trainer.module.register_forward_hook(probe)
    for number in range(2):
        learner.train(number)
    assert free
    assert not any(free)
    free.clear()
    learner.evaluate()
    assert not any(free)
    learner.evaluate()  # evaluation does not draw, so the second one is free to run beside others
    assert free[-1]


def test_blocks_that_run_at_the_same_time_leave_each_others_draws_alone() -> None:
    """The first to end does not put the generators back: the other is drawing."""
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, second = undisturbed(), undisturbed()
    first.__enter__()
    torch.manual_seed(7)
    one, two, three = torch.rand(3).tolist()
    torch.manual_seed(7)
    second.__enter__()
    drawn = [torch.rand(1).item()]
    second.__exit__(None, None, None)
    drawn.append(torch.rand(1).item())
    second = undisturbed()
    second.__enter__()
    first.__exit__(None, None, None)
    drawn.append(torch.rand(1).item())
    second.__exit__(None, None, None)
    assert drawn == [one, two, three]
    assert torch.equal(torch.get_rng_state(), before)
