"""Recommendation of an exchange plan during a run: once, when recent rounds have waited for the line."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from dpeer.federation.config import RunConfig
from dpeer.federation.exchange_plans import WAITING, ExchangePlan, HomeWork, exchange_plans, recommended
from dpeer.results.json_fields import number
from dpeer.results.records import line_wait
from dpeer.training import TorchLearner

ROUNDS = 3
"""Rounds in a row, of which the medians count. The first round of a process is left out: it warms up."""

_SECONDS = ("train_seconds", "exchange_seconds", "mix_seconds", "receive_seconds", "hidden_seconds")


@dataclass(frozen=True)
class SlowRounds:
    """Rounds that wait for the line, in the median.

    Attributes:
        home: What a round takes at home; waiting that is not for the line is part of it.
        waits: Seconds of waiting in which bodies were coming in.
        receives: All seconds in which they were.
        payload_bytes: The bytes of one body as it came.
    """

    home: HomeWork
    waits: float
    receives: float
    payload_bytes: float


class SlowLine:
    """Watches completed rounds until they wait for the line for `WAITING` of their time or more."""

    def __init__(self) -> None:
        self._rounds: deque[Mapping[str, float]] = deque(maxlen=ROUNDS)
        self._begun = self._over = False

    def look(self, entry: Mapping[str, Any]) -> SlowRounds | None:
        """Take a round's line of metrics.jsonl; the slow rounds once, when they first wait for the line for so long."""
        if not self._begun or self._over:
            self._begun = True
            return None
        heard = entry["heard"]
        if not entry["active"] or not heard:
            return None
        seconds = {name: number(entry.get(name)) or 0.0 for name in _SECONDS}
        self._rounds.append(seconds | {"body": entry["bytes_received"] / len(heard)})
        if len(self._rounds) < ROUNDS:
            return None
        found = {name: median(one[name] for one in self._rounds) for name in (*_SECONDS, "body")}
        waits = line_wait(found["receive_seconds"], found["hidden_seconds"], found["exchange_seconds"])
        if waits < WAITING * (found["train_seconds"] + found["exchange_seconds"] + found["mix_seconds"]):
            return None
        self._over = True
        rest = found["mix_seconds"] + found["exchange_seconds"] - waits
        return SlowRounds(HomeWork(found["train_seconds"], 0.0, rest), waits, found["receive_seconds"], found["body"])


def recommend(config: RunConfig, learner: TorchLearner, slow: SlowRounds) -> tuple[ExchangePlan, ExchangePlan] | None:
    """The plan that the peer uses and the one to recommend; None where none saves enough, or none is allowed.

    Args:
        config: The peer's.
        learner: Its learner, between two of its calls.
        slow: Its rounds.
    """
    exchange = slow.receives if config.training.overlap else slow.waits
    try:
        now, plans = exchange_plans(config, learner, lambda size: exchange * size / slow.payload_bytes, slow.home)
    except Exception:  # a peer never fails for the sake of a recommendation, whatever code of a user's own does
        return None
    best = recommended(now, plans)
    return None if best is None else (now, best)
