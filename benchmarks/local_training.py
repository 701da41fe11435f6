"""Cost of a peer's local training beside a plain PyTorch loop of the same steps, and of a SAM step beside an SGD step.

    python benchmarks/local_training.py [--repeats 15] [--samples 180] [--device cpu] [--json]

DFedMDC's round (head epochs, then body epochs) through `Learner.train`, against a loop that anyone would write:
torch.optim.SGD, the same minibatches, the part that is not trained frozen. The SAM and SGD steps are both the
product's, on the whole model. Everything is interleaved in one process with one torch thread; on a GPU the clock is
read when all its work is done. Medians of the repetitions, and the ratio's own median with its quartiles. Two models:
the digits' CNN, whose steps are so short that every line of Python shows, and a CNN on 32x32 images.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from statistics import median, quantiles
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.batch_loader import batch_order
from dpeer.training.device import Compute, find_device
from dpeer.training.flat import Phase
from dpeer.training.models.networks import DigitsNet

Images = tuple[Tensor, Tensor]
"""Images and their classes."""

H = Hyperparameters(head_epochs=1, body_epochs=5, grad_clip=None)


class ImageNet32(nn.Module):
    """Three convolutions and two linear layers: 0.6 million parameters on 3x32x32 images."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(1024, 512), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Linear(512, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Class scores."""
        scores: Tensor = self.head(self.features(images))
        return scores


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--samples", type=int, default=180, help="train on so many images at most")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    compute = Compute(find_device(arguments.device, 0))
    cases = {"digits CNN, 8x8": (DigitsNet, (1, 8, 8), 180), "CNN, 32x32": (ImageNet32, (3, 32, 32), 128)}
    results = []
    for name, (model, shape, most) in cases.items():
        samples = min(most, arguments.samples)
        results.append(_local_training(name, model, shape, samples, arguments.repeats, compute))
        results.append(_sam(name, model, shape, samples, arguments.repeats, compute))
    if arguments.json:
        print(json.dumps(results, indent=1))
        return
    for result in results:
        low, middle, high = result["ratio_quartiles"]
        print(
            f"{result['model']}: {result['what']}: {result['ms']:.1f} ms, {result['baseline']}: "
            f"{result['baseline_ms']:.1f} ms, ratio {middle:.3f} (quartiles {low:.3f} to {high:.3f})"
        )


def random_images(shape: tuple[int, ...], samples: int) -> TensorDataset:
    """So many images of ten classes."""
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(samples, *shape, generator=generator)
    return TensorDataset(images, torch.randint(0, 10, (samples,), generator=generator))


def _learner(model: type[nn.Module], data: TensorDataset, algorithm: str, compute: Compute) -> TorchLearner:
    torch.manual_seed(0)
    task = Task(model=model(), head=("head",), train=data, test=data)
    return build_learner(task, algorithm, H, rank=0, seed=0, compute=compute)


def phases(
    model: nn.Module, data: Images, h: Hyperparameters, rank: int, number: int
) -> Iterator[tuple[list[nn.Parameter], float, Iterator[Images]]]:
    """The phases of DFedMDC's round: the parameters that are trained, alone, their rate, and the minibatches."""
    images, labels = data
    every: tuple[tuple[Phase, int, float], ...] = (
        ("head", h.head_epochs, h.head_lr),
        ("body", h.body_epochs, h.body_lr),
    )
    for phase, epochs, lr in every:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name.startswith("head.") == (phase == "head"))
        orders = (batch_order(len(labels), 0, rank, number, phase, epoch) for epoch in range(epochs))
        chunks = (index for order in orders for index in torch.split(order.to(images.device), h.batch_size))
        part = [parameter for parameter in model.parameters() if parameter.requires_grad]
        yield part, lr * h.lr_decay**number, ((images[index], labels[index]) for index in chunks)


def plain(model: nn.Module, data: Images, h: Hyperparameters, rank: int, number: int) -> None:
    """A round of DFedMDC's training as anyone would write it."""
    model.train()
    for part, lr, batches in phases(model, data, h, rank, number):
        optimizer = torch.optim.SGD(part, lr=lr, momentum=h.momentum)
        for images, labels in batches:
            loss = cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()


def _local_training(
    name: str, make: type[nn.Module], shape: tuple[int, ...], samples: int, repeats: int, compute: Compute
) -> dict[str, Any]:
    data = random_images(shape, samples)
    learner = _learner(make, data, "dfedmdc", compute)
    torch.manual_seed(0)
    model = make().to(compute.device)
    images, labels = (tensor.to(compute.device) for tensor in data.tensors)
    result = _compare(learner.train, lambda number: plain(model, (images, labels), H, 0, number), repeats, compute)
    theirs = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    ours = torch.cat([p.detach().reshape(-1) for p in learner.trainer.module.parameters()])
    tolerance = 1e-4 if compute.device.type == "cpu" else 1e-2  # sums on a GPU come in any order
    assert torch.allclose(ours, theirs, rtol=1e-3, atol=tolerance), "the two loops do not compute the same"
    return {"model": name, "what": "a round of dfedmdc", "baseline": "plain PyTorch loop", **result}


def _sam(
    name: str, make: type[nn.Module], shape: tuple[int, ...], samples: int, repeats: int, compute: Compute
) -> dict[str, Any]:
    data = random_images(shape, samples)
    sam, sgd = _learner(make, data, "dfedsam", compute), _learner(make, data, "dfedavgm", compute)
    steps = H.body_epochs * -(-samples // H.batch_size)
    result = _compare(sam.train, sgd.train, repeats, compute)
    per_step = {key: result[key] / steps for key in ("ms", "baseline_ms")}
    return {"model": name, "what": "a SAM step", "baseline": "an SGD step", **result, **per_step}


def _compare(
    ours: Callable[[int], object], baseline: Callable[[int], object], repeats: int, compute: Compute
) -> dict[str, Any]:
    """Time both in turn, the first one alternating; a repetition's ratio is of two runs right after each other."""
    times: dict[int, list[float]] = {0: [], 1: []}
    for number in range(-2, repeats):
        runs = (ours, baseline)
        for which in (0, 1) if number % 2 else (1, 0):
            began = time.perf_counter()
            runs[which](max(0, number + 2))
            if compute.device.type == "cuda":
                torch.cuda.synchronize(compute.device)
            if number >= 0:  # the first two are to warm up
                times[which].append(1000 * (time.perf_counter() - began))
    ratios = [mine / other for mine, other in zip(*times.values(), strict=True)]
    return {"ms": median(times[0]), "baseline_ms": median(times[1]), "ratio_quartiles": quantiles(ratios, n=4)}


if __name__ == "__main__":
    main()
