"""Encoding and decoding a body by every kind of codec, beside a copy, with the bytes of a usual round.

    python benchmarks/compression.py [--side 1024] [--layers 11] [--repeats 5] [--codecs int8,topk:0.05,powersgd:4]

One thread. The body has so many square matrices, and a vector for each; its changes are random. Each repetition takes
all codecs one after the other, a copy of the body first. Figures are medians of processor time in milliseconds, and of
ratios to the copy in the same repetition.
"""

from __future__ import annotations

import argparse
from statistics import median
from time import thread_time

import torch

from dpeer.federation.memory_tuning import keep_heap
from dpeer.training.codecs import new_codec

CODECS = "bfloat16,int8,int4,topk:0.1,topk:0.05,topk:0.01,powersgd:2,powersgd:4,powersgd:8"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=11)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--codecs", default=CODECS)
    given = parser.parse_args()
    keep_heap()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    shapes = [(given.side, given.side), (given.side,)] * given.layers
    count = given.layers * given.side * (given.side + 1)
    start, into = torch.zeros(count), torch.empty(count)
    names = given.codecs.split(",")
    pairs = [[new_codec(name, start, rank, steady=True, shapes=shapes) for rank in (0, 1)] for name in names]
    values, rows, sizes = start.clone(), [], [0] * len(names)
    for number in range(given.repeats + 1):
        values += 0.01 * torch.randn(count)
        began = thread_time()
        into.copy_(values)
        row = [thread_time() - began]
        for index, (one, other) in enumerate(pairs):
            began = thread_time()
            payload = one.encode(values, number)
            encoded = thread_time()
            other.decode(0, payload)
            row += [encoded - began, thread_time() - encoded]
            one.decode(0, payload)
            one.mixed(())
            other.mixed([0])
            sizes[index] = sum(memoryview(part).nbytes for part in payload)
        rows.append(row)
    copy, *columns = zip(*rows[1:], strict=True)
    print(f"{count} parameters, a copy takes {1000 * median(copy):.1f} ms; encode, decode (ms; times a copy); bytes")
    for index, name in enumerate(names):
        encode, decode = columns[2 * index : 2 * index + 2]
        ratios = [median(one / beside for one, beside in zip(times, copy, strict=True)) for times in (encode, decode)]
        print(
            f"{name}: {1000 * median(encode):.0f}, {1000 * median(decode):.0f}; "
            f"{ratios[0]:.1f}, {ratios[1]:.1f}; {sizes[index]} ({4 * count / sizes[index]:.1f} times fewer)"
        )


if __name__ == "__main__":
    main()
