"""What couples examples, draws, or cannot be cut is refused in one line that says what would be right."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dpeer.exceptions import TaskError
from dpeer.privacy.mechanism import ClippedSum
from dpeer.training import replace_batch_norm
from dpeer.training.dpsgd.gradient import PrivateGradient
from dpeer.training.dpsgd.supported_layers import is_known_model
from dpeer.training.minibatches import Batch
from dpeer.training.trainer import Trainer

N = 6
Make = Callable[..., Trainer]


class Own(nn.Module):
    """A linear layer, and something before it."""

    def __init__(self, before: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.before, self.out = before, nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(self.before(x))
        return out


class Counting(nn.Module):
    """Keeps a running mean of what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(4, 3)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        out: Tensor = self.out(x - self.mean)
        return out


def refusal(peer: Trainer) -> str:
    with pytest.raises(TaskError) as caught:
        PrivateGradient(ClippedSum(1.0, 1.0, 0.5, N)).start(peer, peer.model)
    message = str(caught.value)
    assert "\n" not in message
    return message


MODELS: dict[str, tuple[Callable[[], nn.Module], str, str]] = {
    "batch norm": (
        lambda: nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)),
        "1 (BatchNorm1d)",
        "replace_batch_norm(model)",
    ),
    "batch norm without statistics": (
        lambda: nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, track_running_stats=False)),
        "1 (BatchNorm1d)",
        "replace_batch_norm(model)",
    ),
    "centering": (lambda: Own(lambda x: x - x.mean(0)), "is not the mean of its examples' losses", "mix the batch"),
    "dropout": (lambda: nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5)), "1 (Dropout) draws", "set its p to 0"),
    "instance norm": (
        lambda: nn.Sequential(nn.Linear(4, 4), nn.InstanceNorm1d(4, affine=True, track_running_stats=True)),
        "1 (InstanceNorm1d) keeps statistics",
        "track_running_stats=False",
    ),
    "embedding": (lambda: nn.Embedding(3, 4, max_norm=1.0), "the model (Embedding) writes", "leave max_norm out"),
    "functional dropout": (
        lambda: Own(lambda x: nn.functional.dropout(x, 0.5)),
        "the task's model, loss or data draws",
        "set dropout to 0",
    ),
    "noise": (lambda: Own(lambda x: x + torch.randn_like(x)), "the task's model, loss or data draws", "`augment`"),
    "numpy": (lambda: Own(lambda x: x * float(np.random.rand())), "the task's model, loss or data draws", "`augment`"),
    "a buffer": (Counting, "changes 'mean' in training", "keeps its buffers"),
}


@pytest.mark.parametrize("case", MODELS)
def test_models(case: str, make_trainer: Make) -> None:
    torch.manual_seed(0)
    build, what, advice = MODELS[case]
    head = ("1",) if "norm" in case else ()
    peer = make_trainer(build(), torch.randn(N, 4), torch.randint(3, (N,)), head=head)
    before, states = peer.model.data.clone(), (torch.get_rng_state(), np.random.get_state(legacy=True)[1].copy())
    message = refusal(peer)
    assert what in message
    assert advice in message
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


@pytest.mark.parametrize("channels", [1, 2, 6, 10, 16, 48, 64])
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
