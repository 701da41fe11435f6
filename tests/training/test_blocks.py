"""Blocks: every value is in exactly one, and in attention each head's queries, keys and values are by themselves."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dpeer.exceptions import TaskError
from dpeer.training.algorithms.moments import Blocks, blocks_of
from dpeer.training.models.networks import DigitsNet, ResNet18


def named(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]


def blocks(model: nn.Module, grouping: Any = "layer") -> tuple[Blocks, list[str]]:
    """The blocks, after a look whether each value is in one of them; and of which parameters values are in each."""
    found = blocks_of(model, named(model), grouping)
    count = sum(parameter.numel() for _, parameter in named(model))
    seen = torch.zeros(count)
    for pieces in found.pieces.values():
        for piece in pieces:
            piece.of(seen).add_(1)
    assert (seen == 1).all()
    return found, [*found.pieces]


def members(model: nn.Module, found: Blocks, block: str) -> dict[str, np.ndarray]:
    """Which values of which parameters are in a block."""
    count = sum(parameter.numel() for _, parameter in named(model))
    there, offset, shown = torch.zeros(count), 0, {}
    for piece in found.pieces[block]:
        piece.of(there).fill_(1)
    for name, parameter in named(model):
        mask = there[offset : offset + parameter.numel()].view(parameter.shape).numpy()
        offset += parameter.numel()
        if mask.any():
            shown[name] = mask
    return shown


def test_a_layer_is_a_block_with_its_bias_and_what_a_container_has_itself_is_one() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.places = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(2, 3))
            self.body = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3))
            self.empty = nn.Parameter(torch.zeros(0))

    assert blocks(Net())[1] == ["token", "places", "body.0", "body.1"]
    assert len(blocks(nn.Linear(2, 2))[1]) == 1


def test_means_and_spreading() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1, bias=False))
    found, _ = blocks(model)
    values = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 9.0, -1.0, 2.0])
    means = found.means(values)
    assert means.tolist() == [4.0, 0.5]
    found.spread(torch.tensor([7.0, -1.0]), values)
    assert values.tolist() == [7.0] * 6 + [-1.0] * 2
    assert len(found) == 2


def test_torchs_attention() -> None:
    model = nn.Sequential(nn.MultiheadAttention(12, 3))
    found, names = blocks(model)
    heads = [f"0.{part}.{head}" for part in "qkv" for head in range(3)]
    assert names == [*heads, "0.out_proj"]
    shown = members(model, found, "0.k.1")
    rows = np.zeros(36)
    rows[12 + 4 : 12 + 8] = 1
    np.testing.assert_array_equal(shown.pop("0.in_proj_weight"), np.repeat(rows[:, None], 12, axis=1))
    np.testing.assert_array_equal(shown.pop("0.in_proj_bias"), rows)
    assert not shown
    other = nn.Sequential(nn.MultiheadAttention(12, 3, kdim=5, add_bias_kv=True))
    found, names = blocks(other)
    assert {*names} == {*heads, "0.out_proj", "0.bias_k", "0.bias_v"}
    assert {*members(other, found, "0.k.1")} == {"0.k_proj_weight", "0.in_proj_bias"}


def test_three_layers_beside_the_number_of_their_heads() -> None:
    class Attention(nn.Module):
        def __init__(self, **heads: int) -> None:
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(6, 8) for _ in range(3))
            self.dense = nn.Linear(8, 6)
            for name, number in heads.items():
                setattr(self, name, number)

    model = nn.Sequential(Attention(num_attention_heads=2))
    found, names = blocks(model)
    assert names == [*(f"0.{part}.{head}" for part in ("query", "key", "value") for head in range(2)), "0.dense"]
    weight = members(model, found, "0.value.1")
    assert weight["0.value.weight"].sum(axis=1).tolist() == [0, 0, 0, 0, 6, 6, 6, 6]
    assert weight["0.value.bias"].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    layers = ["0.query", "0.key", "0.value", "0.dense"]
    assert blocks(nn.Sequential(Attention()))[1] == layers, "nobody says how many heads there are"
    assert blocks(nn.Sequential(Attention(num_heads=3)))[1] == layers, "they do not divide the outputs"
    above = Attention()
    outer = nn.Module()
    outer.self, outer.n_heads = above, 4
    assert len(blocks(outer)[1]) == 3 * 4 + 1, "the module above says it"


def test_one_layer_for_all_three() -> None:
    attention = nn.Module()
    attention.qkv, attention.num_heads = nn.Linear(8, 24), 2
    found, names = blocks(attention)
    assert names == [f"qkv.{part}.{head}" for part in "qkv" for head in range(2)]
    shown = members(attention, found, "qkv.k.1")
    outputs = np.zeros(24)
    outputs[8 + 4 : 8 + 8] = 1
    np.testing.assert_array_equal(shown["qkv.weight"], np.repeat(outputs[:, None], 8, axis=1))
    np.testing.assert_array_equal(shown["qkv.bias"], outputs)


def test_residual_blocks() -> None:
    model = ResNet18((3, 32, 32), 10)
    _, layers = blocks(model)
    _, found = blocks(model, "residual")
    assert found == ["stem.0", "stem.1", *(f"blocks.{number}" for number in range(8)), "head"]
    assert len(layers) == 20 + 20 + 1, "convolutions, their norms, and the head"
    assert len(blocks(DigitsNet())[1]) == 6 + 1, "docs/algorithms.md says the bytes without the head"
    with pytest.raises(TaskError):
        blocks(nn.Sequential(nn.Linear(2, 2)), "residual")


@pytest.mark.slow
@pytest.mark.parametrize(("adapted", "count"), [((), 496), (("q_proj", "v_proj"), 312)])
def test_the_bytes_of_a_vit_base_are_those_of_the_docs(adapted: tuple[str, ...], count: int) -> None:
    library, peft = pytest.importorskip("transformers"), pytest.importorskip("peft")
    with torch.device("meta"):
        model = library.ViTForImageClassification(library.ViTConfig())
        if adapted:
            model = peft.inject_adapter_in_model(peft.LoraConfig(r=16, target_modules=[*adapted]), model)
    body = [(name, parameter) for name, parameter in named(model) if not name.startswith("classifier")]
    assert len(blocks_of(model, body)) == count
