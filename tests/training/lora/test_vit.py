"""Adapters in a ViT: what travels of a large one, and that a tiny one trains with a private head."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.training import Hyperparameters, Task, build_learner
from dpeer.training.lora.adapting import adapted, chosen


def library() -> Any:
    """The library transformers; imported when a test runs, for that takes seconds in each process that collects."""
    return pytest.importorskip("transformers")


class Scores(nn.Module):
    """A classifier of the library, of whose outputs only the scores are given."""

    def __init__(self, **config: int) -> None:
        super().__init__()
        self.net = library().ViTForImageClassification(library().ViTConfig(num_labels=3, **config))

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.net(images).logits
        return out


HEAD = ("net.classifier",)


def tiny(rank: int = 0) -> Task:
    """Three kinds of images, told by where they are bright."""
    torch.manual_seed(0)
    model = Scores(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=8, patch_size=4,
        num_channels=1,
    )  # fmt: skip
    torch.manual_seed(rank + 1)
    labels = torch.arange(30) % 3
    images = torch.randn(30, 1, 8, 8)
    for number, label in enumerate(labels):
        images[number, 0, 2 * int(label) : 2 * int(label) + 3] += 2
    data = TensorDataset(images, labels)
    return Task(model=model, head=HEAD, train=data, test=data)


def test_a_message_of_a_vit_base_stays_under_three_megabytes() -> None:
    with torch.device("meta"):
        model = Scores()
    data = TensorDataset(torch.zeros(1, 3, 224, 224), torch.zeros(1, dtype=torch.int64))
    names = {*chosen(model, HEAD, (), "r=16,alpha=32")}
    assert names == {f"net.vit.layers.{n}.attention.{part}" for n in range(12) for part in ("q_proj", "v_proj")}
    task = adapted(Task(model=model, head=HEAD, train=data, test=data), "r=16,alpha=32", 0)
    body = {name: p for name, p in task.model.named_parameters() if p.requires_grad and not name.startswith(HEAD[0])}
    assert len(body) == 12 * 2 * 2
    count = sum(parameter.numel() for parameter in body.values())
    assert count == 12 * 2 * 2 * 16 * 768
    assert 4 * count < 3_000_000


def test_a_vit_with_adapters_and_a_private_head_trains_by_adamw() -> None:
    h = Hyperparameters(optimizer="adamw", body_lr=0.01, head_lr=0.01, body_epochs=3, head_epochs=2, batch_size=10)
    tasks = [adapted(tiny(n), "r=2,alpha=4", 0) for n in range(2)]
    peers = [build_learner(task, "dfedmdc", h, rank=n, seed=0) for n, task in enumerate(tasks)]
    assert peers[0].about.digest == peers[1].about.digest
    began = [peer.evaluate().test_loss for peer in peers]
    for number in range(4):
        for peer in peers:
            peer.train(number)
        sent = [peer.release(number) for peer in peers]
        for rank, peer in enumerate(peers):
            peer.mix({1 - rank: sent[1 - rank]}, {0: 0.5, 1: 0.5})
    assert torch.equal(peers[0].body, peers[1].body)
    heads = [task.model.get_parameter("net.classifier.weight") for task in tasks]
    assert not torch.allclose(*heads)
    for peer, before in zip(peers, began, strict=True):
        assert peer.evaluate().test_loss < 0.5 * before
