"""What couples examples, draws, or cannot be cut is refused in one line that says what would be right."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dpeer.exceptions import TaskError
from dpeer.privacy.mechanism import ClippedSum
from dpeer.training import replace_batch_norm
from dpeer.training.batch_loader import Batch
from dpeer.training.dpsgd.gradient import PrivateGradient
from dpeer.training.dpsgd.separable_layers import is_known_model
from dpeer.training.trainer import Trainer
from tests.training.small import Preprocessed, RunningMean

N = 6
Make = Callable[..., Trainer]


@pytest.mark.parametrize("build", [lambda: Preprocessed(lambda x: nn.functional.dropout(x, 0.5)), RunningMean])
def test_a_model_that_is_refused_is_left_as_it_was(build: Callable[[], nn.Module], make_trainer: Make) -> None:
    torch.manual_seed(0)
    peer = make_trainer(build(), torch.randn(N, 4), torch.randint(3, (N,)))
    before, states = peer.model.data.clone(), (torch.get_rng_state(), np.random.get_state(legacy=True)[1].copy())
    with pytest.raises(TaskError):
        PrivateGradient(ClippedSum(1.0, 1.0, 0.5, N)).start(peer, peer.model)
    assert torch.equal(peer.model.data, before)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state(legacy=True)[1], states[1])


def test_batch_norm_that_does_not_look_at_the_batch_is_taken(make_trainer: Make) -> None:
    class Still(nn.BatchNorm1d):
        def train(self, mode: bool = True) -> "Still":
            return super().train(False)

    torch.manual_seed(0)
    peer = make_trainer(
        nn.Sequential(nn.Linear(4, 3), Still(3)), torch.randn(N, 4), torch.randint(3, (N,)), head=("1",)
    )
    peer.module.train()
    PrivateGradient(ClippedSum(1.0, 1.0, 0.5, N)).start(peer, peer.body)


def test_a_compiled_model_is_computed_one_by_one(make_trainer: Make) -> None:
    model = nn.Sequential(nn.Linear(4, 3))
    model[0].compile(backend="eager")
    assert not is_known_model(model)


@pytest.mark.parametrize("channels", [1, 6, 48])
def test_batch_norm_can_be_replaced(channels: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, channels, 3), nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU()))
    with torch.no_grad():
        model[1][0].weight.uniform_()
    made = replace_batch_norm(model)
    norm = made[1][0]
    assert isinstance(model[1][0], nn.BatchNorm2d), "the model stays as it is"
    assert isinstance(norm, nn.GroupNorm)
    assert channels // norm.num_groups >= min(4, channels)
    assert torch.equal(norm.weight, model[1][0].weight)
    assert [*made.state_dict()] == [name for name, _ in model.named_parameters()]
    x = torch.randn(N, 1, 8, 8)
    torch.testing.assert_close(made(x)[:1], made(x[:1]))
    assert isinstance(replace_batch_norm(nn.BatchNorm1d(8, affine=False)), nn.GroupNorm)


def test_batch_norm_at_two_places_is_replaced_at_both() -> None:
    norm = nn.BatchNorm1d(8)
    made = replace_batch_norm(nn.Sequential(norm, nn.Linear(8, 8), nn.Sequential(norm), nn.Linear(8, 2)))
    assert isinstance(made[0], nn.GroupNorm)
    assert made[0] is made[2][0], "one layer still"


def test_what_code_writes_to_parameters_and_buffers_is_undone(make_trainer: Make) -> None:
    """What it writes of an example would leave without noise."""

    class Following(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean, self.out, self.follows = nn.Parameter(torch.zeros(4)), nn.Linear(4, 3), False
            self.register_buffer("last", torch.zeros(4))

        def forward(self, x: Tensor) -> Tensor:
            if self.follows:
                self.mean.data = self.mean.data * 0.9 + 0.1 * x[0]
                self.last.copy_(x[0])
            out: Tensor = self.out(x - self.mean)
            return out

    torch.manual_seed(0)
    x, y = torch.randn(N, 4), torch.randint(3, (N,))
    peer = make_trainer(Following(), x, y)
    rule = PrivateGradient(ClippedSum(1.0, 1.0, 0.5, N))
    rule.start(peer, peer.model)
    peer.module.follows = True
    before = peer.model.data.clone()
    with peer.training(peer.model):
        rule(peer, peer.model, Batch(x, y, N))
    assert torch.equal(peer.model.data, before)
    assert not peer.module.last.any()
    assert not peer.module.mean.any()
