"""Quantizing a body and decoding one in pieces, beside the plain formula over whole vectors and beside a copy.

    python benchmarks/quantization.py [--parameters 11200000] [--repeats 7] [--bits 4,8,16]

One thread, memory kept as a peer keeps it. Each repetition measures, one after another: a copy of a body into memory
that is there; encoding with the own values that it stands for; decoding a neighbor's payload; and both by the plain
formula. Figures are medians of processor time in milliseconds, ratios in a repetition to the copy and to the plain
formula, and encoding's share of the time that a line needs for two copies of the payload.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from time import thread_time

import torch
from torch import Tensor

from dpeer.federation.memory_tuning import keep_heap
from dpeer.training.codecs import Quantized
from dpeer.training.codecs.quantization import BLOCK

RATES = (20, 100, 1000)
"""Mbit/s of lines."""


def plain(values: Tensor, base: Tensor, bits: int) -> Tensor:
    """The values that quantized changes stand for, by temporaries as long as the body."""
    most = 2 ** (bits - 1) - 1
    change = torch.zeros(-(-values.numel() // BLOCK), BLOCK)
    change.view(-1)[: values.numel()] = values - base
    scales = change.abs().amax(dim=1) / most
    steps = (change / scales[:, None]).round().nan_to_num(0.0, 0.0, 0.0).clamp(-most, most).to(torch.int16)
    return plain_decoded(scales, steps.view(-1)[: values.numel()], base)


def plain_decoded(scales: Tensor, steps: Tensor, base: Tensor) -> Tensor:
    """The values of a neighbor, in the same way."""
    return base + steps.float() * scales.repeat_interleave(BLOCK)[: steps.numel()]


def seconds(work: Callable[[], object]) -> float:
    """The processor time of one call."""
    began = thread_time()
    work()
    return thread_time() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parameters", type=int, default=11_200_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--bits", default="4,8,16")
    given = parser.parse_args()
    keep_heap()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    start = torch.randn(given.parameters)
    values, into = start + 0.01 * torch.randn(given.parameters), torch.empty_like(start)
    scales, steps = torch.rand(-(-given.parameters // BLOCK)), torch.ones(given.parameters, dtype=torch.int16)
    print(
        f"{given.parameters} parameters, ms: copy; encode, decode; plainly; encode/copy, plain/encode, plain/decode; "
        f"encoding's share on {', '.join(f'{rate} Mbit/s' for rate in RATES)}"
    )
    for bits in map(int, given.bits.split(",")):
        one, other = (Quantized(start, rank, bits, steady=True) for rank in range(2))
        payload = one.encode(values, 0)
        rows: list[list[float]] = []
        for _ in range(given.repeats + 1):
            ways: list[Callable[[], object]] = [
                lambda: into.copy_(values),
                lambda: one.decode(0, one.encode(values, 0)),  # noqa: B023
                lambda: other.decode(0, payload),  # noqa: B023
                lambda: plain(values, start, bits),  # noqa: B023
                lambda: plain_decoded(scales, steps, start),
            ]
            rows.append([seconds(way) for way in ways])
        copy, encode, decode, *plainly = (1000 * median(column) for column in zip(*rows[1:], strict=True))
        ratios = [
            median(ratio)
            for ratio in zip(*((row[1] / row[0], row[3] / row[1], row[4] / row[2]) for row in rows[1:]), strict=True)
        ]
        print(
            f"int{bits}: {copy:.1f}; {encode:.1f}, {decode:.1f}; {plainly[0]:.1f}, {plainly[1]:.1f}; "
            + ", ".join(f"{ratio:.1f}" for ratio in ratios)
            + "; "
            + ", ".join(f"{encode / (16 * one.payload_bytes / rate / 1e3):.2%}" for rate in RATES)
        )


if __name__ == "__main__":
    main()
