"""Clipping every record's gradient, which bounds what one record does, and clipping the mean gradient, which does not.

    python benchmarks/mean_clipping.py --out DIR [--seeds 1,2,3] [--rounds 30] [--show]

Four peers on a ring train one common model on the digits. Rows "each record" are `--privacy sample` with noise
multiplier 1 and clip norm 1. Rows "the mean, by tensor" clip a batch's mean gradient, each tensor to the same norm, and
add noise of the same standard deviation, as the published code of DP-FedAdamW does. Of three learning rates the
accuracy with seed 0 chooses; that one is run with the seeds of --seeds.

Results are lines of DIR/mean_clipping.jsonl: the same command again makes only what is missing; --show makes none.
Figures are means over the peers of the accuracy on each peer's own test data, after the last mixing. The last lines say
what the noise is worth where means are clipped: how many times as far one record may move a step's gradient as its
noise's standard deviation.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, cast

import torch
from kept import Cell, Kept, Line, simulated

from dpeer.training import Algorithm, Trainer, load_task
from dpeer.training.algorithms.fedadamw import FedAdamW
from dpeer.training.algorithms.fedavg import FedAvg
from dpeer.training.flat import Flat
from dpeer.training.minibatches import Batch

SIGMA, CLIP, RATE, SIZE = 1.0, 1.0, 0.1, 4
BATCH = 36
"""A tenth of a peer's records, so that both ways take steps of as many records."""

SAME: Mapping[str, Any] = {
    "size": SIZE, "topology": "ring", "task": "digits", "partition": "iid", "workers": 1, "log_level": "error",
    "checkpoint_every": 10_000, "evaluate_every": 10_000, "head": "", "grad_clip": 0.0, "lr_schedule": "cosine",
    "finish": "none", "local_steps": 5,
}  # fmt: skip

RECORD, MEAN = "each record", "the mean, by tensor"
WAYS: Mapping[str, Mapping[str, Any]] = {
    RECORD: {"privacy": "sample", "noise_multiplier": SIGMA, "clip_norm": CLIP, "sampling_rate": RATE},
    MEAN: {"batch_size": BATCH},
}
ROWS: Mapping[str, tuple[Mapping[str, Any], tuple[float, ...]]] = {
    "fedavg": ({"momentum": 0.0, "weight_decay": 0.0}, (0.3, 1.0, 3.0)),
    "fedadamw": ({"momentum": 0.9, "weight_decay": 0.01}, (0.003, 0.01, 0.03)),
}
"""Each algorithm's settings, and the learning rates that are tried."""


def clipped_mean(peer: Trainer, part: Flat, batch: Batch) -> torch.Tensor:
    """The gradient of a batch's mean loss, each tensor of it clipped by itself, with noise as for single records."""
    loss = peer.gradient(part, batch)
    for parameter in peer.module.parameters():
        if parameter.grad is not None:  # a view of the part's gradient
            parameter.grad.mul_(CLIP / parameter.grad.norm().clamp_min(CLIP))
    part.grad.add_(torch.randn_like(part.grad), alpha=SIGMA * CLIP / BATCH)
    return loss


class _Steering:
    """A trainer whose gradients are clipped means."""

    def __init__(self, peer: Trainer) -> None:
        self._peer = peer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._peer, name)

    def fit(self, part: Flat, **how: Any) -> None:
        self._peer.fit(part, gradient=clipped_mean, **how)


class _Mean(Algorithm):
    """Trains as the class after it does, with gradients that are clipped means."""

    def train(self, peer: Trainer) -> None:
        """Train a round."""
        super().train(cast(Trainer, _Steering(peer)))  # type: ignore[safe-super]


class MeanFedAvg(_Mean, FedAvg):
    """`fedavg` with clipped means."""


class MeanFedAdamW(_Mean, FedAdamW):
    """`fedadamw` with clipped means."""


OF_MEANS = {"fedavg": MeanFedAvg, "fedadamw": MeanFedAdamW}


def main() -> None:
    """Make what is missing, and print the table."""
    arguments = _arguments()
    torch.set_num_threads(1)
    found = Kept(arguments.out / "mean_clipping.jsonl", _measured, only=arguments.show)
    searched = found.make(_searched(arguments.rounds))
    chosen = [
        max((cell for cell in searched if (cell["row"], cell["way"]) == one), key=lambda cell: found[cell]["accuracy"])
        for one in dict.fromkeys((cell["row"], cell["way"]) for cell in searched)
    ]
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    found.make({**cell, "seed": seed} for cell in chosen for seed in seeds)
    print("\n| | what is clipped | learning rate | accuracy | epsilon |\n|---|---|---:|---:|---:|")
    for cell in chosen:
        lines = [found[one] for seed in seeds if (one := {**cell, "seed": seed}) in found]
        values = [line["accuracy"] for line in lines]
        spread = f" ± {stdev(values):.3f}" if len(values) > 1 else ""
        spent = "none" if cell["way"] == MEAN else f"{max(line['epsilon'] for line in lines):.2f}"
        print(f"| `{cell['row']}` | {cell['way']} | {cell['lr']:g} | {fmean(values):.3f}{spread} | {spent} |")
    task = load_task("digits", 0, SIZE, 0)
    tensors = sum(parameter.requires_grad for parameter in task.model.parameters())
    reach, noise = 2 * CLIP * math.sqrt(tensors), SIGMA * CLIP / BATCH
    print(
        f"\none record moves the clipped mean gradient of {tensors} tensors by up to {reach:.2f}; the noise's deviation"
    )
    print(f"is {noise:.4f}, 1/{reach / noise:.0f} of that; where each record is clipped, it is {SIGMA:g} times that")


def _searched(rounds: int) -> Iterator[Cell]:
    for row, (_, rates) in ROWS.items():
        for way in WAYS:
            for lr in rates:
                yield {"row": row, "way": way, "lr": lr, "seed": 0, "rounds": rounds}


def _measured(cell: Cell) -> Line:
    row, way = cell["row"], cell["way"]
    values = {**SAME, **ROWS[row][0], **WAYS[way], "body_lr": cell["lr"]}
    algorithm = OF_MEANS[row] if way == MEAN else row
    return simulated(
        lambda out: {**values, "algorithm": algorithm, "seed": cell["seed"], "rounds": cell["rounds"], "out": out},
        "accuracy_mixed",
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("mean-clipping"))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--show", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
