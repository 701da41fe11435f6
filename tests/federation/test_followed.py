"""The audit's look at what body and head become, and defects that it finds."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dpeer.federation.audit import followed
from dpeer.privacy import SampleGuarantee
from dpeer.privacy.mechanism import ClippedSum
from dpeer.privacy.sample_level import phases_of
from dpeer.training.adam import SECOND, AdamW
from dpeer.training.dpsgd_trainer import PrivateTrainer
from dpeer.training.gradients import plain
from dpeer.training.models.echo import BODY
from dpeer.training.sgd import Momentum
from dpeer.training.trainer import Trainer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

GUARANTEE = SampleGuarantee(0.25, 1.0, 0.7, 1e-5, phases_of(4))
FIT, RELEASED, ADAMW = PrivateTrainer.fit, ClippedSum.released, AdamW.step


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """The last step's gradient without noise."""
    found: list[torch.Tensor] = []

    def released(self: ClippedSum, total: np.ndarray, threads: int = 1) -> np.ndarray:
        found[:] = [torch.from_numpy((total / self.expected).astype(np.float32))]
        return RELEASED(self, total, threads)

    monkeypatch.setattr(ClippedSum, "released", released)
    return found


def failed() -> set[str]:
    return {check.name.removeprefix("values, ") for check in followed.optimizers(GUARANTEE) if not check.held}


def test_what_is_right_holds() -> None:
    found = followed.optimizers(GUARANTEE)
    assert len(found) == 8
    assert all(check.held for check in found), found


def trained_after(trainer: PrivateTrainer, part: Any, **how: Any) -> None:
    """The head is trained as it should be, and when the body is done once more, without privacy."""
    FIT(trainer, part, **how)
    if part is trainer.body and not trainer._free and trainer._planned is None:
        with trainer.freely():
            Trainer.fit(trainer, trainer.head, epochs=1, lr=how["lr"], gradient=plain)


def test_a_head_that_is_trained_without_noise_after_the_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PrivateTrainer, "fit", trained_after)
    assert failed() >= {"joint", "alternate", "frozen", "post"}


def own_part(flat: Any, hidden: list[torch.Tensor]) -> torch.Tensor:
    """What of the gradient is of this vector, which may be the body, the head or both."""
    (found,) = hidden
    return found if len(found) == flat.count else found[:BODY] if flat.count == BODY else found[BODY:]


def test_momentum_of_gradients_without_noise(hidden: list[torch.Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    def step(self: Momentum, lr: float) -> None:
        moved = self._flat.grad.clone()
        if self._velocity is not None:
            moved += self._momentum * self._velocity
            self._velocity.mul_(self._momentum).add_(own_part(self._flat, hidden))
        self._flat.data.add_(moved, alpha=-lr)

    monkeypatch.setattr(Momentum, "step", step)
    assert failed() == {"momentum, joint", "momentum, alternate"}


def second_moments(hidden: list[torch.Tensor]) -> Callable[[AdamW, float], None]:
    def step(self: AdamW, lr: float) -> None:
        values, squares = self._flat.data.clone(), self._squares.clone()
        ADAMW(self, lr)  # for the mean, and the number of steps
        exact = own_part(self._flat, hidden)
        self._squares.copy_(squares).mul_(SECOND).addcmul_(exact, exact, value=1 - SECOND)
        root = (self._squares / (1 - SECOND**self.steps)).sqrt() + 1e-3
        self._flat.data.copy_(values).addcdiv_(self._mean, root, value=-lr / (1 - self._momentum**self.steps))

    return step


def test_moments_of_gradients_without_noise(hidden: list[torch.Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AdamW, "step", second_moments(hidden))
    assert failed() == {"AdamW, joint", "AdamW, alternate"}
