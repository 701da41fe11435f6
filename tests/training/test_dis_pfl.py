"""Dis-PFL against an independent computation with a dictionary of masks, and its payloads."""

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.batch_loader import batch_order
from tests.training import reference_training
from tests.training.reference_training import DECAY
from tests.training.small import gossip, left_out, mix, small_task

SIZE, SAMPLES, SEED = 4, 40, 9
H = Hyperparameters(
    body_lr=0.1, momentum=0.9, lr_decay=DECAY, body_epochs=2, batch_size=reference_training.SIZE, rounds=5
)
SPARSITY, PRUNE_RATE = 0.5, 0.7
LAYERS = {"body.weight": (9, 6), "body.bias": (9,), "fc.weight": (3, 9), "fc.bias": (3,)}
COUNT = 93
Named = dict[str, Tensor]


class Net(nn.Module):
    """Smooth, so that no weight held stays at zero; in training mode another function than in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.fc = nn.Linear(6, 9), nn.Linear(9, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.body(x))
        out: Tensor = self.fc(0.5 * hidden**2 if self.training else hidden)
        return out


def task(rank: int) -> Task:
    found = small_task(rank, samples=SAMPLES)
    torch.manual_seed(SEED)
    return Task(Net(), ("fc",), found.train, found.test)


def learner(
    rank: int = 0, algorithm: str = "dis-pfl", h: Hyperparameters = H, sparsity: float = SPARSITY
) -> TorchLearner:
    options = {"sparsity": sparsity, "prune_rate": PRUNE_RATE} if algorithm == "dis-pfl" else {}
    return build_learner(task(rank), algorithm, h, rank=rank, seed=SEED, options=options)


def layers_of(flat: Tensor) -> Named:
    parts = flat.split([math.prod(shape) for shape in LAYERS.values()])
    return {name: part.reshape(shape) for (name, shape), part in zip(LAYERS.items(), parts, strict=True)}


def read(payload: Sequence[Any]) -> tuple[Named, Named]:
    """A payload taken to pieces by hand: masks and values, zero where nothing was sent."""
    bits, values = (bytes(buffer) for buffer in payload)
    mask = torch.tensor([bool(bits[i // 8] >> (i % 8) & 1) for i in range(COUNT)])
    assert len(bits) == math.ceil(COUNT / 8)
    assert len(bits) + len(values) == 4 * int(mask.sum()) + math.ceil(COUNT / 8)
    full = torch.zeros(COUNT, dtype=torch.float64)
    full[mask] = torch.tensor(np.frombuffer(values, "<f4").astype(np.float64))
    return layers_of(mask), layers_of(full)


class Plain(reference_training.Plain):
    """A peer with a mask for each layer, as the published code keeps them."""

    def __init__(self, rank: int, masks: Named) -> None:
        super().__init__(task(rank), rank, SEED)
        self.masks = masks
        self.apply()

    def apply(self) -> None:
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.mul_(self.masks[name])

    def train(self, number: int) -> Named:
        """Local steps; the masks for after the mixing."""
        self.model.train()
        steps = H.body_epochs * math.ceil(SAMPLES / reference_training.SIZE)
        self.run("model", steps, H.body_lr, number=number, after=self.apply)
        self.model.eval()
        gradients = self.gradient(batch_order(SAMPLES, SEED, self.rank, number, "screen", 0)[: reference_training.SIZE])
        share = PRUNE_RATE / 2 * (1 + math.cos(math.pi * number / H.rounds))
        moving = zip(self.model.named_parameters(), gradients, strict=True)
        return {name: self.exchange(name, p, gradient, share) for (name, p), gradient in moving}

    def exchange(self, name: str, parameter: Tensor, slopes: Tensor, share: float) -> Tensor:
        mask = self.masks[name].reshape(-1).tolist()
        weights, gradient = parameter.detach().reshape(-1).tolist(), slopes.reshape(-1).tolist()
        held = [i for i, is_held in enumerate(mask) if is_held]
        number = math.ceil(share * len(held))
        for i in sorted(held, key=lambda i: abs(weights[i]))[:number]:
            mask[i] = False
        free = [i for i, is_held in enumerate(mask) if not is_held]
        for i in sorted(free, key=lambda i: -abs(gradient[i]))[:number]:
            mask[i] = True
        return torch.tensor(mask).reshape(parameter.shape)

    def values(self) -> Named:
        return {name: p.detach().clone() for name, p in self.model.named_parameters()}


def ring(own: float) -> NDArray[np.float64]:
    w = own * np.eye(SIZE)
    for i in range(SIZE):
        w[i, (i - 1) % SIZE] = w[i, (i + 1) % SIZE] = (1 - own) / 2
    return w


@pytest.mark.parametrize("weights", [ring(1 / 3), ring(0.6)], ids=["uniform", "weighted"])
def test_three_rounds_are_those_of_the_published_order(weights: NDArray[np.float64]) -> None:
    learners = [learner(rank) for rank in range(SIZE)]
    start, _ = read(learners[0].release(0) or [])
    peers = [Plain(rank, start) for rank in range(SIZE)]
    changed = 0
    for number in range(3):
        masks = []
        for ours, peer in zip(learners, peers, strict=True):
            ours.train(number)
            masks.append(peer.train(number))
        sent = [ours.release(number) or [] for ours in learners]
        held, values = [peer.masks for peer in peers], [peer.values() for peer in peers]
        for payload, mask, value in zip(sent, held, values, strict=True):
            sent_mask, sent_values = read(payload)
            for name in LAYERS:
                assert torch.equal(sent_mask[name], mask[name])
                torch.testing.assert_close(sent_values[name], value[name], rtol=0, atol=1e-5)
        for rank, (ours, peer) in enumerate(zip(learners, peers, strict=True)):
            row = {j: float(w) for j, w in enumerate(weights[rank]) if w}
            assert [left_out(ours, j, sent[j]) for j in row] == [None] * len(row)
            mix(ours, {j: sent[j] for j in row if j != rank}, row)
            with torch.no_grad():
                for name, parameter in peer.model.named_parameters():
                    weight = sum(w * held[j][name].double() for j, w in row.items())
                    total = sum(w * held[j][name] * values[j][name] for j, w in row.items())
                    assert isinstance(weight, Tensor)
                    parameter.copy_(torch.where(weight > 0, total / weight.clamp_min(1e-9), 0) * masks[rank][name])
            changed += sum(int((masks[rank][name] != peer.masks[name]).sum()) for name in LAYERS)
            peer.masks = masks[rank]
            for name, parameter in ours.trainer.module.named_parameters():
                torch.testing.assert_close(
                    parameter.double(), dict(peer.model.named_parameters())[name], rtol=0, atol=1e-5
                )
    assert changed > 50  # the masks did move, and differ between peers
    assert len({tuple(torch.cat([peer.masks[name].reshape(-1) for name in LAYERS]).tolist()) for peer in peers}) == SIZE


def test_every_layer_keeps_its_number_of_weights_and_masks_settle_when_the_planned_rounds_are_over() -> None:
    """The share that is exchanged falls along a half cosine, to nothing in round `rounds`."""
    learners = [learner(rank) for rank in range(SIZE)]

    def held() -> list[list[int]]:
        return [[int(mask.sum()) for mask in read(ours.release(0) or [])[0].values()] for ours in learners]

    start, moved = held(), []
    densities = erk([*LAYERS.values()], 1 - SPARSITY)
    assert start[0] == [int(d * math.prod(shape)) for d, shape in zip(densities, LAYERS.values(), strict=True)]
    for number in range(H.rounds + 1):  # one more than planned: nothing breaks
        before = learners[0].algorithm.state["mask"].clone()
        gossip(learners, 1, start=number)
        moved.append(int((before != learners[0].algorithm.state["mask"]).sum()))
        assert held() == start
        for ours, numbers in zip(learners, start, strict=True):
            assert int((ours.body != 0).sum()) <= sum(numbers)
    assert moved[0] > 0
    assert moved[-1] == 0


def test_holding_everything_is_dfedavgm() -> None:
    h = Hyperparameters(body_epochs=2, batch_size=8)
    sparse = [learner(rank, h=h, sparsity=0.0) for rank in range(SIZE)]
    dense = [learner(rank, "dfedavgm", h) for rank in range(SIZE)]
    for sparsity in (0.0, 1e-9):
        _, values = learner(sparsity=sparsity).release(0) or []
        assert memoryview(values).nbytes == 4 * COUNT
    gossip(sparse, 3)
    gossip(dense, 3)
    for a, b in zip(sparse, dense, strict=True):
        torch.testing.assert_close(a.body, b.body, rtol=0, atol=1e-5)


def erk(shapes: Sequence[Sequence[int]], density: float) -> list[float]:
    """The definition, by bisection: min(1, scale * sum(shape) / prod(shape)), with the scale that gives the total."""
    counts = [math.prod(shape) for shape in shapes]
    low, high = 0.0, 1e9

    def at(scale: float) -> list[float]:
        return [min(1.0, scale * sum(shape) / n) for shape, n in zip(shapes, counts, strict=True)]

    for _ in range(200):
        middle = (low + high) / 2
        total = sum(d * n for d, n in zip(at(middle), counts, strict=True))
        low, high = (middle, high) if total < density * sum(counts) else (low, middle)
    return at(low)


# Payloads.


def test_a_coordinate_that_nobody_sends_is_zero_and_a_lone_holder_decides() -> None:
    """The own weights count only where the own mask has them; then the own new mask is applied."""
    ours = learner()
    before = copy.deepcopy(ours.body)
    held = ours.algorithm.state["mask"].clone()
    other = ~held
    bits = np.packbits(other.numpy(), bitorder="little").tobytes()
    full = torch.arange(COUNT, dtype=torch.float32)
    ours.algorithm._next.fill_(True)
    other_values = full[other].numpy().astype("<f4").tobytes()
    mix(ours, {1: [bits, other_values]}, {0: 0.25, 1: 0.75})
    torch.testing.assert_close(ours.body, torch.where(held, before, full))
