"""Cost of `--checkpoint-minutes`: a round of training with and without copies of its progress, and a copy by itself.

    python benchmarks/unfinished.py [--repeats 15] [--samples 180] [--parameters 600000 11200000] [--json]

A round of ditto, whose two calls of `Trainer.fit` make the most to keep, through `Learner.train`: without it, with
progress kept (each call's beginning is hashed, its end is copied), and with a copy asked for in each minibatch. Then a
copy by itself, of models of some sizes: what the training thread does for it, and what the disk's thread does beside.
Everything is interleaved in one process with one torch thread. Times are the processor's, so that a busy machine and a
slow disk do not count; medians, and the ratio's median with its quartiles.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.peer import checkpoint
from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.minibatches import Batch
from dpeer.training.models.small import DigitsNet

H = Hyperparameters(body_epochs=5)


class Wide(nn.Module):
    """One hidden layer of about so many parameters in all, on 64 inputs."""

    def __init__(self, parameters: int) -> None:
        super().__init__()
        self.body = nn.Linear(64, max(1, parameters // 75))
        self.head = nn.Linear(max(1, parameters // 75), 10)

    def forward(self, inputs: Tensor) -> Tensor:
        """Class scores."""
        scores: Tensor = self.head(self.body(inputs.flatten(1)).relu())
        return scores


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--samples", type=int, default=180, help="train on so many images")
    parser.add_argument("--parameters", type=int, nargs="+", default=[600_000, 11_200_000])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, Any] = {
        "rounds": _rounds(arguments.samples, arguments.repeats),
        "copies": [_copies(count, arguments.repeats) for count in arguments.parameters],
    }
    if arguments.json:
        print(json.dumps(found, indent=1))
        return
    for what, result in found["rounds"].items():
        low, middle, high = result["ratio_quartiles"]
        print(
            f"digits CNN, a round of ditto, {what}: {result['ms']:.1f} ms, without {result['without_ms']:.1f} ms, "
            f"ratio {middle:.3f} (quartiles {low:.3f} to {high:.3f})"
        )
    for result in found["copies"]:
        print(
            f"{result['parameters']:,} parameters: a copy takes {result['copy_ms']:.1f} ms of training, and "
            f"{result['megabytes']:.0f} MB are written beside it in {result['write_ms']:.0f} ms"
        )


def _learner(model: nn.Module, samples: int, h: Hyperparameters = H) -> TorchLearner:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(samples, 1, 8, 8, generator=generator)
    data = TensorDataset(images, torch.randint(0, 10, (samples,), generator=generator))
    task = Task(model=model, head=("head",), train=data, test=data)
    return build_learner(task, "ditto", h, rank=0, seed=0)


def _rounds(samples: int, repeats: int) -> dict[str, Any]:
    """Rounds in turn: each repetition's ratio is of runs right after each other."""
    without, kept, asked = (_learner(DigitsNet(), samples) for _ in range(3))
    for learner in (kept, asked):
        learner.trainer.unfinished.keep()  # type: ignore[union-attr]

    def ask(*_: object) -> None:
        asked.trainer.unfinished.ask(lambda copy: None)  # type: ignore[union-attr]

    asked.trainer.module.register_forward_pre_hook(ask)
    rounds = {"": without, "progress kept": kept, "a copy in each minibatch": asked}
    times: dict[str, list[float]] = {name: [] for name in rounds}
    for number in range(-2, repeats):
        for name, learner in rounds.items():
            spent = _seconds(partial(learner.train, number + 2))
            if number >= 0:  # the first two are to warm up
                times[name].append(spent)
    base = times.pop("")
    return {
        name: {
            "ms": 1000 * median(mine), "without_ms": 1000 * median(base),
            "ratio_quartiles": quantiles([one / other for one, other in zip(mine, base, strict=True)], n=4),
        }
        for name, mine in times.items()
    }  # fmt: skip


def _copies(parameters: int, repeats: int) -> dict[str, Any]:
    """Copies in the second call of a round, which keep the end of the first, too. Each call has one minibatch of 4."""
    learner = _learner(Wide(parameters), 4, Hyperparameters(body_epochs=1))
    unfinished = learner.trainer.unfinished
    assert unfinished is not None
    unfinished.keep()
    stands, writes, began, size = [], [], 0.0, 0
    noting = learner.trainer.note

    def note(loss: Tensor, batch: Batch) -> None:
        """Ask in the last minibatch of two, when its step is made."""
        nonlocal began
        noting(loss, batch)
        if learner.trainer.figures.gradients % 8 == 0:
            unfinished.ask(take)
            began = time.process_time()

    def take(copy: Callable[[Path], None]) -> None:
        nonlocal size
        stands.append(time.process_time() - began)
        writes.append(_seconds(partial(checkpoint.write_unfinished, folder, 0, {}, copy)))
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())

    learner.trainer.note = note  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "checkpoint"
        for number in range(repeats):
            learner.train(number)
    return {
        "parameters": learner.trainer.model.count, "copy_ms": 1000 * median(stands), "write_ms": 1000 * median(writes),
        "megabytes": size / 1e6,
    }  # fmt: skip


def _seconds(job: Callable[[], object]) -> float:
    began = time.process_time()
    job()
    return time.process_time() - began


if __name__ == "__main__":
    main()
