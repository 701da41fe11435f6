"""Cost of client-level privacy in a round of a large body, beyond drawing the noise.

    python benchmarks/privacy.py [--model resnet18-gn] [--samples 100] [--repetitions 5] [--json]

One peer trains two epochs of the body and one of the head on random images, releases, and mixes with one neighbor's
body: plainly, and with the update clipped, noised, charged and flushed to disk. Both ways alternate. The noise is also
drawn by itself, on one core and on two, beside what numpy takes for as many float32 deviates of its statistical
generator SFC64 (fast, and no protection: docs/privacy-reference.md). Ratios are those within a repetition.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dpeer.federation.memory_tuning import keep_heap
from dpeer.privacy import ClientSession, Guarantee, Ledger
from dpeer.privacy.noise import Values, noised
from dpeer.training import Hyperparameters, Task, build_learner, build_model

ROW = {0: 0.5, 1: 0.5}


def task(model: str, samples: int) -> Task:
    """Random images of ten classes."""
    torch.manual_seed(0)
    images, labels = torch.randn(samples, 3, 32, 32), torch.randint(10, (samples,))
    data = torch.utils.data.TensorDataset(images, labels)
    return Task(model=build_model(model, (3, 32, 32), 10), head=("head",), train=data, test=data, draws=False)


def draw(size: int, threads: int) -> None:
    """Noise for so many zeros."""
    steps = np.empty(size, dtype=np.float32)

    def give(here: slice, noisy: Values) -> None:
        steps[here] = noisy

    noised(size, 1.0, lambda here: np.zeros(len(steps[here])), give, threads)


def draw_statistical(size: int) -> NDArray[np.float32]:
    """The fastest normal deviates that numpy has."""
    noise: NDArray[np.float32] = np.random.Generator(np.random.SFC64()).standard_normal(size, dtype=np.float32)
    noise *= np.float32(3.0)
    return noise


def seconds(work: Callable[[], object]) -> float:
    """The seconds that a call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="resnet18-gn")
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    keep_heap()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="dpeer-benchmark-") as folder:
        report = measure(arguments.model, arguments.samples, arguments.repetitions, Path(folder))
    if arguments.json:
        print(json.dumps(report, indent=1))
        return
    print(f"{report['parameters']:,} parameters, {arguments.samples} images, median of {arguments.repetitions}")
    for name in (
        "round_ms", "private_round_ms", "release_ms", "private_release_ms", "noise_ms", "noise_two_threads_ms",
        "statistical_noise_ms",
    ):  # fmt: skip
        print(f"{name.replace('_', ' '):>20}: {report[name]:9.1f}")
    print(
        f"drawing noise takes {report['noise_ratio']:.2f} times as long as numpy's statistical generator on one core, "
        f"{report['noise_ratio_two_threads']:.2f} with two threads"
    )
    print(
        f"a private round takes {report['ratio']:.3f} of a plain one, {report['ratio_beyond_noise']:.3f} but for noise"
    )


def measure(model: str, samples: int, repetitions: int, folder: Path) -> dict[str, Any]:
    """Medians in milliseconds, and ratios within each repetition."""
    h = Hyperparameters(body_epochs=2, head_epochs=1, body_lr=0.01)
    session = ClientSession(Guarantee(1.0, 1.0, 1e-5), Ledger(folder / "privacy", {}, resume=False))
    ways = {
        name: build_learner(task(model, samples), "dfedmdc", h, rank=0, seed=0, session=given)
        for name, given in (("plain", None), ("private", session))
    }
    count = ways["plain"].body_parameters
    other = ways["plain"].body.numpy().tobytes()
    rounds: dict[str, list[float]] = {name: [] for name in ways}
    releases: dict[str, list[float]] = {name: [] for name in ways}
    drawn: dict[str, list[float]] = {"one": [], "two": [], "statistical": []}
    for number in range(repetitions + 1):
        for name, learner in ways.items():
            began = time.perf_counter()
            learner.train(number)
            trained = time.perf_counter()
            learner.release(number)
            released = time.perf_counter()
            learner.mix({1: [other]}, ROW)
            rounds[name].append(time.perf_counter() - began)
            releases[name].append(released - trained)
        drawn["one"].append(seconds(lambda: draw(count, 1)))
        drawn["statistical"].append(seconds(lambda: draw_statistical(count)))
        drawn["two"].append(seconds(lambda: draw(count, 2)))
    for values in (*rounds.values(), *releases.values(), *drawn.values()):
        del values[0]  # the first one pays for caches and pages
    together = list(zip(rounds["plain"], rounds["private"], drawn["one"], strict=True))
    return {
        "parameters": count,
        "round_ms": 1e3 * median(rounds["plain"]),
        "private_round_ms": 1e3 * median(rounds["private"]),
        "release_ms": 1e3 * median(releases["plain"]),
        "private_release_ms": 1e3 * median(releases["private"]),
        "noise_ms": 1e3 * median(drawn["one"]),
        "noise_two_threads_ms": 1e3 * median(drawn["two"]),
        "statistical_noise_ms": 1e3 * median(drawn["statistical"]),
        "noise_ratio": median(a / b for a, b in zip(drawn["one"], drawn["statistical"], strict=True)),
        "noise_ratio_two_threads": median(a / b for a, b in zip(drawn["two"], drawn["statistical"], strict=True)),
        "ratio": median(private / plain for plain, private, _ in together),
        "ratio_beyond_noise": median((private - noise) / plain for plain, private, noise in together),
    }


if __name__ == "__main__":
    main()
