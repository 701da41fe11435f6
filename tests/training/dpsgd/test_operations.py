"""Which operations may compute several examples at once, and what happens to a task that uses others."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import grad, vmap
from torch.utils.data import TensorDataset

from dpeer.exceptions import TaskError
from dpeer.privacy.mechanism import ClippedSum
from dpeer.training.dpsgd.choosing import WAYS, choose
from dpeer.training.dpsgd.gradient import PrivateGradient
from dpeer.training.dpsgd.operations import is_known
from dpeer.training.dpsgd.stable_matmul import Unsuited, steadily
from dpeer.training.minibatches import Batch
from dpeer.training.trainer import Trainer

ROWS = 64

Compute = Callable[[Tensor], Tensor]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("add.Tensor", True), ("add_.Tensor", True), ("gelu_backward", True), ("abs_", True), ("squeeze_.dim", True),
        ("view", True), ("as_strided_", True), ("mm", True), ("convolution_backward", True), ("_softmax", True),
        ("_softmax_backward_data", True), ("nll_loss_forward", True), ("sum.dim_IntList", True), ("sort", True),
        ("embedding_dense_backward", True), ("select_backward", True), ("unsafe_split.Tensor", True),
        ("_local_scalar_dense", False), ("nonzero", False), ("masked_select", False), ("is_nonzero", False),
        ("linalg_cholesky_ex", False), ("_fft_c2c", False), ("native_dropout", False), ("bernoulli_.float", False),
        ("rand_like", False), ("index_fill.int_Scalar", False), ("_unique2", False), ("_cdist_forward", False),
        ("bincount", False),
    ],
)  # fmt: skip
def test_which_are_known(name: str, known: bool) -> None:
    packet, _, overload = name.partition(".")
    assert is_known(getattr(getattr(torch.ops.aten, packet), overload or "default")) == known


def test_operations_from_elsewhere_are_not_known() -> None:
    """Anybody may register one."""
    assert not is_known(torch.ops.prims.add.default)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x[x > 0],
        lambda x: x.repeat_interleave(x[0].int().abs(), 0),
        lambda x: x if bool((x > 0).all()) else -x,
        lambda x: torch.fft.rfft(x).abs(),
        lambda x: torch.linalg.inv(x[:4, :4]),
        lambda x: x.half().float(),
        lambda x: x.bfloat16() + 1,
        lambda x: x.to(torch.complex64).real,
        lambda x: x[torch.tensor([99])],
        torch.rand_like,
    ],
)
def test_what_is_refused(compute: Compute) -> None:
    with pytest.raises(Unsuited):
        steadily()(compute)(torch.randn(8, 8))


def bare(x: Tensor) -> Tensor:
    try:
        return torch.embedding(x, torch.tensor([99]))
    except:  # noqa: E722
        return x


def finally_anyway(x: Tensor) -> Tensor:
    try:
        x = torch.embedding(x, torch.tensor([99]))
    finally:
        return x  # noqa: B012


def outside_of_the_table(x: Tensor) -> Tensor:
    return torch.embedding(x, torch.tensor([99]))


def scripted(x: Tensor) -> Tensor:
    with warnings.catch_warnings(action="ignore"):
        look_up = torch.jit.script(outside_of_the_table)
    try:
        return look_up(x)
    except RuntimeError:
        return x


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("compute", [bare, finally_anyway, scripted])
def test_code_that_catches_what_an_operation_raises_does_not_go_on(compute: Compute) -> None:
    """It would do something else for all examples, because of one."""
    with pytest.raises(Unsuited):
        steadily()(compute)(torch.randn(8, 8))


def test_a_table_of_an_examples_own_is_not_looked_up() -> None:
    """A place beyond its end would lie in another example's."""
    tables, places = torch.randn(8, 5, 2), torch.full((8, 1), 5)
    with pytest.raises(Unsuited):
        steadily()(vmap(nn.functional.embedding))(places, tables)


def places_of(compute: Callable[[Tensor], Tensor], one: Tensor) -> set[bytes]:
    """What is computed of equal examples at all places."""
    return {row.numpy().tobytes() for row in steadily()(compute)(one.expand(ROWS, *one.shape).contiguous())}


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("places", [7, 13])
def test_a_filter_of_one_place_has_the_same_gradient_everywhere(stride: int, places: int) -> None:
    """And that of torch."""
    torch.manual_seed(0)
    one, weight = torch.randn(17, places), torch.randn(3, 17, 1)

    def of_weight(examples: Tensor) -> Tensor:
        def loss(weight: Tensor, x: Tensor) -> Tensor:
            return nn.functional.conv1d(x[None], weight, stride=stride, padding=1).sin().sum()

        found: Tensor = vmap(grad(loss), in_dims=(None, 0))(weight, examples)
        return found

    assert len(places_of(of_weight, one)) == 1
    torch.testing.assert_close(steadily()(of_weight)(one[None]), of_weight(one[None]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mask", [None, "causal", "numbers", "truths"])
@pytest.mark.parametrize("length", [7, 33])
def test_attention_is_the_same_everywhere(length: int, mask: str | None) -> None:
    """With heads of an odd number of features; and that of torch, with gradients."""
    torch.manual_seed(0)
    heads = torch.randn(2, length, 5)
    given: dict[str, Any] = {"is_causal": mask == "causal"}
    if mask in ("numbers", "truths"):
        seen = torch.rand(length, length) < 0.7
        seen.fill_diagonal_(True)
        given["attn_mask"] = seen if mask == "truths" else torch.where(seen, 0.0, -1e9)

    def attended(examples: Tensor) -> Tensor:
        x = examples.detach().requires_grad_()
        out = nn.functional.scaled_dot_product_attention(x, x.sin(), x.cos(), **given)
        (found,) = torch.autograd.grad(out.square().sum(), x)
        return torch.cat([out.detach(), found], -1)

    assert len(places_of(attended, heads)) == 1
    torch.testing.assert_close(steadily()(attended)(heads[None]), attended(heads[None]), rtol=1e-4, atol=1e-5)


class Choosing(nn.Module):
    """Does something else with tensors that are `odd` of their examples than with others."""

    def __init__(self, other: Compute) -> None:
        super().__init__()
        self.layer, self.other, self.odd = nn.Linear(4, 3), other, False

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x)
        return self.other(out) if self.odd else out


def example_data() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(ROWS, 4), torch.randint(3, (ROWS,))


def of_trainer(make_trainer: Callable[..., Trainer], model: nn.Module, **named: Any) -> tuple[Trainer, PrivateGradient]:
    x, y = example_data()
    peer = make_trainer(model, x, y, data=TensorDataset(x, y), **named)
    return peer, PrivateGradient(ClippedSum(1.0, 1.0, 1.0, ROWS), 64)


def step(peer: Trainer, rule: PrivateGradient) -> None:
    with peer.training(peer.model):
        rule(peer, peer.model, Batch(*example_data(), ROWS))


@pytest.mark.parametrize(
    "other", [lambda out: out + torch.fft.fft(out).real, lambda out: out[:, torch.tensor([0, 1, 99])]]
)
def test_another_operation_in_a_later_step_ends_the_run(other: Compute, make_trainer: Callable[..., Trainer]) -> None:
    """To compute that step in another way would change the last bits of all gradients, because of one example."""
    model = Choosing(other)
    peer, rule = of_trainer(make_trainer, model, vmap=True)
    step(peer, rule)
    assert rule._ways["model"] is WAYS["vectorized"]
    model.odd = True
    with pytest.raises(TaskError, match=r"same operations for every example|model failed on a training example"):
        step(peer, rule)


def test_a_model_of_the_library_that_looks_at_masks_is_computed_one_by_one(
    make_trainer: Callable[..., Trainer],
) -> None:
    """It leaves the mask out where nobody is padded: one padded text would change what is computed of all."""
    pytest.importorskip("transformers")
    from dpeer.training.models.library import BertConfig, BertForSequenceClassification

    class Scores(BertForSequenceClassification):
        def forward(self, numbers: Tensor) -> Tensor:
            scores: Tensor = super().forward(numbers, attention_mask=numbers.ne(0).long()).logits
            return scores

    sizes = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = Scores(BertConfig(**sizes, **dropout, intermediate_size=8, max_position_embeddings=8))
    numbers = torch.randint(1, 20, (ROWS, 6))
    peer = make_trainer(model, numbers, torch.randint(2, (ROWS,)))
    with peer.training(peer.model):
        assert choose(peer, peer.model, ROWS) is WAYS["one-by-one"]
