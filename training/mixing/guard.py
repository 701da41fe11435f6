"""Guard against hostile neighbors: leaves bodies out, and mixes the others by a robust rule.

He, Karimireddy and Jaggi, Byzantine-Robust Decentralized Learning via ClippedGossip, arXiv 2202.01545:

    x_i <- x_i + sum_j W_ij CLIP(z_j - x_i, tau_i),    CLIP(d, tau) = min(1, tau / ||d||) d

which is a weighted sum, with weights that follow from the distances. Coordinate by coordinate: the trimmed mean and the
median of Yin, Chen, Ramchandran and Bartlett, Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates,
ICML 2018, here with the weights of the mixing matrix.

All is computed from released bodies, the own one included. So under differential privacy it costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dpeer.training.device import CPU
from dpeer.training.mixing.weighted_sum import aligned, all_finite, weighted_sum
from dpeer.training.setting_texts import Robust

Vectors = Sequence[Tensor]
"""A body on the host, in one piece or several."""

BLOCK = 2**18
"""Values that distances are summed over at once; also how many values of all bodies together are sorted at once."""

FEW = 32
"""Bodies that are ordered by exchanging."""

_SAME = 1e-6
"""How far a sum of weights may be from a half and count as one."""


@dataclass(frozen=True)
class Guard:
    """Checks and robust rule of one peer for the payloads that it receives.

    Attributes:
        rank: The peer.
        robust: How bodies are mixed.
        max_norm: A body that is farther than this from the own one is left out; None for any distance.
    """

    rank: int
    robust: Robust
    max_norm: float | None

    @property
    def plain(self) -> bool:
        """Whether bodies are mixed by their weights, whatever they are."""
        return self.robust.rule == "none" and self.max_norm is None

    def judge(self, received: Mapping[int, Vectors], own: Vectors) -> tuple[dict[int, str], dict[int, float]]:
        """Find the bodies to leave out.

        Returns:
            Why by rank, and where they are needed the distances of the others from the own body.
        """
        refused: dict[int, str] = {}
        distances: dict[int, float] = {}
        if self.max_norm is None and self.robust.rule != "clip":
            refused = {rank: "not-finite" for rank, vectors in received.items() if not all_finite(vectors)}
        else:
            for rank, vectors in received.items():
                apart = distance(vectors, own)
                if not math.isfinite(apart):
                    refused[rank] = "not-finite"
                elif self.max_norm is not None and apart > self.max_norm:
                    refused[rank] = "too-far"
                else:
                    distances[rank] = apart
        left = received.keys() - refused.keys()
        if len(left) < 2 * self.robust.trim:  # with the own body, there would be nothing between what is trimmed
            refused |= dict.fromkeys(sorted(left), "too-few")
        return refused, distances

    def mix(
        self,
        into: Tensor,
        received: Mapping[int, Vectors],
        own: Vectors,
        row: Mapping[int, float],
        distances: Mapping[int, float],
    ) -> bool:
        """Replace a vector by the mix of bodies that `judge` lets pass.

        The row has the weights of exactly these ranks, and of the own where it counts; `judge` has found the distances.

        Returns:
            Whether all terms are known to be finite.
        """
        bodies = {rank: own if rank == self.rank else received[rank] for rank in sorted(row)}
        rule = self.robust.rule
        if rule == "clip" and received:
            row = clipped(row, self.rank, {rank: distances[rank] for rank in received}, self.robust.radius)
        if rule in ("none", "clip") or not received:
            return weighted_sum(into, [(bodies[rank], row[rank]) for rank in bodies])
        there = into if into.device.type == "cpu" else torch.empty_like(into, device=CPU)
        weights = torch.tensor([row[rank] for rank in bodies], dtype=torch.float32, device=CPU)
        for here, values in _side_by_side(there, [*bodies.values()]):
            if rule == "median":
                here.copy_(weighted_median(values, weights))
            else:
                here.copy_(trimmed_mean(values, weights, self.robust.trim))
        if there is not into:
            into.copy_(there)
        return bool(torch.isfinite(there.sum()))


def distance(body: Vectors, own: Vectors) -> float:
    """The length of the difference of two bodies; not finite where a value is not.

    The same to the bit however the bodies are cut into pieces.
    """
    # In float32 the squares of large values overflow; in float64, at three times the cost, those of none do.
    found = _length(body, own, torch.float32)
    return found if math.isfinite(found) else _length(body, own, torch.float64)


def _length(body: Vectors, own: Vectors, dtype: torch.dtype) -> float:
    count = sum(vector.numel() for vector in own)
    scratch = torch.empty(min(BLOCK, count), dtype=dtype, device=CPU)
    total, filled = 0.0, 0
    for block, here in aligned([body, own], BLOCK):
        if filled == len(scratch):
            total, filled = total + float(torch.dot(scratch, scratch)), 0
        torch.sub(block.to(dtype), here.to(dtype), out=scratch[filled : filled + block.numel()])
        filled += block.numel()
    rest = scratch[:filled]
    return math.sqrt(total + float(torch.dot(rest, rest)))


def clipped(
    row: Mapping[int, float], rank: int, distances: Mapping[int, float], radius: float | None
) -> Mapping[int, float]:
    """The weights with which a sum of whole bodies is the mix of clipped differences.

    Without a radius tau is the median of all bodies' distances, the own one's among them, which is 0; of two the lower.
    While at most half of the received bodies are hostile (of an odd number the larger half), that is no longer than the
    longest distance of an honest one, whatever the others send.

    Returns:
        The row itself where nothing is clipped.
    """
    if radius is None:
        radius = sorted([0.0, *distances.values()])[len(distances) // 2]
    shares = {other: radius / apart if apart > radius else 1.0 for other, apart in distances.items()}
    if all(share == 1.0 for share in shares.values()):
        return row
    kept = {other: row[other] * share for other, share in shares.items()}
    own = math.fsum([row[rank], *(row[other] * (1.0 - share) for other, share in shares.items())])
    return dict(sorted({**kept, rank: own}.items()))


def trimmed_mean(values: Tensor, weights: Tensor, trim: int) -> Tensor:
    """The weighted mean of each column without its `trim` smallest and `trim` largest values.

    Values, shape (bodies, count), are finite, and less than half the bodies are trimmed. The weights of the values that
    are left are scaled to sum to one.
    """
    if _alike(weights):
        left = _ordered(values)[trim : len(values) - trim]
        alike = torch.zeros_like(values[0])
        for kept in left:
            alike.add_(kept / len(left))
        return alike
    ordered, places = values.sort(dim=0, stable=True)
    total, weight = torch.zeros_like(values[0]), torch.zeros_like(values[0])
    # In a loop, because how torch adds along a dimension depends on the shape, and pieces are cut anyhow.
    for kept, place in zip(ordered[trim : len(values) - trim], places[trim : len(values) - trim], strict=True):
        total.add_(kept * weights[place])
        weight.add_(weights[place])
    middle = ordered[len(values) // 2]  # all that is left may be the own value, which may have weight 0
    return torch.where(weight > 0, total / weight, middle)


def weighted_median(values: Tensor, weights: Tensor) -> Tensor:
    """The value of each column below and above which lies at most half of the weight; the mean of two such values.

    Values, shape (bodies, count), are finite; weights, shape (bodies,), have sum one.
    """
    if _alike(weights):
        rows = _ordered(values)
        below, above = rows[(len(rows) - 1) // 2], rows[len(rows) // 2]
        return _between(below, above)
    ordered, places = values.sort(dim=0, stable=True)
    lower, upper, before = ordered[0].clone(), ordered[0].clone(), torch.zeros_like(ordered[0])
    for value, place in zip(ordered, places, strict=True):
        lower = torch.where(before < 0.5 - _SAME, value, lower)
        upper = torch.where(before < 0.5 + _SAME, value, upper)
        before = before + weights[place]
    return _between(lower, upper)


def _between(lower: Tensor, upper: Tensor) -> Tensor:
    """The mean of two values, without overflow, and to the bit where they are equal; of zeros without a sign."""
    return torch.where(lower == upper, lower, lower / 2 + upper / 2) + 0.0


def _alike(weights: Tensor) -> bool:
    """Whether all weights are equal, so that values can be ordered without them, which is faster."""
    return len(weights) <= FEW and bool((weights == weights[0]).all())


def _ordered(values: Tensor) -> list[Tensor]:
    """The rows of a matrix with each column in order: of a few rows, exchanging whole ones is far faster than sorting.

    Zeros of different sign may come in any order.
    """
    rows = [*values.unbind()]
    for end in range(len(rows) - 1, 0, -1):
        for here in range(end):
            low, high = rows[here], rows[here + 1]
            rows[here], rows[here + 1] = torch.minimum(low, high), torch.maximum(low, high)
    return rows


def _side_by_side(into: Tensor, bodies: Sequence[Vectors]) -> Iterator[tuple[Tensor, Tensor]]:
    """Blocks of a vector on the host, each with the bodies' values there as rows of a matrix; a matrix at a time."""
    size = max(1024, BLOCK // len(bodies))
    for here, *blocks in aligned([[into], *bodies], size):
        yield here, torch.stack([block.float() for block in blocks])
