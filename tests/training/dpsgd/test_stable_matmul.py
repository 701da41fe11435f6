"""Padded products: the result of torch, with the same last bits for an example at every place."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import grad, vmap

from dpeer.training.dpsgd.stable_matmul import padded_products

ROWS = 64


def test_linear_layers_have_no_edges() -> None:
    """Copies of an example get the same bits at every place, and the result is that of torch."""

    @padded_products()
    def gradients(layer: nn.Linear, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = x.clone().requires_grad_()
        out = layer(x)
        return (out, *torch.autograd.grad(out.sin().sum(), [x, layer.weight]))

    torch.manual_seed(0)
    for inputs, outputs in ((6, 10), (50, 5), (30, 2), (13, 17), (16, 32), (1, 1)):
        for bias in (True, False):
            layer = nn.Linear(inputs, outputs, bias=bias)
            x = torch.randn(64, inputs)
            found, expected = gradients(layer, x), gradients.__wrapped__(layer, x)
            for one, other in zip(found, expected, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
            for row in x[:5]:
                out, back, _ = gradients(layer, row.expand(64, -1).contiguous())
                assert torch.equal(out, out[:1].expand_as(out))
                assert torch.equal(back, back[:1].expand_as(back))


def places_of(compute: Callable[[Tensor], Tensor], one: Tensor) -> set[bytes]:
    """What is computed of equal examples at all places."""
    return {row.numpy().tobytes() for row in padded_products()(compute)(one.expand(ROWS, *one.shape).contiguous())}


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
    torch.testing.assert_close(padded_products()(of_weight)(one[None]), of_weight(one[None]), rtol=1e-4, atol=1e-4)


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
    torch.testing.assert_close(padded_products()(attended)(heads[None]), attended(heads[None]), rtol=1e-4, atol=1e-5)
