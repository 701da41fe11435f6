"""Payload size of each built-in codec, from its name and the shapes of the parameters."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from dpeer.training.codecs import quantization
from dpeer.training.compress_setting import Compression

HEADER = 8
"""Bytes ahead of a part of a change."""

QUANTIZED_HEADER = struct.Struct("<qq")
"""Ahead of a quantized change: the round from whose release it counts, and its own."""

INDEX_BLOCK = 2**16
"""Values among which `topk` chooses: an index has two bytes."""

Shape = Sequence[int]


def compressed_bytes(name: str, shapes: Sequence[Shape]) -> int:
    """The bytes of a round's payload.

    Args:
        name: A built-in codec as `--compress` names it, such as ``topk:0.05``.
        shapes: The shapes of the body's parameters.

    Returns:
        Those of a usual round. After a loss `topk` and `powersgd` send all values once.

    Raises:
        ValueError: No built-in codec has this name.
    """
    asked, count = Compression.parse(name), sum(math.prod(shape) for shape in shapes)
    if asked.kind == "class":
        raise ValueError(f"{name!r} is a class, whose payloads are known to itself alone")
    if asked.kind in ("float32", "bfloat16", "float16"):
        return (4 if asked.kind == "float32" else 2) * count
    if asked.kind == "topk":
        return HEADER + 4 * sum(chosen for _, chosen in blocks(count, asked.share))
    if asked.kind == "powersgd":
        return HEADER + 2 * sum(low_rank_values(shape, asked.rank) for shape in shapes)
    return sum(quantized_parts(count, int(asked.kind.removeprefix("int"))))


def quantized_parts(count: int, bits: int) -> tuple[int, int, int]:
    """The bytes of a quantized change: header, scales, and so many bits a value."""
    return QUANTIZED_HEADER.size, 4 * quantization.blocks(count), quantization.packed(count, bits)


def blocks(count: int, share: float) -> list[tuple[int, int]]:
    """The blocks of a vector: how many values each has, and how many of them `topk` chooses."""
    sizes = [min(INDEX_BLOCK, count - first) for first in range(0, count, INDEX_BLOCK)]
    return [(size, min(size, math.ceil(share * size))) for size in sizes]


def as_matrix(shape: Shape) -> tuple[int, int]:
    """A parameter's shape as rows and columns: outputs, and all else. A vector is one column."""
    return (shape[0], math.prod(shape[1:])) if shape else (1, 1)


def low_rank(shape: Shape, rank: int) -> int:
    """The rank with which `powersgd` sends a parameter; 0 where it travels whole, because no rank saves anything."""
    rows, columns = as_matrix(shape)
    return rank if rank * (rows + columns) < rows * columns else 0


def low_rank_values(shape: Shape, rank: int) -> int:
    """How many values of a parameter `powersgd` sends."""
    found = low_rank(shape, rank)
    return found * sum(as_matrix(shape)) if found else math.prod(shape)
