"""Batch-norm statistics and other buffers in fine-tuning, SAM's second pass and single samples."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from dpeer.training import Task, TorchLearner
from tests.training.algorithm_cases import made
from tests.training.small import mix, small_task


class Normed(nn.Module):
    """A head with batch statistics, and with a count that is another tensor after each call."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 4)
        self.norm = nn.BatchNorm1d(4)
        self.fc = nn.Linear(4, 3)
        self.teacher = nn.Parameter(torch.zeros(4), requires_grad=False)
        self.still = nn.Linear(2, 2).requires_grad_(False)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.body(x)
        if self.training:
            self.calls = self.calls + 1
            with torch.no_grad():
                self.teacher.lerp_(features.detach().mean(0), 0.1)
        found: Tensor = self.fc(self.norm(features))
        return found


def peer(algorithm: str, *, samples: int = 50, model: Callable[[], nn.Module] = Normed, **changes: Any) -> TorchLearner:
    found = small_task(samples=samples)
    torch.manual_seed(0)
    task = Task(model(), ("norm", "fc"), found.train, found.test)
    settings: dict[str, Any] = {"body_epochs": 1, "batch_size": 16, "finish": "all:2,0.05"}
    return made(task, algorithm, settings | changes, rank=0, seed=0)


def state(learner: TorchLearner) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in learner.trainer.module.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# What --finish trains in the end.


def test_what_was_fine_tuned_predicts_with_buffers_of_its_own(tmp_path: Path) -> None:
    ours, again, plain = peer("fedbabu"), peer("fedbabu"), peer("fedbabu")
    for learner in (ours, plain):
        learner.train(0)
        learner.release(0)
        mix(learner, {}, {0: 1.0})
    before, found = state(ours), ours.evaluate()
    ours.fine_tune(0)
    assert same(state(ours), before), "what was shared, for rounds to come"
    assert ours.evaluate() != found
    # By hand: the same epochs on the model itself.
    plain.trainer.fit(plain.trainer.model, epochs=2, lr=0.05, phase="finish")
    assert ours.evaluate() == plain.evaluate()
    ours.write_model(tmp_path / "model.safetensors")
    assert same(load_file(tmp_path / "model.safetensors"), state(plain))
    ours.save(tmp_path)
    again.load(tmp_path)
    names = [name for path in tmp_path.glob("*.safetensors") if path.stem != "model" for name in load_file(path)]
    assert any("teacher" in name for name in names)
    assert not any("still" in name for name in names), "what never changes is in no checkpoint"
    assert same(state(again), state(ours))
    assert again.evaluate() == ours.evaluate()


# SAM's second pass.


def test_a_sam_step_moves_the_statistics_once_and_from_the_unperturbed_pass() -> None:
    """With steps too small to matter the statistics are those of the model as it was, however far SAM looks."""
    settings: dict[str, Any] = {"body_lr": 1e-12, "head_lr": 1e-12, "batch_size": 50}
    ours, plain = (peer("dfedsmdc", sam="both", rho=rho, **settings) for rho in (5.0, 0.0))
    for learner in (ours, plain):
        for number in range(2):
            learner.train(number)
    module = ours.trainer.module
    assert int(module.norm.num_batches_tracked) == int(module.calls) == 4  # head and body, twice
    for name, value in state(plain).items():
        torch.testing.assert_close(state(ours)[name], value, rtol=0, atol=1e-6)


class Drawing(nn.Module):
    """Dropout, and a sign that numpy draws; notes what was drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 40)
        self.drop = nn.Dropout(0.5)
        self.norm = nn.BatchNorm1d(40)
        self.fc = nn.Linear(40, 3)
        self.drawn: list[bytes] = []

    def forward(self, x: Tensor) -> Tensor:
        kept = self.drop(torch.ones(len(x), 40))
        if self.training:
            self.drawn.append(kept.detach().numpy().tobytes() + np.random.bytes(4))
        found: Tensor = self.fc(self.norm(self.body(x) * kept))
        return found


def test_both_passes_of_a_sam_step_draw_the_same() -> None:
    ours, plain = peer("dfedsmdc", model=Drawing, head_epochs=0), peer("dfedmdc", model=Drawing, head_epochs=0)
    for number in range(2):  # whether the task draws is found out in the first round
        for learner in (ours, plain):
            learner.trainer.module.drawn.clear()
            learner.train(number)
        found = ours.trainer.module.drawn
        assert found[::2] == found[1::2]
        assert len(set(found)) == 4
        assert found[::2] == plain.trainer.module.drawn, "as many draws as without SAM"
