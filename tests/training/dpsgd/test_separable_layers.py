"""Which models are known to keep examples apart."""

from collections.abc import Callable

import pytest
from torch import Tensor, nn

from dpeer.training.dpsgd.separable_layers import is_known_loss, is_known_model
from dpeer.training.models import build_model
from dpeer.training.models.scaling import ScaledLoss


class Own(nn.Sequential):
    """May do anything."""


class Changed(nn.Linear):
    """May do anything, too."""


def usual() -> nn.Sequential:
    return nn.Sequential(nn.Embedding(5, 4), nn.LayerNorm(4), nn.Flatten(), nn.Linear(8, 3), nn.ReLU())


def with_forward() -> nn.Module:
    made = nn.Linear(3, 3)
    made.forward = lambda x: x.flip(0)
    return made


def with_hook(register: str) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        made = usual()
        getattr(made[3], register)(lambda *_: None)
        return made

    return make


def bert_layer() -> nn.Module:
    """By itself, not within a model of dpeer's."""
    transformers = pytest.importorskip("transformers")
    from transformers.models.bert.modeling_bert import BertLayer as Layer

    return Layer(transformers.BertConfig(hidden_size=8, num_attention_heads=2, intermediate_size=8))


def parametrized() -> nn.Module:
    return nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))


@pytest.mark.parametrize(
    ("make", "known"),
    [
        (usual, True),
        (lambda: build_model("digits", (1, 8, 8), 10), True),
        (lambda: build_model("resnet18-gn", (3, 32, 32), 10), True),
        (lambda: Own(nn.Linear(3, 3)), False),
        (lambda: nn.Sequential(nn.Linear(3, 3), Own()), False),
        (lambda: Changed(3, 3), False),
        (with_forward, False),
        (with_hook("register_forward_hook"), False),
        (with_hook("register_forward_pre_hook"), False),
        (with_hook("register_full_backward_hook"), False),
        (parametrized, False),
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(64, 10, [2, 5]), False),
        (lambda: nn.BatchNorm1d(3), False),
        (lambda: nn.EmbeddingBag(3, 3), False),
        (lambda: nn.TransformerEncoderLayer(8, 2, batch_first=True), True),
        (lambda: nn.TransformerEncoderLayer(8, 2), False),  # attends along the batch where that stands first
        (lambda: nn.TransformerEncoderLayer(8, 2, batch_first=True, activation=lambda x: x - x.amax()), False),
        (lambda: nn.MultiheadAttention(8, 2), False),
        (lambda: nn.Softmax(1), True),
        (lambda: nn.Softmax(0), False),
        (lambda: nn.Softmax(), False),
        (lambda: nn.GLU(0), False),
        (lambda: nn.Flatten(0), False),
        (lambda: nn.Unflatten(0, (2, 2)), False),
        (lambda: nn.ZeroPad2d((0, 0, 1, -1)), False),  # of two dimensions it moves rows
        (lambda: nn.Embedding(5, 4, max_norm=1.0), False),
        (lambda: nn.Embedding(5, 4, scale_grad_by_freq=True), False),
        (lambda: nn.LSTM(3, 3), False),
        (bert_layer, False),
    ],
)
def test_only_modules_whose_code_is_known(make: Callable[[], nn.Module], known: bool) -> None:
    assert is_known_model(make()) == known


def test_transformers_of_the_library_are_known() -> None:
    pytest.importorskip("transformers")
    for name in ("vit-tiny", "swin-tiny"):
        assert is_known_model(build_model(name, (3, 32, 32), 10, {}))


class Same(nn.CrossEntropyLoss):
    """May do anything."""


@pytest.mark.parametrize(
    ("loss", "known"),
    [
        (nn.functional.cross_entropy, True),
        (nn.functional.mse_loss, True),
        (nn.CrossEntropyLoss(), True),
        (ScaledLoss(2.0), True),
        (lambda outputs, targets: nn.functional.cross_entropy(outputs, targets), False),
        (Same(), False),
        (nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: a.amax()), False),
    ],
)
def test_only_losses_whose_code_is_known(loss: Callable[..., Tensor], known: bool) -> None:
    assert is_known_loss(loss) == known
