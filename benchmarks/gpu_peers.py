"""A hundred peers on one GPU: seconds a round, memory and the share of kernels, beside a plain loop of the same steps.

    python benchmarks/gpu_peers.py [--peers 100] [--batches 4] [--batch 128] [--device cuda] [--minutes 12] [--json]

The peers of `dpeer simulate` train ResNet-18 with GroupNorm by DFedMDC on an exponential graph: an epoch of the head,
then of the body, on random images of CIFAR-10's shape, since no figure depends on what they show. The third of four
rounds is timed, which saves nothing, and that of ten peers profiled. The plain loop takes the steps of the first round,
and mixes nothing. The graphed one replays them from CUDA graphs, one a part and shape of a batch, on parameters into
which each peer's are copied, and prints whether it leaves the same bits. (The product has no place for graphs but a
branch in the step loop of `Trainer.fit`.) What `--minutes` ends has no figure. On a CPU memory is the process's, and
the graphed loop computes each step anew.
"""

from __future__ import annotations

import argparse
import copy
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from fleet import say
from local_training import Images, phases, plain
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import TensorDataset

import dpeer
from dpeer.exceptions import ConfigurationError
from dpeer.training import Hyperparameters, Task
from dpeer.training.device import Compute, find_device
from dpeer.training.models.networks import ResNet18

PROFILED = 10
"""The most peers while the profiler looks: it keeps every kernel."""
SHORTER = 8
"""An eighth of the last minibatch is missing, so that there are two shapes."""


def task(rank: int, size: int, seed: int, *, samples: int) -> Task:
    """Random images of ten classes."""
    images = torch.rand(samples, 3, 32, 32, generator=torch.Generator().manual_seed(rank))
    labels = torch.arange(samples) % 10
    train, test = TensorDataset(images, labels), TensorDataset(images[:2], labels[:2])
    return Task(model=ResNet18((3, 32, 32), 10), head=("head",), train=train, test=test, draws=False)


def simulated(h: Hyperparameters, peers: int, samples: int, device: str, ends_at: float) -> list[float]:
    """Four rounds of the product: when each has ended (time.monotonic), as many as the time allows."""
    came, ends = [0], list[float]()

    def note(entry: dict[str, Any]) -> None:
        came[0] += 1
        if came[0] % peers == 0:
            ends.append(time.monotonic())
        if time.monotonic() > ends_at:
            raise TimeoutError

    with tempfile.TemporaryDirectory(prefix="dpeer-bench-") as folder, suppress(TimeoutError):
        settings = dpeer.Settings(
            size=peers, topology="exponential", task=f"{__file__}:task", task_options={"samples": samples}, rounds=4,
            algorithm="dfedmdc", head_epochs=h.head_epochs, body_epochs=h.body_epochs, batch_size=h.batch_size,
            grad_clip=None, device=device, alone="never", keep="last", validation=0.0, evaluate_every=4,
            checkpoint_every=4, out=Path(folder),
        )  # fmt: skip
        dpeer.run(settings, on_record=note)
    return ends


def kernel_share(run: Callable[[], list[float]], device: torch.device) -> float | None:
    """The share of the third round in which kernels ran; None where the time ended it."""
    on_gpu = device.type == "cuda"
    with profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as seen:
        began = time.monotonic()
        ends = run()
    if len(ends) < 3:
        return None
    first, last = (1e6 * (ends[number] - began) for number in (1, 2))
    found = [one for one in seen.events() or () if one.device_type.name == ("CUDA" if on_gpu else "CPU")]
    busy: float = sum(one.time_range.elapsed_us() for one in found if first <= one.time_range.start < last)
    return busy / (last - first)


class Graphed:
    """The steps of `plain` on one model's parameters, replayed."""

    def __init__(self, model: nn.Module) -> None:
        self._model, self._steps = copy.deepcopy(model), dict[Any, tuple[Callable[[], object], Images]]()
        self._speed = {one: torch.zeros_like(one) for one in self._model.parameters()}

    def __call__(self, model: nn.Module, data: Images, h: Hyperparameters, rank: int, number: int) -> None:
        """Train a peer's model."""
        here: list[Tensor] = [*self._model.parameters()]
        there: list[Tensor] = [*model.parameters()]
        for part, lr, drawn in phases(self._model, data, h, rank, number):
            batches = [*drawn]
            for images, labels in batches:
                if (key := (len(part), len(labels))) not in self._steps:
                    self._steps[key] = self._captured(part, lr, h.momentum, (images.clone(), labels.clone()))
            self._copy(here, there)
            for batch in batches:
                step, buffers = self._steps[len(part), len(batch[1])]
                for buffer, values in zip(buffers, batch, strict=True):
                    buffer.copy_(values)
                step()
            self._copy(there, here)

    def _copy(self, to: list[Tensor], values: list[Tensor]) -> None:
        with torch.no_grad():
            torch._foreach_copy_(to, values)
            torch._foreach_zero_([*self._speed.values()])

    def _captured(
        self, part: Sequence[nn.Parameter], lr: float, momentum: float, batch: Images
    ) -> tuple[Callable[[], object], Images]:
        speed = [self._speed[one] for one in part]

        def step() -> None:
            gradients = torch.autograd.grad(cross_entropy(self._model(batch[0]), batch[1]), part)
            with torch.no_grad():
                torch._foreach_mul_(speed, momentum)
                torch._foreach_add_(speed, gradients)
                torch._foreach_add_([*part], speed, alpha=-lr)

        if not batch[0].is_cuda:
            return step, batch
        side: Any = torch.cuda.Stream(batch[0].device)  # type: ignore[no-untyped-call]
        graph = torch.cuda.CUDAGraph()
        side.wait_stream(torch.cuda.current_stream(batch[0].device))
        with torch.cuda.stream(side):
            for _ in range(3):  # libraries choose and allocate at first
                step()
        torch.cuda.current_stream(batch[0].device).wait_stream(side)
        with torch.cuda.graph(graph):
            step()
        return graph.replay, batch


def measure(peers: int, batches: int, batch: int, device: str, minutes: float) -> dict[str, Any]:
    """All that is measured, by name."""
    torch.set_num_threads(1)
    compute, ends_at = Compute(find_device(device, 0)), time.monotonic() + 60 * minutes
    h = Hyperparameters(head_epochs=1, body_epochs=1, batch_size=batch, grad_clip=None)
    samples = batches * batch - batch // SHORTER
    ends = simulated(h, peers, samples, device, ends_at)
    most = torch.cuda.max_memory_allocated(compute.device) if compute.device.type == "cuda" else 0
    most = most or 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    share = kernel_share(lambda: simulated(h, min(peers, PROFILED), samples, device, ends_at), compute.device)
    start = ResNet18((3, 32, 32), 10).to(compute.device)
    tasks = [task(rank, peers, 0, samples=samples) for rank in range(peers)]
    data: list[Images] = [compute.place(one.train.tensors) for one in tasks]

    def round_of(train: Callable[..., None]) -> tuple[float | None, list[Tensor]]:
        models = [copy.deepcopy(start) for _ in tasks]
        train(copy.deepcopy(start), data[0], h, 0, 0)  # to warm up
        compute.drain()
        began = time.monotonic()
        for rank, model in enumerate(models):
            if time.monotonic() > ends_at:
                return None, []
            train(model, data[rank], h, rank, 0)
        compute.drain()
        return time.monotonic() - began, [one.detach() for model in models for one in model.parameters()]

    (plainly, ours), (graphed, theirs) = round_of(plain), round_of(Graphed(start))
    return {
        "device": compute.device_name,
        "round_seconds": ends[2] - ends[1] if len(ends) > 2 else None,
        "kernel_share": share,
        "memory_mb": most / 1e6,
        "plain_seconds": plainly,
        "graphed_seconds": graphed,
        "graphed_same_bits": all(map(torch.equal, ours, theirs)) if ours and theirs else None,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peers", type=int, default=100)
    parser.add_argument("--batches", type=int, default=4, help="minibatches of the head, and of the body, in a round")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--device", default="cuda", help="cpu, cuda or cuda:N")
    parser.add_argument("--minutes", type=float, default=12.0)
    parser.add_argument("--json", action="store_true")
    given = vars(parser.parse_args())
    as_json = given.pop("json")
    try:
        say(measure(**given), as_json=as_json)
    except ConfigurationError as error:
        sys.exit(print(f"gpu_peers: {error}", file=sys.stderr) or 2)


if __name__ == "__main__":
    main()
