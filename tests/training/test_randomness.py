"""Tasks that draw from the process's global generators, and tasks that do not."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from dpeer.exceptions import TaskError
from dpeer.training import Hyperparameters, TorchLearner, build_learner
from dpeer.training.randomness import LOCK, undisturbed
from tests.training.small import small_task

H = Hyperparameters(body_epochs=2, batch_size=16)


class Drawing(Dataset[Any]):
    """Augments its samples with one of the global generators."""

    def __init__(self, data: Any, source: str) -> None:
        self.data, self.source = data, source

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        x, y = self.data[index]
        draw = {"numpy": np.random.normal, "random": random.random}[self.source]
        return x + float(draw()), y


def bits(learner: TorchLearner) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in learner.trainer.module.parameters()])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["numpy", "random", "mixed"])
def test_threads_give_the_bits_of_one_after_another(kind: str) -> None:
    def peers() -> list[TorchLearner]:
        found = []
        for rank in range(4):
            # Mixed: two draw and two do not; these run beside the others.
            dropout = 0.5 if kind == "dropout" or (kind == "mixed" and rank % 2) else 0.0
            task = small_task(rank, dropout=dropout)
            if kind in ("numpy", "random"):
                task.train = Drawing(task.train, kind)
            found.append(build_learner(task, "dfedsmdc", H, rank=rank, seed=0))
        return found

    alone, together = peers(), peers()
    for number in range(4):
        for learner in alone:
            learner.train(number)
            learner.evaluate()

    def rounds(learner: TorchLearner) -> None:
        for number in range(4):
            learner.train(number)
            learner.evaluate()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(rounds, together))
    for a, b in zip(alone, together, strict=True):
        assert torch.equal(bits(a), bits(b))


def test_what_the_process_drew_before_does_not_matter() -> None:
    results = []
    for noise in (1, 2):
        learner = build_learner(small_task(dropout=0.5), "dfedmdc", H, rank=0, seed=0)
        for number in range(3):
            torch.manual_seed(noise)
            learner.train(number)
        results.append(bits(learner))
    assert torch.equal(*results)


def test_dropout_differs_between_ranks_and_rounds() -> None:
    masks = []

    def run(rank: int, number: int) -> None:
        learner = build_learner(small_task(dropout=0.5), "dfedmdc", H, rank=rank, seed=0)
        first: list[torch.Tensor] = []
        learner.trainer.module.drop.register_forward_hook(lambda _m, _i, out: first.append(out.detach() == 0))
        learner.train(number)
        masks.append(first[-1])

    for place in ((0, 0), (1, 0), (0, 1)):
        run(*place)
    assert not torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


class Meeting(Dataset[Any]):
    """From the second round on, waits in each first item until another learner is in its training too."""

    def __init__(self, data: Any, barrier: threading.Barrier) -> None:
        self.data, self.barrier, self.open = data, barrier, False

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        if self.open and index == 0:
            self.barrier.wait(timeout=200)
        return self.data[index]


def test_tasks_that_do_not_draw_train_at_the_same_time() -> None:
    barrier = threading.Barrier(2)
    learners, datasets = [], []
    for rank in range(2):
        task = small_task(rank)
        datasets.append(Meeting(task.train, barrier))
        task.train = datasets[-1]
        learners.append(build_learner(task, "dfedmdc", H, rank=rank, seed=0))
    for learner, dataset in zip(learners, datasets, strict=True):
        learner.train(0)
        dataset.open = True
    torch.manual_seed(9)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda learner: learner.train(1), learners))  # a lock would break the barrier
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.random.get_state()[1].tolist() == before[2]


def test_tasks_that_say_they_do_not_draw_train_at_the_same_time_from_the_first_round() -> None:
    barrier = threading.Barrier(2)
    learners = []
    for rank in range(2):
        task = replace(small_task(rank), draws=False)
        task.train = Meeting(task.train, barrier)
        task.train.open = True
        learners.append(build_learner(task, "dfedmdc", H, rank=rank, seed=0))
    torch.manual_seed(9)
    before = torch.get_rng_state()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda learner: learner.train(0), learners))
    assert torch.equal(torch.get_rng_state(), before), "nobody has seeded them"
    plain = build_learner(small_task(1), "dfedmdc", H, rank=1, seed=0)
    plain.train(0)
    assert torch.equal(bits(learners[1]), bits(plain))


@pytest.mark.parametrize("call", ["train", "evaluate"])
def test_a_task_that_draws_but_says_it_does_not_is_refused(call: str) -> None:
    task = replace(small_task(dropout=0.5), draws=False)
    if call == "evaluate":
        task = replace(small_task(), draws=False)
        task.test = Drawing(task.test, "numpy")
    learner = build_learner(task, "dfedmdc", H, rank=0, seed=0)
    with pytest.raises(TaskError):
        learner.train(0) if call == "train" else learner.evaluate()


def test_who_says_that_it_draws_never_runs_beside_others() -> None:
    message = build_learner(replace(small_task(dropout=0.5), draws=True), "dfedmdc", H, rank=0, seed=0)
    found_out = build_learner(small_task(dropout=0.5), "dfedmdc", H, rank=0, seed=0)
    for learner in (message, found_out):
        for number in range(2):
            learner.train(number)
    assert torch.equal(bits(message), bits(found_out))


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
