"""FedAvg, SAM and personalized-head methods and Ditto, against their papers' rules by torch.optim in float64."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import cross_entropy

from dpeer.training import Task, TorchLearner
from tests.training.algorithm_cases import made
from tests.training.reference_training import DECAY, Plain
from tests.training.reference_training import SIZE as BATCH
from tests.training.small import gossip, small_task

pytestmark = pytest.mark.slow

SIZE, ROUNDS, SEED, PASS = 3, 2, 7, 4
"""PASS: minibatches of 16 of 50 samples."""
EPOCHS, HEAD_EPOCHS, BODY_LR, HEAD_LR, MOMENTUM, RHO, PULL, CLIP = 2, 1, 0.1, 0.2, 0.8, 0.3, 0.6, 0.6
COMMON: dict[str, Any] = {
    "body_lr": BODY_LR, "head_lr": HEAD_LR, "momentum": MOMENTUM, "lr_decay": DECAY, "body_epochs": EPOCHS,
    "head_epochs": HEAD_EPOCHS, "batch_size": BATCH, "rho": RHO, "ditto_lambda": PULL, "grad_clip": None,
}  # fmt: skip


def task(rank: int, size: int = SIZE, seed: int = SEED) -> Task:
    return small_task(rank)


def learner(rank: int, algorithm: str, settings: dict[str, Any]) -> TorchLearner:
    return made(task(rank), algorithm, settings, rank=rank, seed=SEED)


class Peer(Plain):
    """One peer of the recursion.

    Attributes:
        own: The model that predicts, where an algorithm has one beside the one that is trained and shared.
    """

    def __init__(self, rank: int, settings: Mapping[str, Any]) -> None:
        super().__init__(task(rank), rank, SEED)
        self.test = [part.double() if part.is_floating_point() else part for part in task(rank).test.tensors]
        self.h, self.own = settings, self

    def loss(self) -> float:
        return float(cross_entropy(self.own.model(self.test[0]), self.test[1]).detach())

    def fit(
        self, t: int, phase: str, part: str, epochs: int, lr: float, rho: float = 0.0, gradient: Any = None
    ) -> None:
        gradient = gradient or (lambda rows: self.gradient(rows, part))
        climbed = (lambda rows: self.sam(rows, rho, gradient, part)) if rho else gradient
        settings = {"momentum": MOMENTUM, "weight_decay": self.h.get("weight_decay", 0.0)}
        clip = self.h["grad_clip"]
        self.run(phase, epochs * PASS, lr, part=part, number=t, gradient=climbed, clip=clip, **settings)


# The rounds of the papers, each until the message is sent.


def joint(peer: Peer, t: int, rho: float = 0.0) -> None:
    peer.fit(t, "model", "", EPOCHS, BODY_LR, rho)


def alternating(peer: Peer, t: int, head: float = 0.0, body: float = 0.0) -> None:
    peer.fit(t, "head", "fc", HEAD_EPOCHS, HEAD_LR, head)
    peer.fit(t, "body", "body", EPOCHS, BODY_LR, body)


def body_only(peer: Peer, t: int) -> None:
    peer.fit(t, "body", "body", EPOCHS, BODY_LR)


def ditto(peer: Peer, t: int) -> None:
    received = [p.detach().clone() for p in peer.parameters()]
    if peer.own is peer:
        peer.own = Peer(peer.rank, peer.h)  # both start alike
    own = peer.own

    def pulled(rows: Tensor) -> Sequence[Tensor]:
        found = zip(own.gradient(rows), own.parameters(), received, strict=True)
        return [g + PULL * (p.detach() - towards) for g, p, towards in found]

    joint(peer, t)
    own.fit(t, "personal", "", EPOCHS, BODY_LR, gradient=pulled)


CLIPPED = {"grad_clip": CLIP, "weight_decay": 0.05}
CASES: dict[str, tuple[Callable[[Peer, int], None], str | None, dict[str, Any]]] = {
    "local": (joint, None, {}),
    "dfedavgm": (joint, "", {}),
    "dfedsam": (partial(joint, rho=RHO), "", {}),
    "fedper": (joint, "body", {}),
    "dfedmdc": (alternating, "body", {}),
    "dfedsmdc": (partial(alternating, body=RHO), "body", {}),
    "dfedsmdc head": (partial(alternating, head=RHO), "body", {"sam": "head"}),
    "dfedsmdc both": (partial(alternating, head=RHO, body=RHO), "body", {"sam": "both"}),
    "fedbabu": (body_only, "body", {}),
    "ditto": (ditto, "", {}),
    "dfedavgm clipped": (joint, "", CLIPPED),
    "dfedsam clipped": (partial(joint, rho=RHO), "", CLIPPED),
    "dfedmdc clipped": (alternating, "body", CLIPPED),
    "ditto clipped": (ditto, "", CLIPPED),
}
"""The round, the part that is shared, and settings; clipping is PyTorch's, of each phase's own parameters."""


def directed_ring() -> np.ndarray:
    return 0.5 * (np.eye(SIZE) + np.roll(np.eye(SIZE), -1, axis=1))


def mix(peers: Sequence[Peer], weights: np.ndarray, shared: str) -> None:
    sent = [[p.detach().clone() for p in peer.parameters(shared)] for peer in peers]
    for row, peer in zip(weights.tolist(), peers, strict=True):
        for place, p in enumerate(peer.parameters(shared)):
            p.data.copy_(sum(w * theirs[place] for w, theirs in zip(row, sent, strict=True)))


def check(values: Mapping[str, Tensor], peer: Peer, within: float = 2e-5) -> None:
    for name, value in peer.model.state_dict().items():
        torch.testing.assert_close(values[name].double(), value, rtol=0, atol=within)


@pytest.mark.parametrize("case", CASES)
def test_rounds_are_those_of_the_papers(case: str, tmp_path: Path) -> None:
    local_round, shared, changes = CASES[case]
    settings, weights = COMMON | changes, directed_ring()
    learners = [learner(rank, case.split()[0], settings) for rank in range(SIZE)]
    peers = [Peer(rank, settings) for rank in range(SIZE)]
    gossip(learners, ROUNDS, weights=weights)
    for number in range(ROUNDS):
        for peer in peers:
            local_round(peer, number)
        if shared is not None:
            mix(peers, weights, shared)
    for ours, peer in zip(learners, peers, strict=True):
        # What goes on being trained and shared, what the file holds, and what is evaluated.
        check(ours.trainer.module.state_dict(), peer)
        ours.write_model(tmp_path / "model")
        check(load_file(tmp_path / "model"), peer.own)
        assert ours.evaluate().test_loss == pytest.approx(peer.loss(), rel=1e-3)
        assert (peer.own is peer) == ("ditto" not in case)
        assert peer.own is peer or (peer.own.vector - peer.vector).abs().max() > 0.01
    norms = [norm for peer in peers for norm in (*peer.norms, *peer.own.norms)]
    assert not norms or min(norms) < 0.95 * CLIP < 1.05 * CLIP < max(norms)


def test_what_is_not_trained_gets_no_gradient() -> None:
    ours = learner(0, "dfedmdc", COMMON)
    seen: list[tuple[bool, bool]] = []
    net = ours.trainer.module
    net.register_forward_hook(lambda *_: seen.append((net.body[0].weight.requires_grad, net.fc.weight.requires_grad)))
    ours.train(0)
    assert seen == [(False, True)] * PASS * HEAD_EPOCHS + [(True, False)] * PASS * EPOCHS


# Whole runs on graphs whose weights are written down here.

THIRD = 1 / 3
GRAPHS: dict[str, list[list[float]]] = {
    # i hears i-1 and i-2, weights 1 / (1 + ceil(log2 4))
    "exponential-directed": [[THIRD, 0, THIRD, THIRD], [THIRD, THIRD, 0, THIRD], [THIRD] * 3 + [0], [0] + [THIRD] * 3],
    # 2 x 3: corners have two neighbors, the middle ones (1 and 4) three
    "grid": [
        [5 / 12, 1 / 4, 0, 1 / 3, 0, 0],
        [1 / 4, 1 / 4, 1 / 4, 0, 1 / 4, 0],
        [0, 1 / 4, 5 / 12, 0, 0, 1 / 3],
        [1 / 3, 0, 0, 5 / 12, 1 / 4, 0],
        [0, 1 / 4, 0, 1 / 4, 1 / 4, 1 / 4],
        [0, 0, 1 / 3, 0, 1 / 4, 5 / 12],
    ],
}


BROUGHT = (400.0, 20.0, 30.5, 7.0, 90.0, 3.0)
"""What the six peers of the grid declare."""


def declared(graph: str) -> np.ndarray:
    """W_ij = min(1 / d_i, (p_j / p_i) / d_j) on the edges of a graph, d its neighbors and oneself; the rest at home."""
    edges = np.array(GRAPHS[graph]) > 0
    d, p, size = edges.sum(axis=1), np.array(BROUGHT) / sum(BROUGHT), len(edges)
    w = np.zeros(edges.shape)
    for i, j in zip(*np.nonzero(edges & ~np.eye(size, dtype=bool)), strict=True):
        w[i, j] = min(1 / d[i], p[j] / p[i] / d[j])
    return w + np.diag(1 - w.sum(axis=1))


RUNS: dict[str, tuple[str, Callable[[Peer, int], None], np.ndarray]] = {
    "exponential-directed": ("dfedsmdc", partial(alternating, body=RHO), np.array(GRAPHS["exponential-directed"])),
    "grid": ("dfedsmdc", partial(alternating, body=RHO), np.array(GRAPHS["grid"])),
    "grid, declared": ("dfedmdc", alternating, declared("grid")),
}


@pytest.mark.parametrize("run", RUNS)
def test_a_simulation_follows_the_papers_recursion(run: str, simulate: Any, tmp_path: Path) -> None:
    """And what the run says of itself follows from the same models."""
    algorithm, local_round, weights = RUNS[run]
    graph, _, with_weights = run.partition(", ")
    tables = "".join(f"[rank.{rank}]\nweight = {brought}\n" for rank, brought in enumerate(BROUGHT))
    (tmp_path / "dpeer.toml").write_text(f'size = 6\nweights = "declared"\n{tables}' if with_weights else "")
    (tmp_path / "mine.py").write_text(f"from {__name__} import task\n")
    settings = COMMON | {"grad_clip": 0, "finish": "none", "keep": "last", "rounds": ROUNDS, "seed": SEED}
    del settings["ditto_lambda"]
    words = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", value)]
    simulate(
        "--task", "mine.py:task", "--size", len(weights), "--topology", graph, "--algorithm", algorithm,
        "--out", "run", *words,
    )  # fmt: skip
    peers = [Peer(rank, COMMON) for rank in range(len(weights))]
    for number in range(ROUNDS):
        for peer in peers:
            local_round(peer, number)
        mix(peers, weights, "body")
    bodies = torch.stack([torch.cat([p.detach().reshape(-1) for p in peer.parameters("body")]) for peer in peers])
    distance = float((bodies - bodies.mean(0)).square().sum(1).mean().sqrt())
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["consensus_distance"] == pytest.approx(distance, abs=1e-4)
    for peer in peers:
        folder = tmp_path / "run" / f"rank-{peer.rank}"
        check(load_file(folder / "model.safetensors"), peer)
        last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
        assert last["test_loss"] == pytest.approx(peer.loss(), abs=1e-3)
