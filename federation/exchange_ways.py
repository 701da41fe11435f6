"""Ways to send bodies: bytes and seconds of a round of each on a site's own line, and the one to recommend.

A way is a codec (`--compress`) with or without `--overlap 1`. Whether one may be used is left to the rules by which a
start would refuse it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpeer.exceptions import DpeerError
from dpeer.federation.checks import check_exchange
from dpeer.federation.config import RunConfig
from dpeer.results.units import duration
from dpeer.topology import TimeVaryingTopology, Topology
from dpeer.topology.settings import build_graph
from dpeer.training import TorchLearner
from dpeer.training.codecs import compressed_bytes

TRIED = ("float32", "bfloat16", "int8", "int4", "powersgd:4", "topk:0.05")
"""The codecs that are compared, in the order of what they leave out."""

GENTLE = ("float32", "bfloat16", "float16", "int16", "int8")
"""Codecs for which no accuracy is known to be lost (docs/results-algorithms.md)."""

WORTH = 0.8
"""The share of a round that a way may take at most which leaves out more, or waits for less, than another one."""

ALIKE = 1.05
"""Rounds that differ by less are alike: then the way with fewer bytes is recommended."""

WAITING = 0.25
"""The share of a round from which on waiting for the line is worth a recommendation."""


@dataclass(frozen=True)
class HomeWork:
    """The seconds of a round's work at home.

    Attributes:
        train: Of training and release.
        before: Of what is done while bodies travel: the evaluation before mixing, without overlap.
        after: Of what follows: mixing and the evaluation after it.
    """

    train: float
    before: float
    after: float


@dataclass(frozen=True)
class Way:
    """A way to send bodies, and what a round takes by it.

    Attributes:
        compress: The codec, as `--compress` names it.
        overlap: 1 if bodies travel while the next round trains, else 0.
        payload_bytes: The bytes of one body.
        exchange_seconds: The seconds for which bodies are under way.
        round_seconds: The seconds of a round.
        waits_seconds: Those of them in which nothing is done but to wait for the line.
        refused: Why a start with it would be refused; None if it would not.
    """

    compress: str
    overlap: int
    payload_bytes: int
    exchange_seconds: float
    round_seconds: float
    waits_seconds: float
    refused: str | None = None

    @property
    def flags(self) -> str:
        """The options that ask for it; `plain` for the default."""
        asked = [f"--overlap {self.overlap}"] if self.overlap else []
        asked += [f"--compress {self.compress}"] if self.compress != "float32" else []
        return " ".join(asked) or "plain"


def timed(compress: str, overlap: int, payload_bytes: int, exchange: float, home: HomeWork) -> Way:
    """A way with its times: without overlap bodies travel after training, with it while the next round trains."""
    free = home.train if overlap else home.before
    waits = max(0.0, exchange - free)
    total = home.train + home.after + (0.0 if overlap else home.before) + waits
    return Way(compress, overlap, payload_bytes, exchange, total, waits)


def exchange_ways(
    config: RunConfig, learner: TorchLearner, seconds: Callable[[int], float], home: HomeWork
) -> tuple[Way, list[Way]]:
    """The way that the settings ask for, and all that are compared, that one among them.

    Args:
        config: The peer's.
        learner: Its learner.
        seconds: The seconds for which bodies of so many bytes are under way.
        home: The seconds of a round's work at home.
    """
    how, shapes = config.training, learner.body_shapes
    names = [how.compress] * (how.compress not in TRIED) + [*TRIED]
    ways = []
    for overlap in (0, 1):
        for name in names:
            size = learner.usual_bytes if name == how.compress else compressed_bytes(name, shapes)
            way = timed(name, overlap, size, seconds(size), home)
            ways.append(dataclasses.replace(way, refused=refusal(config, learner, way)))
    return next(way for way in ways if (way.compress, way.overlap) == (how.compress, how.overlap)), ways


def refusal(config: RunConfig, learner: TorchLearner, way: Way) -> str | None:
    """Why a start with this way in place of the present one would be refused; None if it would not."""
    how = config.training.model_copy(update={"compress": way.compress, "overlap": way.overlap})
    changed, graph = dataclasses.replace(config, training=how), build_graph(config.graph)
    try:
        check_exchange(changed, graph)
        learner.check_exchange(changed.hyperparameters, steady=is_steady(graph, how.participation))
    except DpeerError as error:
        return str(error)
    return None


def is_steady(graph: Topology | TimeVaryingTopology, participation: float) -> bool:
    """Whether a peer exchanges with the same neighbors in every round."""
    return isinstance(graph, Topology) and participation == 1


def recommended(now: Way, ways: Sequence[Way]) -> Way | None:
    """The way to recommend in place of the present one; None if none saves enough.

    Gentle codecs come first, then overlap, which mixes late, then codecs that leave out more. Each of these steps has
    to save a fifth of a round.
    """
    best = now
    for overlap, gentle in ((0, True), (1, True), (0, False), (1, False)):
        allowed = [
            way for way in ways if way.refused is None and way.overlap == overlap and (way.compress in GENTLE) is gentle
        ]
        if not allowed:
            continue
        fastest = min(way.round_seconds for way in allowed)
        alike = [way for way in allowed if way.round_seconds <= ALIKE * fastest]
        found = min(alike, key=lambda way: (way.payload_bytes, way.round_seconds))
        if found.round_seconds < WORTH * best.round_seconds:
            best = found
    return None if best is now or now.waits_seconds < WAITING * now.round_seconds else best


def advice(now: Way, best: Way) -> str:
    """The recommendation in words."""
    waits, total = duration(now.waits_seconds), duration(now.round_seconds)
    return (
        f"a round waits {waits} of {total} for the line: {best.flags} would take about {duration(best.round_seconds)}"
    )
