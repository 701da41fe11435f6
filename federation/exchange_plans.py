"""Exchange plans, a codec with or without overlap: a round's bytes and seconds on a site's line, and a recommendation.

A plan is a value of `--compress` with a value of `--overlap`. The rules by which a start refuses settings decide
whether it is allowed.
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

GENTLE = (("float32", "bfloat16", "float16", "int16", "int8"), ("int4",))
"""Codecs for which no accuracy is known to be lost (docs/results.md#algorithms), those of a byte a value first."""

_STEPS = ((0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2))
"""Overlap, and a group of codecs (`GENTLE`, and last all others), in the order in which plans are recommended.

Overlap mixes late, which has cost more accuracy than `int4`.
"""

WORTH = 0.8
"""A plan of a later step must take less than this share of the other plan's round, if both wait for the line."""

ALIKE = 1.05
"""Rounds that differ by less are alike: then the plan with fewer bytes is recommended."""

WAITING = 0.25
"""The least share of a round that waits for the line for which a plan is recommended."""


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
class ExchangePlan:
    """An exchange plan, and the time of a round with it.

    Attributes:
        compress: The codec, as `--compress` names it.
        overlap: 1 if bodies travel while the next round trains, else 0.
        payload_bytes: The bytes of one body.
        exchange_seconds: The seconds for which bodies travel.
        round_seconds: The seconds of a round.
        waits_seconds: Those of them in which the peer does nothing but wait for the line.
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


def timed(compress: str, overlap: int, payload_bytes: int, exchange: float, home: HomeWork) -> ExchangePlan:
    """A plan with its times: without overlap bodies travel after training, with it while the next round trains."""
    free = home.train if overlap else home.before
    waits = max(0.0, exchange - free)
    total = home.train + home.after + (0.0 if overlap else home.before) + waits
    return ExchangePlan(compress, overlap, payload_bytes, exchange, total, waits)


def exchange_plans(
    config: RunConfig, learner: TorchLearner, seconds: Callable[[int], float], home: HomeWork
) -> tuple[ExchangePlan, list[ExchangePlan]]:
    """The plan that the settings ask for, and all that are compared, that one among them.

    Args:
        config: The peer's.
        learner: Its learner.
        seconds: The seconds for which bodies travel, from the bytes of one.
        home: The seconds of a round's work at home.
    """
    how, shapes = config.training, learner.body_shapes
    names = [how.compress] * (how.compress not in TRIED) + [*TRIED]
    plans = []
    for overlap in (0, 1):
        for name in names:
            size = learner.usual_bytes if name == how.compress else compressed_bytes(name, shapes)
            plan = timed(name, overlap, size, seconds(size), home)
            plans.append(dataclasses.replace(plan, refused=refusal(config, learner, plan)))
    return next(plan for plan in plans if (plan.compress, plan.overlap) == (how.compress, how.overlap)), plans


def refusal(config: RunConfig, learner: TorchLearner, plan: ExchangePlan) -> str | None:
    """Why a start with this plan in place of the present one would be refused; None if it would not."""
    how = config.training.model_copy(update={"compress": plan.compress, "overlap": plan.overlap})
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


def recommended(now: ExchangePlan, plans: Sequence[ExchangePlan]) -> ExchangePlan | None:
    """The plan to recommend in place of the present one; None if none saves enough.

    It is the first in the order of `_STEPS` that waits for the line for less than `WAITING` of its round. Where none
    does, each step has to save a fifth of a round.
    """
    if not _waits_long(now):
        return None
    best = now
    for overlap, group in _STEPS:
        allowed = [
            plan
            for plan in plans
            if plan.refused is None and plan.overlap == overlap and _group(plan.compress) == group
        ]
        if not allowed:
            continue
        fastest = min(plan.round_seconds for plan in allowed)
        alike = [plan for plan in allowed if plan.round_seconds <= ALIKE * fastest]
        found = min(alike, key=lambda plan: (plan.payload_bytes, plan.round_seconds))
        if not _waits_long(found) and ALIKE * found.round_seconds < now.round_seconds:
            return found
        if found.round_seconds < WORTH * best.round_seconds:
            best = found
    return None if best is now else best


def _waits_long(plan: ExchangePlan) -> bool:
    """Whether so much of a round waits for the line that another plan is recommended."""
    return plan.waits_seconds >= WAITING * plan.round_seconds


def _group(codec: str) -> int:
    """The number of a codec's group."""
    return next((number for number, names in enumerate(GENTLE) if codec in names), len(GENTLE))


def advice(now: ExchangePlan, best: ExchangePlan) -> str:
    """The recommendation in words."""
    waits, total = duration(now.waits_seconds), duration(now.round_seconds)
    return (
        f"a round waits {waits} of {total} for the line: {best.flags} would take about {duration(best.round_seconds)}"
    )
