"""Cost of a private step at sample level beside a plain one: the same small models and 64 examples, one thread.

    python benchmarks/per_example.py [--batch 64] [--microbatch 64] [--repeats 40] [--models digits,cnn] [--json]

Models are the CNNs digits and cnn.

A plain step is a gradient of the mean loss and a step of SGD. A private one computes, clips and adds the gradients of
single examples, draws the noise, divides, and takes the same step of SGD. Both are the product's (`Trainer`), and
alternate; a ratio is of two steps right after each other, and its median is printed with quartiles. Parts of a private
step are also timed by themselves: the noise, and drawing a batch of that size from 40 times as many examples. Where
opacus can be imported (it is no dependency), its step stands beside: hooks, flat clipping, torch's generator for the
noise, which is no exact one.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Callable, Mapping
from statistics import median, quantiles
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from dpeer.federation.memory_tuning import keep_heap
from dpeer.privacy.mechanism import ClippedSum
from dpeer.training import Hyperparameters, Task, Trainer
from dpeer.training.batch_loader import Batch
from dpeer.training.dpsgd.backend_choice import BACKENDS
from dpeer.training.dpsgd.gradient import PrivateGradient
from dpeer.training.dpsgd.poisson_batches import PoissonBatches
from dpeer.training.models import build_model
from dpeer.training.split import split

MODELS: Mapping[str, tuple[int, ...]] = {"digits": (1, 8, 8), "cnn": (3, 32, 32)}
TIMES = 40
"""So many times as many examples as a batch has are there to be sampled from."""

LR = 0.01


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--microbatch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_heap()  # as every peer does
    results = [
        measure(name, arguments.batch, arguments.microbatch, arguments.repeats) for name in arguments.models.split(",")
    ]
    if arguments.json:
        print(json.dumps(results, indent=1))
        return
    for result in results:
        print(f"{result['model']}: {result['parameters']:,} parameters, {result['batch']} examples; by {result['way']}")
        for name, took in result["ms"].items():
            ratio = result["ratio_quartiles"].get(name)
            beside = (
                "" if ratio is None else f"   {ratio[1]:.2f} plain steps (quartiles {ratio[0]:.2f} to {ratio[2]:.2f})"
            )
            print(f"  {name:<24}{took:9.2f} ms{beside}")


def measure(name: str, batch_size: int, microbatch: int, repeats: int) -> dict[str, Any]:
    """Medians in milliseconds, and ratios to the plain step of the same repetition."""
    peer = trainer(name, TIMES * batch_size)
    inputs, targets = peer.data.take(torch.arange(batch_size))
    batch = Batch(inputs, targets, batch_size)
    mechanism = ClippedSum(1.0, 1.0, 1 / TIMES, TIMES * batch_size)
    optimizer = peer.optimizer(peer.model)
    rules = {way: PrivateGradient(mechanism, microbatch) for way in ("private", *BACKENDS)}
    for way, rule in rules.items():
        rule.start(peer, peer.model)
        rule.backends |= {"model": BACKENDS[way]} if way in BACKENDS else {}
    way = next(way for way, code in BACKENDS.items() if code is rules["private"].backends["model"])

    def step(gradient: Callable[[], object]) -> Callable[[], None]:
        def work() -> None:
            gradient()
            optimizer.step(LR)

        return work

    sampled = PoissonBatches(peer.data, None, 1 / TIMES)
    zeros = np.zeros(peer.model.count)
    works: dict[str, Callable[[], object]] = {
        "plain": step(lambda: peer.gradient(peer.model, batch)),
        "private": step(lambda: rules["private"](peer, peer.model, batch)),
        "private, vectorized": step(lambda: rules["vectorized"](peer, peer.model, batch)),
        "private, one by one": step(lambda: rules["one-by-one"](peer, peer.model, batch)),
        "of it noise": lambda: mechanism.released(zeros),
        "drawing a batch": sampled.draw,
        **opacus(name, batch, mechanism),
    }
    times: dict[str, list[float]] = {what: [] for what in works}
    with peer.training(peer.model):
        for repetition in range(-3, repeats):
            for what, work in works.items():
                began = time.perf_counter()
                with torch.enable_grad() if what == "opacus" else torch.no_grad():
                    work()
                if repetition >= 0:  # the first ones are to warm up
                    times[what].append(1000 * (time.perf_counter() - began))
    ratios = {
        what: quantiles([a / b for a, b in zip(own, times["plain"], strict=True)], n=4)
        for what, own in times.items()
        if what == "opacus" or what.startswith("private")
    }
    return {
        "model": name,
        "way": way,
        "parameters": peer.model.count,
        "batch": batch_size,
        "microbatch": microbatch,
        "ms": {what: median(own) for what, own in times.items()},
        "ratio_quartiles": ratios,
    }


def trainer(name: str, samples: int) -> Trainer:
    """A model on random inputs of ten classes."""
    torch.manual_seed(0)
    data = TensorDataset(torch.rand(samples, *MODELS[name]), torch.randint(10, (samples,)))
    model = build_model(name, MODELS[name], 10)
    task = Task(model=model, head=("head",), train=data, test=data, draws=False)
    return Trainer(task, split(model, ("head",), "model"), Hyperparameters(), rank=0, seed=0)


def opacus(name: str, batch: Batch, mechanism: ClippedSum) -> dict[str, Callable[[], None]]:
    """A step of opacus on a model of its own, or nothing where it is not installed."""
    try:
        samples, optimizers = (importlib.import_module(f"opacus.{part}") for part in ("grad_sample", "optimizers"))
    except ImportError:
        return {}
    torch.manual_seed(0)
    model: nn.Module = samples.GradSampleModule(build_model(name, MODELS[name], 10), loss_reduction="mean")
    optimizer = optimizers.DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9),
        noise_multiplier=mechanism.noise_multiplier,
        max_grad_norm=mechanism.clip_norm,
        expected_batch_size=batch.size,
    )

    def step() -> None:
        optimizer.zero_grad()
        loss = cross_entropy(model(batch.inputs), batch.targets)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return {"opacus": step}


if __name__ == "__main__":
    main()
