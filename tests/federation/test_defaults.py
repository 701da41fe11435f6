"""The values that are used where nobody gave any."""

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.federation.config import from_flags, with_defaults
from dpeer.federation.settings import Settings, default_of
from dpeer.training import Hyperparameters


def test_adamw_brings_rates_of_its_own_unless_they_are_given() -> None:
    used = with_defaults(Settings(optimizer="adamw"))
    assert (used.body_lr, used.head_lr) == (0.001, 0.001)
    used = with_defaults(Settings(optimizer="adamw", body_lr=0.01))
    assert (used.body_lr, used.head_lr) == (0.01, 0.001)
    used = with_defaults(Settings())
    assert (used.body_lr, used.head_lr) == (default_of("body_lr"), default_of("head_lr"))


def test_rates_that_are_for_adamw_are_taken() -> None:
    assert with_defaults(Settings(optimizer="adamw", preset="dp-fedadamw", algorithm="dfedmdc")).head_lr == 3e-4
    used = with_defaults(Settings(optimizer="adamw", preset="paper-dispfl", algorithm="fedadamw"))
    assert used.body_lr == 3e-4, "the algorithm's own, whatever the preset has"


def test_an_algorithms_own_defaults_stay() -> None:
    assert with_defaults(Settings(optimizer="adamw", algorithm="fedrep")).head_epochs == 10
    used = with_defaults(Settings(algorithm="fedadamw"))
    assert (used.optimizer, used.body_lr, used.lr_schedule, used.grad_clip) == ("adamw", 3e-4, "cosine", None)
    assert with_defaults(Settings(algorithm="fedadamw", grad_clip=2.0, body_lr=0.1)).body_lr == 0.1


def test_clipping_is_switched_off_by_zero_in_a_file_or_flag() -> None:
    assert from_flags({"grad_clip": 0.0}).grad_clip is None
    assert Settings(grad_clip=0).grad_clip is None
    assert Settings(grad_clip=None).grad_clip is None
    assert Hyperparameters(grad_clip=0).grad_clip is None
    assert Settings(grad_clip=10).grad_clip == 10.0
    with pytest.raises(ConfigurationError):
        from_flags({"grad_clip": -1.0})


@pytest.mark.parametrize("task", ["digits", "csv", "mine.py:task"])
def test_gradients_are_clipped_alike_with_every_task(task: str) -> None:
    assert with_defaults(Settings(task=task)).grad_clip == 1.0
    assert with_defaults(Settings(task=task, grad_clip=0)).grad_clip is None
    assert with_defaults(Settings(task=task, preset="paper-cifar")).grad_clip is None
    assert with_defaults(Settings(task=task, preset="paper-dispfl")).grad_clip == 10.0
