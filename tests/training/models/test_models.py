"""The built-in models: their sizes, shapes, heads and weights."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from dpeer.exceptions import TaskError
from dpeer.training import Task, build_learner
from dpeer.training.models import MODELS, build_model, drops, last_linear

SIZES: dict[str, tuple[tuple[int, ...], int, int, tuple[int, ...]]] = {
    "cnn": ((3, 32, 32), 10, 90_826, (1, 8, 8)),
    "digits": ((1, 8, 8), 10, 15_498, (1, 8, 8)),
    "resnet18-gn": ((3, 32, 32), 10, 11_173_962, (3, 32, 32)),
    "dp-cnn": ((3, 32, 32), 10, 667_402, (3, 32, 32)),
    "emnist-cnn": ((1, 28, 28), 62, 1_206_590, (1, 28, 28)),
    "fedavg-cnn": ((1, 28, 28), 10, 1_663_370, (1, 28, 28)),
    "cnn1d": ((9, 128), 6, 24_838, (9, 128)),
    "small-body": ((9, 128), 6, 6_874, (9, 128)),
    "mlp": ((30,), 2, 2_114, (30,)),
    "vit-tiny": ((3, 224, 224), 1000, 5_717_416, (1, 8, 8)),
    "vit-base": ((3, 224, 224), 1000, 86_567_656, (1, 8, 8)),
    "swin-tiny": ((3, 224, 224), 1000, 28_288_354, (1, 8, 8)),
    "swin-base": ((3, 224, 224), 1000, 87_768_224, (1, 8, 8)),
}
"""A shape and number of outputs of papers, the parameters then, and a shape that is quick to try."""
SHAPES = {name: small for name, (_, _, _, small) in SIZES.items()}
SMALL: dict[str, dict[str, Any]] = {
    "vit-tiny": {"layers": 2, "width": 24, "heads": 3},
    "vit-base": {"layers": 2, "width": 24, "heads": 3},
    "swin-tiny": {"layers": [2, 2], "width": 12, "heads": [2, 4], "window": 3},
    "swin-base": {"layers": [2, 2], "width": 12, "heads": [2, 4], "window": 3},
}
"""Options with which large models are quick to build and to call."""


def build(name: str, shape: tuple[int, ...], outputs: int, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return build_model(name, shape, outputs, SMALL.get(name, {}))


@pytest.mark.parametrize("name", SIZES)
def test_models_have_the_published_numbers_of_parameters(name: str) -> None:
    shape, outputs, count, _ = SIZES[name]
    with torch.device("meta"):  # nothing but shapes
        model = build_model(name, shape, outputs)
    assert sum(parameter.numel() for parameter in model.parameters()) == count


def test_every_model_is_tested() -> None:
    assert SHAPES.keys() == {name for name, model in MODELS.items() if model.takes != "text"}, "test_language has those"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shape"), SHAPES.items())
def test_a_model_is_parameters_of_which_all_but_frozen_filters_are_trained(name: str, shape: tuple[int, ...]) -> None:
    model, state = build(name, shape, 5), torch.get_rng_state()
    assert model.state_dict().keys() == {where for where, _ in model.named_parameters()}
    assert not any(isinstance(module, nn.modules.batchnorm._NormBase) for module in model.modules())
    assert not drops(model)
    inputs = torch.randn(4, *shape, generator=torch.Generator().manual_seed(0))
    scores = model.train()(inputs)
    cross_entropy(scores, torch.tensor([0, 1, 2, 3])).backward()
    assert scores.shape == (4, 5)
    assert torch.equal(torch.get_rng_state(), state), "models that draw chance train alone in a simulation"
    for where, parameter in model.named_parameters():
        assert parameter.dtype == torch.float32
        assert parameter.requires_grad == (not (name == "small-body" and where.startswith("filters.")))
        if parameter.requires_grad:
            assert parameter.grad.isfinite().all()
            assert parameter.grad.any(), where


@pytest.mark.parametrize("name", SHAPES)
def test_the_head_is_the_last_linear_layer_and_seeds_make_the_weights(name: str) -> None:
    shape = SHAPES[name]
    first, same, other = (build(name, shape, 7, seed) for seed in (1, 1, 2))
    assert {*first.modules()}.isdisjoint(same.modules()), "peers of one process train models of their own"
    head = first.get_submodule(last_linear(first))
    assert last_linear(first) == "head"
    seen: list[Tensor] = []
    head.register_forward_hook(lambda module, inputs, output: seen.append(output))
    with torch.no_grad():
        outputs = first(torch.randn(1, *shape))
        assert build(name, shape, 1)(torch.randn(2, *shape)).shape == (2, 1)
    assert outputs is seen[0]  # nothing comes after it
    assert outputs.shape == (1, 7)
    weights = first.state_dict()
    assert all(torch.equal(weights[key], value) for key, value in same.state_dict().items())
    assert any(not torch.equal(weights[key], value) for key, value in other.state_dict().items())


def test_a_resnet_computes_what_the_published_one_does() -> None:
    # Layer by layer as in the published code, with its average over 4x4 positions.
    model: Any = build("resnet18-gn", (3, 32, 32), 10)
    norms = [module for module in model.modules() if isinstance(module, nn.GroupNorm)]
    assert [norm.num_groups for norm in norms] == [32] * 20
    assert [len(list(block.shortcut.children())) for block in model.blocks] == [0, 0, 2, 0, 2, 0, 2, 0]
    convolutions = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
    assert [conv.out_channels for conv in convolutions] == [64] * 5 + [128] * 5 + [256] * 5 + [512] * 5
    assert not any(conv.bias is not None for conv in convolutions)
    with torch.no_grad():
        images = torch.randn(2, 3, 32, 32)
        x = torch.relu(model.stem(images))
        assert x.shape == (2, 64, 32, 32)
        for block in model.blocks:
            y = block.second[1](block.second[0](torch.relu(block.first[1](block.first[0](x)))))
            x = torch.relu(y + block.shortcut(x))
        assert x.shape == (2, 512, 4, 4)
        torch.testing.assert_close(model(images), model.head(nn.functional.avg_pool2d(x, 4).flatten(1)))


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.takes in ("images", "series")])
def test_the_least_size_is_the_least(name: str) -> None:
    model = MODELS[name]
    shape = (1,) + (model.least,) * (2 if model.takes == "images" else 1)
    assert build(name, shape, 3)(torch.randn(2, *shape)).shape == (2, 3)
    with pytest.raises(TaskError):
        build(name, (1,) + (model.least - 1,) * len(shape[1:]), 3)


def test_a_small_body_is_all_that_is_shared_and_its_filters_never_change() -> None:
    data = TensorDataset(torch.randn(40, 9, 128), torch.randint(6, (40,)))
    model = build("small-body", (9, 128), 6)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    learner = build_learner(Task(model=model, head=("head",), train=data, test=data), "dfedmdc", rank=0, seed=0)
    assert (learner.about.body_parameters, learner.about.head_parameters) == (12 * (128 + 1), 6 * 13)
    learner.train(0)
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"body.weight", "body.bias", "head.weight", "head.bias"}
