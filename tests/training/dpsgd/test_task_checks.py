"""What couples examples, draws, or cannot be cut is refused in one line that says what would be right."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pack_sequence

from dpeer.exceptions import ConfigurationError, TaskError
from dpeer.privacy.mechanism import ClippedSum
from dpeer.training import replace_batch_norm
from dpeer.training.device import Compute
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


def summed(outputs: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(outputs, targets, reduction="sum")


def weighted(outputs: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(outputs, targets, weight=torch.tensor([1.0, 5.0, 20.0]))


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


@pytest.mark.parametrize(
    ("loss", "what"),
    [
        (summed, "is not the mean of its examples' losses"),
        (weighted, "leave out weights of classes"),
        (lambda outputs, targets: outputs[:, :2], "shape (1, 2)"),
        (lambda outputs, targets: outputs.mean().item(), "gave a float; it must give a tensor"),
    ],
)
def test_losses(loss: Any, what: str, make_trainer: Make) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    assert what in refusal(make_trainer(model, torch.randn(N, 4), torch.tensor([0, 1, 2, 0, 1, 2]), loss=loss))


def test_a_loss_of_all_pairs(make_trainer: Make) -> None:
    def absolute(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).abs().mean()

    torch.manual_seed(0)
    message = refusal(make_trainer(nn.Linear(4, 1), torch.randn(N, 4), torch.randn(N), loss=absolute))
    assert f"compares each output with all targets: the outputs have shape ({N}, 1)" in message


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


def test_sparse_inputs(make_trainer: Make) -> None:
    peer = make_trainer(nn.Linear(4, 3), torch.randn(N, 4).to_sparse(), torch.tensor([0, 1, 2, 0, 1, 2]))
    assert "the task's inputs are a sparse coo tensor: privacy at sample level needs dense ones" in refusal(peer)


def test_a_target_that_is_ignored(make_trainer: Make) -> None:
    torch.manual_seed(0)
    peer = make_trainer(nn.Linear(4, 3), torch.randn(N, 4), torch.tensor([0, -100, 2, 0, 1, 2]))
    assert "targets that a loss ignores have none" in refusal(peer)


def padded(samples: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Series padded to the longest of the batch."""
    xs, ys = zip(*samples, strict=True)
    return nn.utils.rnn.pad_sequence(list(xs), batch_first=True), torch.stack(ys)


class Mean(nn.Module):
    """The mean over time, padding included."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(x.mean(1))
        return out


def test_padding_to_the_longest_of_a_batch(make_trainer: Make) -> None:
    torch.manual_seed(0)
    data = [(torch.randn(2 + i, 4), torch.tensor(i % 3)) for i in range(N)]
    message = refusal(make_trainer(Mean(), None, None, data=data, collate=padded))
    assert "give inputs float32[2, 4] for one example and float32[3, 4] for another" in message


def test_what_cannot_be_cut(make_trainer: Make) -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(4, 3)

        def forward(self, x: Any) -> Tensor:
            out: Tensor = self.lstm(x)[1][0][0]
            return out

    torch.manual_seed(0)
    data = [(torch.randn(2, 4), torch.tensor(i % 3)) for i in range(N)]

    def pack(samples: list[tuple[Tensor, Tensor]]) -> Any:
        return pack_sequence([x for x, _ in samples]), torch.stack([y for _, y in samples])

    def first_last(samples: list[tuple[Tensor, Tensor]]) -> Any:
        return torch.stack([x for x, _ in samples], 1), torch.stack([y for _, y in samples])

    def beside(samples: list[tuple[Tensor, Tensor]]) -> Any:
        return (torch.stack([x for x, _ in samples]), "words"), torch.stack([y for _, y in samples])

    class First(nn.Module):
        def __init__(self, over: int) -> None:
            super().__init__()
            self.out, self.over = nn.Linear(4, 3), over

        def forward(self, x: Tensor, words: str = "") -> Tensor:
            out: Tensor = self.out(x.mean(self.over))
            return out

    assert "PackedSequence" in refusal(make_trainer(Packed(), None, None, data=data, collate=pack))
    assert "first dimension is the batch's" in refusal(
        make_trainer(First(0), None, None, data=data, collate=first_last)
    )
    assert "a str beside tensors" in refusal(make_trainer(First(1), None, None, data=data, collate=beside))


def test_half_precision(make_trainer: Make) -> None:
    peer = make_trainer(nn.Linear(4, 3), torch.randn(N, 4), torch.randint(3, (N,)))
    peer.compute = Compute(amp="bf16")
    with pytest.raises(ConfigurationError, match=r"--amp bf16: .* leave --amp out"):
        PrivateGradient(ClippedSum(1.0, 1.0, 0.5, N)).start(peer, peer.model)


def test_class_weights(make_trainer: Make) -> None:
    balanced = {"class_weights": "balanced"}
    peer = make_trainer(nn.Linear(4, 3), torch.randn(N, 4), torch.randint(3, (N,)), hyperparameters=balanced)
    with pytest.raises(ConfigurationError, match=r"--class-weights balanced: .* leave it out"):
        PrivateGradient(ClippedSum(1.0, 1.0, 0.5, N)).start(peer, peer.model)


def test_an_error_of_the_task_is_the_tasks(make_trainer: Make) -> None:
    peer = make_trainer(nn.Linear(5, 3), torch.randn(N, 4), torch.randint(3, (N,)))
    assert "the task's model failed on a training example" in refusal(peer)


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ((0.0, 1.0, 0.5, 10), "--clip-norm 0"),
        ((float("nan"), 1.0, 0.5, 10), "--clip-norm nan"),
        ((float("inf"), 1.0, 0.5, 10), "--clip-norm inf"),
        ((1.0, -1.0, 0.5, 10), "--noise-multiplier -1"),
        ((1.0, float("inf"), 0.5, 10), "--noise-multiplier inf"),
        ((1.0, 1.0, 0.0, 10), "--sampling-rate 0"),
        ((1.0, 1.0, 1.5, 10), "--sampling-rate 1.5"),
        ((1.0, 1.0, 0.5, 0), "units 0"),
    ],
)
def test_numbers_beyond_their_limits(values: tuple[float, float, float, int], what: str) -> None:
    with pytest.raises(ConfigurationError, match=what.replace("-", r"\-")):
        ClippedSum(*values)


def test_a_microbatch_of_none() -> None:
    with pytest.raises(ConfigurationError, match="--microbatch 0"):
        PrivateGradient(ClippedSum(1.0, 1.0, 0.5, 10), 0)
