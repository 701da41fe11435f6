"""Per-example gradients of every kind of layer equal those of a loop of single backward passes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from dpeer.training.dpsgd import backend_choice, separable_layers
from dpeer.training.dpsgd.backend_choice import choose
from dpeer.training.dpsgd.backends import UnsupportedModel
from dpeer.training.dpsgd.by_layers import by_layers
from dpeer.training.dpsgd.gradient_factors import DenseGradients
from dpeer.training.models.networks import Block
from dpeer.training.trainer import Trainer

from .conftest import BACKENDS, assert_those_of_a_loop, by_a_loop

N = 6


@pytest.fixture(autouse=True)
def these_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules of this file keep examples apart; nobody but their author can know that of one's own."""
    monkeypatch.setattr(separable_layers, "SOURCES", (*separable_layers.SOURCES, __name__))


class Attention(nn.Module):
    """Tokens, places, one block of self-attention, the mean over places, classes."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 8, padding_idx=0)
        self.places = nn.Parameter(torch.randn(5, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm, self.out = nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places
        x = self.norm(x + self.attention(x, x, x, need_weights=False)[0])
        out: Tensor = self.out(x.mean(1))
        return out


class OwnAttention(nn.Module):
    """The same of nothing but linear layers, norms and embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 8, padding_idx=0), nn.Embedding(5, 8)
        self.both, self.norm, self.out = nn.Linear(8, 24), nn.LayerNorm(8), nn.Linear(8, 3, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(5).expand_as(tokens))
        q, k, v = self.both(x).chunk(3, -1)
        x = self.norm(x + nn.functional.scaled_dot_product_attention(q, k, v))
        out: Tensor = self.out(x.mean(1))
        return out


class Twice(nn.Module):
    """One layer that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(self.inner(self.inner(x).tanh()).tanh())
        return out


class Unused(nn.Module):
    """Has a layer whose output is thrown away, and one that is not called."""

    def __init__(self) -> None:
        super().__init__()
        self.thrown, self.idle, self.out = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        self.thrown(x)
        out: Tensor = self.out(x)
        return out


class Looking(nn.Module):
    """Decides by its values, so torch cannot vectorize it, and has a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.out, self.scale = nn.Linear(4, 3), nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(x) * self.scale
        return out if float(x.detach().abs().max()) < 1e9 else -out


class Recurrent(nn.Module):
    """An LSTM: its parameters are not used by layers that the hooks know."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(4, 16, batch_first=True), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(self.lstm(x)[0][:, -1])
        return out


def images(*layers: nn.Module, features: int) -> nn.Module:
    return nn.Sequential(*layers, nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(features, 3))


def flattened(layer: nn.Module, features: int) -> nn.Module:
    return nn.Sequential(layer, nn.Flatten(), nn.Linear(features, 3))


def two(first: nn.Module, *between: nn.Module, features: int) -> nn.Module:
    return nn.Sequential(first, *between, nn.Linear(features, 3))


WORDS = 9
Draw = tuple[int, ...] | Callable[[], Tensor]
CASES: dict[str, tuple[Callable[[], nn.Module], Draw, str]] = {
    "linear": (lambda: two(nn.Linear(4, 5), nn.ReLU(inplace=True), features=5), (4,), "layers"),
    "linear along a series": (lambda: two(nn.Linear(4, 5), nn.Tanh(), nn.Flatten(), features=35), (7, 4), "layers"),
    "conv1d": (lambda: images(nn.Conv1d(2, 4, 3, stride=2, padding=1, dilation=2), features=16), (2, 9), "layers"),
    "conv2d": (lambda: images(nn.Conv2d(2, 4, (3, 2), (2, 1), (1, 0)), features=96), (2, 7, 7), "layers"),
    "conv2d in groups": (
        lambda: images(nn.Conv2d(4, 6, 3, groups=2, bias=False, dilation=2), features=54), (4, 7, 7), "layers",
    ),
    "conv2d, channels last": (
        lambda: images(nn.Conv2d(3, 4, 3), features=100),
        lambda: torch.randn(N, 3, 7, 7).contiguous(memory_format=torch.channels_last),
        "layers",
    ),
    "conv3d": (lambda: images(nn.Conv3d(1, 2, 2, stride=2), features=16), (1, 4, 4, 4), "layers"),
    "padding same": (lambda: images(nn.Conv2d(1, 2, 3, padding="same"), features=32), (1, 4, 4), "vectorized"),
    "group norm": (lambda: images(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), features=36), (2, 5, 5), "layers"),
    "residual blocks": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 32, 3), Block(32, 32, 1), Block(32, 64, 2), nn.AdaptiveAvgPool2d(1), flattened(nn.ReLU(), 64)
        ), (1, 6, 6), "layers",
    ),
    "layer norm": (lambda: two(nn.Linear(4, 6), nn.LayerNorm(6), nn.ReLU(), features=6), (4,), "layers"),
    "layer norm over two dimensions": (
        lambda: flattened(nn.LayerNorm((3, 4)), 12), lambda: torch.randn(N, 2, 3, 4)[:, 0], "layers",
    ),
    "embedding": (
        lambda: flattened(nn.Embedding(WORDS, 4, padding_idx=2), 20), lambda: torch.randint(WORDS, (N, 5)), "layers",
    ),
    "embedding with sparse gradients": (
        lambda: flattened(nn.Embedding(WORDS, 4, sparse=True), 20), lambda: torch.randint(WORDS, (N, 5)), "one-by-one",
    ),
    "attention": (Attention, lambda: torch.randint(11, (N, 5)), "vectorized"),
    "attention of layers": (OwnAttention, lambda: torch.randint(11, (N, 5)), "layers"),
    "a layer called twice": (Twice, (4,), "vectorized"),
    "layers of no use": (Unused, (4,), "vectorized"),
    "lstm": (Recurrent, (5, 4), "one-by-one"),
    "a model that looks at its values": (Looking, (4,), "one-by-one"),
}  # fmt: skip


def setting(case: str, make: Callable[..., Trainer], **changes: Any) -> tuple[Trainer, Tensor, Tensor]:
    torch.manual_seed(0)
    build, draw, _ = CASES[case]
    model, x = build(), torch.randn(N, *draw) if isinstance(draw, tuple) else draw()
    y = torch.randint(3, (N,))
    return make(model, x, y, **changes), x, y


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_a_loop_and_the_start_takes_the_quickest_backend_that_suits(
    case: str, make_trainer: Callable[..., Trainer]
) -> None:
    peer, x, y = setting(case, make_trainer)
    assert_those_of_a_loop(peer, x, y, CASES[case][2])
    with peer.training(peer.model):
        assert choose(peer, peer.model, N) is BACKENDS[CASES[case][2]]


@pytest.mark.parametrize(("change", "taken"), [(1e-7, False), (1e-9, True)])
def test_a_backend_whose_gradients_depend_on_their_place_is_not_taken(
    change: float, taken: bool, make_trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a last bit of float32, as products do that add up in another order elsewhere."""

    def shaky(*arguments: Any) -> Any:
        found = by_layers(*arguments)
        moved = 1 + change * torch.arange(found.examples)[:, None]
        every = torch.eye(found.examples)
        return replace(found, parts=[(place, DenseGradients(part.sums(every) * moved)) for place, part in found.parts])

    monkeypatch.setattr(backend_choice, "by_layers", shaky)
    peer, _, _ = setting("linear", make_trainer)
    with peer.training(peer.model):
        assert (choose(peer, peer.model, 8) is shaky) == taken


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("trained", ["body", "head"])
def test_only_one_part_is_computed(name: str, trained: str, make_trainer: Callable[..., Trainer]) -> None:
    peer, x, y = setting("linear", make_trainer, head=("2",))
    part = {"body": peer.body, "head": peer.head}[trained]
    for parameter in peer.module.parameters():
        parameter.requires_grad_(True)
    expected = by_a_loop(peer.module, x, y)
    expected = expected[:, : peer.body.count] if trained == "body" else expected[:, peer.body.count :]
    with peer.training(part):
        found = BACKENDS[name](peer, part, x, y, N).sums(torch.eye(N))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", BACKENDS)
def test_losses_of_other_kinds(name: str, make_trainer: Callable[..., Trainer]) -> None:
    """A loss for each example, and one that looks at its values, which vmap cannot have."""
    torch.manual_seed(0)
    model, x, y = nn.Linear(4, 1), torch.randn(N, 4), torch.randn(N, 1)

    def each(outputs: Tensor, targets: Tensor) -> Tensor:
        return mse_loss(outputs, targets, reduction="none").mean(1)

    def looking(outputs: Tensor, targets: Tensor) -> Tensor:
        assert float(outputs.detach().abs().max()) < 1e9
        return mse_loss(outputs, targets)

    expected = by_a_loop(model, x, y, mse_loss)
    for loss in (each, looking):
        peer = make_trainer(model, x, y, loss=loss)
        with peer.training(peer.model):
            if (loss, name) == (looking, "vectorized"):
                with pytest.raises(UnsupportedModel):
                    BACKENDS[name](peer, peer.model, x, y, N)
                continue
            found = BACKENDS[name](peer, peer.model, x, y, N).sums(torch.eye(N))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


class Sorted(nn.Module):
    """Sorts a batch, and gives each example a little of the one before it."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(x)
        order = x[:, 0].argsort()
        return out + 1e-9 * out[order.roll(1)][order.argsort()]


def test_a_model_of_ones_own_is_computed_one_by_one(
    make_trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that no gradient holds another one's record, whatever the code does; unless its author vouches for it."""
    monkeypatch.undo()
    torch.manual_seed(0)
    x, y = torch.randn(N, 4), torch.randint(3, (N,))
    peer = make_trainer(Sorted(), x, y)
    with peer.training(peer.model):
        assert choose(peer, peer.model, N) is BACKENDS["one-by-one"]
        found = BACKENDS["one-by-one"](peer, peer.model, x, y, N).sums(torch.eye(N))
    torch.testing.assert_close(found, by_a_loop(peer.module, x, y), rtol=1e-4, atol=1e-5)
    vouched = make_trainer(OwnAttention(), torch.randint(11, (N, 5)), y, vmap=True)
    with vouched.training(vouched.model):
        assert choose(vouched, vouched.model, N) is BACKENDS["vectorized"]
