"""What an algorithm of a user's own cannot break, by mistake or on purpose."""

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from dpeer.exceptions import AlgorithmError
from dpeer.training import (
    Algorithm,
    Hyperparameters,
    Task,
    TorchLearner,
    build_learner,
    make_options,
)
from tests.training.small import BodyOnly, mix, small_task

H = Hyperparameters(body_epochs=1, batch_size=16)


@pytest.mark.parametrize("thing", [{"a": 1}, {1}, 2**64, float("nan"), [len], Path("a")])
def test_shared_values_that_cannot_be_compared_are_refused(thing: Any) -> None:
    class Strange(BodyOnly):
        @dataclass(frozen=True)
        class Options:
            thing: Any = field(default_factory=lambda: thing)

    with pytest.raises(AlgorithmError, match="algorithm Strange: its option thing is "):
        make_options(Strange, {})


@pytest.mark.parametrize("method", ["predictor", "extras", "start", "train", "mixed"])
def test_whatever_fails_is_one_error_that_names_the_method(method: str) -> None:
    def fail(self: Any, *arguments: Any) -> Any:
        raise SystemExit("bye") if method == "extras" else ZeroDivisionError("oh")

    Broken = type("Broken", (BodyOnly,), {method: fail})

    def use() -> None:
        one = learner(small_task(), Broken)
        one.sit_out(0)
        assert one.about.head_parameters >= 0
        one.train(0)
        one.evaluate()
        one.release(0)
        mix(one, {}, {0: 1.0})

    with pytest.raises(AlgorithmError):
        use()


# What an algorithm of a user's own keeps and draws outside of its rounds.


def learner(task: Task, algorithm: type[Algorithm]) -> TorchLearner:
    return build_learner(task, algorithm, H, rank=0, seed=0)


class Drawing(BodyOnly):
    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self.drawn = [random.random()]

    def extras(self, split: Any) -> dict[str, int]:
        self.drawn.append(float(np.random.rand()))
        return {}

    def start(self, peer: Any) -> None:
        self.drawn.append(torch.rand(()).item())

    def train(self, peer: Any) -> None:
        self.drawn.append(random.random())

    def mixed(self, peer: Any) -> None:
        self.drawn.append(random.random())

    def adopted(self, peer: Any) -> None:
        self.drawn.append(random.random())

    def predictor(self, peer: Any) -> Tensor:
        found: Tensor = peer.model.data + torch.randn(peer.model.count)
        return found


def test_whatever_it_draws_is_the_same_whatever_else_has_drawn(tmp_path: Path) -> None:
    def drawn(seed: int) -> tuple[list[float], dict[str, Tensor]]:
        task = small_task()

        def disturb() -> None:
            nonlocal seed
            seed += 1
            random.seed(seed)
            np.random.seed(seed)
            torch.manual_seed(seed)

        disturb()
        one = learner(task, Drawing)
        for number in range(2):
            disturb()
            one.train(number)
            disturb()
            sent = one.release(number)
            mix(one, {}, {0: 1.0})
            disturb()
            one.adopt(number + 2, {1: sent}, lambda ranks: {1: 1.0})
        disturb()
        folder = tmp_path / str(seed)
        folder.mkdir()
        one.save(folder)
        disturb()
        one.load(folder)
        disturb()
        one.write_model(folder / "model.safetensors")
        return one.algorithm.drawn, load_file(folder / "model.safetensors")

    (first, model), (second, other) = drawn(10), drawn(20)
    assert first == second
    assert len({*first}) == len(first) == 9, "each draw has a stream of its own"
    assert model.keys() == other.keys()
    assert all(torch.equal(model[name], other[name]) for name in model)
