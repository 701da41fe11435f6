"""What an algorithm of a user's own keeps, plans and draws outside of its rounds."""

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from dpeer.exceptions import CheckpointError
from dpeer.training import Algorithm, Hyperparameters, Task, TorchLearner, build_learner
from tests.training.sampling import sampled

Make = Callable[..., Task]
H = Hyperparameters(body_epochs=1, batch_size=16)


class Plain(Algorithm):
    shares = "body"

    def train(self, peer: Any) -> None:
        peer.fit(peer.body, epochs=1, lr=0.01)


def learner(task: Task, algorithm: type[Algorithm]) -> TorchLearner:
    return build_learner(task, algorithm, H, rank=0, seed=0)


def saved(one: TorchLearner, folder: Path) -> Path:
    folder.mkdir()
    one.save(folder)
    return folder


def test_a_plan_is_compared_as_it_is_read_again(make_task: Make, tmp_path: Path) -> None:
    class Shaped(Plain):
        shape: tuple[int, ...] = (1, 2)

        def plan(self, peer: Any) -> Mapping[str, Any]:
            return {"shape": self.shape, "by number": {1: "a"}}

    class Reshaped(Shaped):
        name = "Shaped"
        shape = (1, 3)

    folder = saved(learner(make_task(), Shaped), tmp_path / "saved")
    learner(make_task(), Shaped).load(folder)
    with pytest.raises(CheckpointError):
        learner(make_task(), Reshaped).load(folder)


def test_the_keys_that_are_taken_are_those_of_the_file(make_task: Make, tmp_path: Path) -> None:
    from dpeer.training.state_files import RESERVED, REST

    (tmp_path / "private").mkdir()
    learner(make_task(), Plain).save(tmp_path)
    sampled(make_task(), tmp_path / "ledger").save(tmp_path / "private")
    written = [json.loads((folder / REST).read_text()) for folder in (tmp_path, tmp_path / "private")]
    assert {*written[0], *written[1]} - {"number of rounds, with which the cosine schedule ends,"} == RESERVED


class Drawing(Plain):
    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self.drawn = [random.random()]

    def extras(self, split: Any) -> dict[str, int]:
        self.drawn.append(float(np.random.rand()))
        return {}

    def start(self, peer: Any) -> None:
        self.drawn.append(torch.rand(()).item())

    def codec(self, peer: Any) -> None:
        self.drawn.append(random.random())

    def sit_out(self) -> None:
        self.drawn.append(random.random())

    def state(self) -> Mapping[str, Tensor]:
        return {"drawn": torch.tensor([*self.drawn, random.random()], dtype=torch.float64)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.drawn = [*state["drawn"].tolist(), random.random()]

    def predictor(self, peer: Any) -> Tensor:
        found: Tensor = peer.model.data + torch.randn(peer.model.count)
        return found


def test_whatever_it_draws_is_the_same_whatever_else_has_drawn(make_task: Make, tmp_path: Path) -> None:
    def drawn(seed: int) -> tuple[list[float], dict[str, Tensor]]:
        task = make_task()

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
            one.sit_out(number)
        disturb()
        folder = saved(one, tmp_path / str(seed))
        disturb()
        one.load(folder)
        disturb()
        one.write_model(folder / "model.safetensors")
        return one.algorithm.drawn, load_file(folder / "model.safetensors")

    (first, model), (second, other) = drawn(10), drawn(20)
    assert first == second
    assert len({*first}) == len(first) == 8, "each draw has a stream of its own"
    assert model.keys() == other.keys()
    assert all(torch.equal(model[name], other[name]) for name in model)
