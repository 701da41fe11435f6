"""Transformers for images: what they compute, their options, and privacy's gradients of single examples."""

import os
import socket
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, layer_norm, linear
from torch.utils.data import TensorDataset

from dpeer.exceptions import TaskError
from dpeer.training import Hyperparameters, Task, Trainer
from dpeer.training.dpsgd.task_checks import check_task
from dpeer.training.models import build_model, drops
from dpeer.training.split import split

VIT: dict[str, Any] = {"layers": 2, "width": 12, "heads": 3, "hidden": 20, "patch": 4}
SWIN: dict[str, Any] = {"layers": [2, 2], "width": 8, "heads": [2, 4], "window": 3, "patch": 2}


def build(name: str, shape: tuple[int, ...], **options: Any) -> Any:
    torch.manual_seed(0)
    return build_model(name, shape, 5, options)


def attention(x: Tensor, weights: dict[str, Tensor], where: str, heads: int) -> Tensor:
    """Softmax attention of tokens, shape (batch, tokens, width), head by head."""
    q, k, v = (linear(x, weights[f"{where}.{n}_proj.weight"], weights[f"{where}.{n}_proj.bias"]) for n in "qkv")
    size = x.shape[2] // heads
    found = []
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        scores = q[..., part] @ k[..., part].transpose(1, 2) / size**0.5
        found.append(scores.softmax(2) @ v[..., part])
    return linear(torch.cat(found, 2), weights[f"{where}.o_proj.weight"], weights[f"{where}.o_proj.bias"])


def test_a_vision_transformer_computes_what_its_paper_says() -> None:
    model = build("vit-tiny", (3, 8, 12), **VIT)
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)  # no norm, bias or token is trivial then
    w, images = {name: value.detach() for name, value in model.state_dict().items()}, torch.randn(4, 3, 8, 12)
    patches = images.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 1, 4, 5).reshape(4, 6, -1)
    kernel = w["vit.embeddings.patch_embeddings.projection.weight"].flatten(1)
    x = linear(patches, kernel, w["vit.embeddings.patch_embeddings.projection.bias"])
    x = torch.cat([w["vit.embeddings.cls_token"].expand(4, 1, 12), x], 1) + w["vit.embeddings.position_embeddings"]

    def norm(x: Tensor, name: str) -> Tensor:
        return layer_norm(x, (12,), w[f"{name}.weight"], w[f"{name}.bias"], 1e-12)

    for n in range(2):
        layer = f"vit.layers.{n}"
        x = x + attention(norm(x, f"{layer}.layernorm_before"), w, f"{layer}.attention", 3)
        y = norm(x, f"{layer}.layernorm_after")
        y = nn.functional.gelu(linear(y, w[f"{layer}.mlp.fc1.weight"], w[f"{layer}.mlp.fc1.bias"]))
        x = x + linear(y, w[f"{layer}.mlp.fc2.weight"], w[f"{layer}.mlp.fc2.bias"])
    expected = linear(norm(x, "vit.layernorm")[:, 0], w["head.weight"], w["head.bias"])
    with torch.no_grad():
        torch.testing.assert_close(model(images), expected, rtol=1e-4, atol=1e-5)


def test_attention_of_a_swin_transformer_stays_within_windows_which_then_shift() -> None:
    model = build("swin-tiny", (1, 12, 12), layers=[2], width=8, heads=[2], window=3, patch=2).eval()
    first, second = model.swin.encoder.layers[0].blocks
    assert (first.window_size, first.shift_size, second.shift_size) == (3, 0, 1)
    tokens = torch.randn(1, 36, 8, requires_grad=True)
    for block, windows in ((first, [(0, 1, 2), (3, 4, 5)]), (second, [(0,), (1, 2, 3), (4, 5)])):
        found, _ = block(tokens, (6, 6))
        reached = torch.stack(
            [torch.autograd.grad(found[0, n].sum(), tokens, retain_graph=True)[0][0] for n in range(36)]
        )
        seen = reached.abs().sum(2) > 1e-7
        group = {place: number for number, places in enumerate(windows) for place in places}
        cells = [(group[n // 6], group[n % 6]) for n in range(36)]
        assert seen.tolist() == [[one == other for other in cells] for one in cells]


def test_images_are_enlarged_where_that_is_asked_for() -> None:
    model, images = build("vit-tiny", (3, 8, 8), **VIT, image=16), torch.randn(2, 3, 8, 8)
    large = build("vit-tiny", (3, 16, 16), **VIT)
    large.load_state_dict(model.state_dict())
    with torch.no_grad():
        expected = large(interpolate(images, scale_factor=2, mode="bilinear"))
        torch.testing.assert_close(model(images), expected)


def trainer(model: nn.Module, shape: tuple[int, ...]) -> Trainer:
    data = TensorDataset(torch.randn(12, *shape), torch.arange(12) % 5)
    task = Task(model=model, head=("head",), train=data, test=data, draws=False)
    return Trainer(task, split(model, ("head",), "model"), Hyperparameters(), rank=0, seed=0)


@pytest.mark.parametrize(("name", "options"), [("vit-tiny", VIT), ("swin-tiny", SWIN)])
def test_dropout_draws_and_is_refused_where_single_examples_are_protected(name: str, options: dict[str, Any]) -> None:
    model = build(name, (1, 8, 8), **options, dropout=0.1)
    assert drops(model)
    peer = trainer(model, (1, 8, 8))
    with peer.training(peer.model), torch.no_grad(), pytest.raises(TaskError):
        check_task(peer)


@pytest.mark.slow
def test_a_model_of_the_library_is_built_without_asking_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("connects")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    build_model("vit-tiny", (1, 8, 8), 2, {"layers": 1, "width": 6})
    assert os.environ["HF_HUB_OFFLINE"] == "1", "the library reads it when it is imported"
