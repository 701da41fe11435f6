"""The effect of federating on peers: its record in summary.json, its statistics over rows and peers, and its words."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING, Any, Literal

from dpeer.results.json_fields import Count, JsonFields, Number, table
from dpeer.results.training_alerts import ranks_rows
from dpeer.results.units import decimals

if TYPE_CHECKING:
    from numpy.typing import NDArray


Verdict = Literal["improved", "worse", "inconclusive"]
"""The federated model beside the baseline."""

Kept = Literal["joined", "alone", "blend"]
"""Which model a peer keeps, where validation data weighed both: one of them, or a blend."""

FEWEST_ROWS = 10
"""Fewer rows have no verdict: a resample of so few is no guide to others."""

NOTHING_RECEIVED = "nothing was received from a neighbor that could be mixed, in any round"
"""The reason for no verdict where a peer has mixed no body."""

LOCAL_ONLY = "local only"
"""The name of the baseline that each peer trains by itself."""


@dataclass(frozen=True)
class Effect(JsonFields):
    """The entry `worth` of a peer's summary.json; None where a value is not known."""

    measure: str | None = None
    """accuracy, or test_loss where rows are neither right nor wrong."""
    on: str | None = None
    """test or validation: the rows that were used."""
    rows: Count | None = None
    """How many of this peer's own rows both models were compared on."""
    joined: Number | None = None
    """The measure of the federated model: the best one, or the last."""
    constant: Number | None = None
    """The same of always answering the most frequent training class, or the mean training target."""
    alone: Number | None = None
    """The same of the baseline."""
    auroc: Number | None = None
    alone_auroc: Number | None = None
    rounds: Count | None = None
    """How many rounds the baseline was trained."""
    planned: Count | None = None
    """How many that should have been."""
    gain: Number | None = None
    """How much better the federated model is, in the measure's unit; of a loss, how much lower."""
    low: Number | None = None
    high: Number | None = None
    """The ends of the gain's 95 % interval."""
    differ: Count | None = None
    """On how many rows the two models differ."""
    verdict: Verdict | None = None
    rounds_mixed: Count | None = None
    """In how many rounds the peer mixed a neighbor's body."""
    validation_loss: Number | None = None
    """The federated model's, by which its round was chosen; None without ``keep="best"``."""
    alone_validation_loss: Number | None = None
    """The same of the baseline."""
    kept: Kept | None = None
    """Which is the peer's model; None where the two were not weighed."""
    weight: Number | None = None
    """The federated model's share of the blend; None without one."""
    blend: Number | None = None
    """The measure of the blend."""
    blend_validation_loss: Number | None = None
    """The blend's."""
    no_blend: str | None = None
    """The reason for no blend, where one was asked for."""
    why: str | None = None
    """The reason for no comparison."""

    @property
    def of_accuracy(self) -> bool:
        """Whether rows are right or wrong; else they have a loss."""
        return self.measure == "accuracy"

    @property
    def is_unfinished(self) -> bool:
        """Whether the baseline has rounds left to be trained, so that it can be compared later."""
        return self.verdict is None and (self.rounds or 0) < (self.planned or 0)

    @property
    def is_useless(self) -> bool:
        """Whether a constant answer does at least as well, and is not perfect itself."""
        if self.joined is None or self.constant is None:
            return False
        return self.joined <= self.constant < 1 if self.of_accuracy else self.joined >= self.constant > 0


def effect_of(value: Any) -> Effect | None:
    """The entry as it was read; None without one."""
    content = table(value)
    return None if content is None else Effect.of(content)


def effects_by_rank(value: Any) -> tuple[Effect | None, ...]:
    """The entries of all peers; empty if the value is no list."""
    return tuple(map(effect_of, value)) if isinstance(value, list) else ()


def closing_lines(effect: Effect, folder: str | None = None) -> list[str]:
    """The lines that a peer's run ends with; with a folder they name its `dpeer worth`, where that makes sense."""
    later = f"; dpeer worth {shlex.quote(folder)} makes it later" if effect.is_unfinished and folder is not None else ""
    missing = [] if effect.why is None else [f"no comparison with {LOCAL_ONLY}: {effect.why}{later}"]
    if effect.rows is None:
        return missing
    name = "accuracy" if effect.of_accuracy else "loss"
    model = "" if effect.kept in (None, "joined") else "federated model: "
    first = f"{model}{name} {decimals(effect.joined)}{_auroc(effect.auroc)} on {_rows(effect)}"
    constant = "always the most frequent class" if effect.of_accuracy else "always the mean"
    if effect.constant is not None:
        first += f"; {constant}: {decimals(effect.constant)}"
    useless = [_useless_text(effect, constant)] if effect.is_useless else []
    if effect.alone is not None:
        part = "" if effect.rounds == effect.planned else f" after {effect.rounds} of {effect.planned} rounds"
        first += f"; {LOCAL_ONLY}{part}: {decimals(effect.alone)}{_auroc(effect.alone_auroc)}"
    if effect.verdict is not None:
        gain = f"gain {gain_text(effect)}: {verdict_text(effect)}{_few_rounds(effect)}"
        return [first, gain, *useless, *_kept_text(effect)]
    return [first, *useless, *missing, *_kept_text(effect)]


def _useless_text(effect: Effect, constant: str) -> str:
    """A model that is no better than a constant answer; it may have learned something all the same."""
    line = f"the model is no better than {constant}"
    if ranks_rows(effect.auroc):
        return (
            f"{line} at its threshold, but ranks rows (AUROC {effect.auroc:.4f}): choose a threshold on its "
            "scores, or --class-weights balanced"
        )
    return line


def _few_rounds(effect: Effect) -> str:
    """In how many rounds bodies were mixed, where not in all."""
    if effect.rounds_mixed is None or effect.planned is None or effect.rounds_mixed >= effect.planned:
        return ""
    return f"; bodies mixed in {effect.rounds_mixed} of {effect.planned} rounds"


def _kept_text(effect: Effect) -> list[str]:
    """Lines on the model that is kept, and why it is no blend; none where the two models were not weighed."""
    missing = [] if effect.no_blend is None else [f"no blend: {effect.no_blend}"]
    if effect.kept is None or effect.validation_loss is None or effect.alone_validation_loss is None:
        return missing
    losses = {"federated": effect.validation_loss, "local-only": effect.alone_validation_loss}
    if effect.kept == "blend":
        name = "accuracy" if effect.of_accuracy else "loss"
        return [
            f"kept: the blend of both models, {effect.weight or 0:.2f} of it federated: {name} "
            f"{decimals(effect.blend)}, validation loss {effect.blend_validation_loss or 0:.4g} (federated "
            f"{losses['federated']:.4g}, local-only {losses['local-only']:.4g})"
        ]
    kept, other = ("local-only", "federated") if effect.kept == "alone" else ("federated", "local-only")
    line = f"kept: the {kept} model, validation loss {losses[kept]:.4g}; the {other} one's is {losses[other]:.4g}"
    return [*missing, line]


def gain_text(effect: Effect) -> str:
    """The gain with its interval."""
    if effect.gain is None:
        return "-"
    unit = "" if effect.of_accuracy else " of loss"
    return f"{decimals(effect.gain, '+')}{unit} (95 % interval {interval_text(effect)})"


def interval_text(effect: Effect) -> str:
    """The ends of the gain's interval."""
    return (
        "-"
        if effect.low is None or effect.high is None
        else f"{decimals(effect.low, '+')} to {decimals(effect.high, '+')}"
    )


def verdict_text(effect: Effect) -> str:
    """The verdict with its reason, in one sentence without a full stop."""
    improved, worse = f"improved over {LOCAL_ONLY}", f"worse than {LOCAL_ONLY}"
    if effect.verdict in ("improved", "worse"):
        return improved if effect.verdict == "improved" else worse
    rows = _rows(effect, own=False)
    few = effect.rows is not None and effect.rows < FEWEST_ROWS
    reason = f"{rows} are fewer than {FEWEST_ROWS}" if few else _mcnemar(effect)
    if effect.high is not None and effect.high < 0:
        return f"probably {worse}: the whole interval lies below zero, but {reason}"
    if effect.low is not None and effect.low > 0:
        return f"probably {improved}: the whole interval lies above zero, but {reason}"
    if few:
        return f"inconclusive, {reason}"
    differ = f", of which {effect.differ} differ" if effect.of_accuracy and effect.differ is not None else ""
    return f"inconclusive, the interval holds zero ({rows}{differ})"


def _mcnemar(effect: Effect) -> str:
    """The rows that McNemar's test counts, where it does not agree with the interval."""
    differ, more = effect.differ or 0, round((effect.gain or 0.0) * (effect.rows or 0))
    joined = (differ + more) // 2
    return (
        f"McNemar's test does not confirm it: {joined} rows are right only federated, {differ - joined} only with "
        f"{LOCAL_ONLY}"
    )


def verdict_word(effect: Effect) -> str:
    """The verdict in a word or two, for tables and pictures."""
    if effect.verdict == "inconclusive" and effect.high is not None and effect.high < 0:
        return "probably worse"
    return effect.verdict or "-"


def headline(found: Sequence[Effect | None]) -> str:
    """How many peers improved; empty where no peer has been compared."""
    compared = [effect for effect in found if effect is not None and effect.verdict is not None]
    if not compared:
        return ""
    counts = Counter(effect.verdict for effect in compared)
    peers = "peer" if len(compared) == 1 else "peers"
    parts = [f"{counts['improved']} of {len(compared)} {peers} improved over {LOCAL_ONLY}"]
    if counts["worse"]:
        parts.append(f"{counts['worse']} worse")
    if counts["inconclusive"]:
        parts.append(f"{counts['inconclusive']} inconclusive")
    if leaning := sum(verdict_word(effect) == "probably worse" for effect in compared):
        parts[-1] += f" ({leaning} probably worse)"
    return "; ".join(parts)


def majority_accuracy(train: Sequence[int] | None, evaluated: Sequence[int] | None) -> float | None:
    """The accuracy of always answering the most frequent training class.

    Args:
        train: Training samples by class.
        evaluated: Evaluated samples by class; classes beyond its end have none.

    Returns:
        None where the task has no classes.
    """
    if not train or not evaluated or not sum(evaluated):
        return None
    most = train.index(max(train))
    return (evaluated[most] if most < len(evaluated) else 0) / sum(evaluated)


def _rows(effect: Effect, *, own: bool = True) -> str:
    kind = "validation" if effect.on == "validation" else "test"
    return f"{effect.rows} {'own ' if own else ''}{kind} {'row' if effect.rows == 1 else 'rows'}"


def _auroc(value: float | None) -> str:
    return "" if value is None else f" (AUROC {value:.4f})"


_RESAMPLES = 10_000
_FEWEST_RESAMPLES = 1_000
_DRAWS = 20_000_000
"""The most numbers drawn for an interval: of many rows fewer resamples will do."""

_LEVEL = 0.05


@dataclass(frozen=True)
class Gain:
    """A mean difference over rows, with its 95 % interval.

    Attributes:
        gain: The mean; positive where the first model is better.
        differ: The number of rows on which the two differ.
    """

    gain: float
    low: float
    high: float
    differ: int
    verdict: Verdict


def find_gain(joined: Sequence[float], alone: Sequence[float], *, most_is_best: bool) -> Gain:
    """Compare two models on the same rows.

    Of right and wrong answers the interval is Agresti and Min's for matched proportions: half a row is added to each
    of the four counts, so that rows on which both agree do not pass for certainty. One model is called better only if
    an exact sign test of the rows on which they differ (McNemar's) agrees at 5 %. Of losses the interval is the paired
    bootstrap's over the rows (percentiles).

    Args:
        joined: The first model's figure of each row.
        alone: The second one's, in the same order.
        most_is_best: Whether a higher figure is better: of accuracies it is, of losses it is not.

    Raises:
        ValueError: No row is given, or not as many of both.

    References:
        A. Agresti and Y. Min, Simple improved confidence intervals for comparing matched proportions, Statistics in
        Medicine 24, 2005.
        B. Efron and R. J. Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13 (the percentile interval).
        Q. McNemar, Note on the sampling error of the difference between correlated proportions, 1947.
    """
    import numpy as np  # `dpeer` itself imports no libraries

    if not len(joined) or len(joined) != len(alone):
        raise ValueError(f"{len(joined)} and {len(alone)} rows cannot be compared")
    differences = np.subtract(joined, alone) * (1.0 if most_is_best else -1.0)
    better, worse = int((differences > 0).sum()), int((differences < 0).sum())
    of_answers = most_is_best and bool(np.isin(differences, (-1.0, 0.0, 1.0)).all())
    low, high = _of_answers(better, worse, len(differences)) if of_answers else _bootstrap(differences)
    clear = len(differences) >= FEWEST_ROWS and (low > 0 or high < 0)
    if clear and of_answers:
        clear = sign_test(better, worse) <= _LEVEL
    gain, low, high = (float(value) + 0.0 for value in (differences.mean(), low, high))  # 0.0 makes 0.0 of -0.0
    return Gain(gain, low, high, better + worse, _verdict_of(low, clear=clear))


def pooled(found: Sequence[Effect | None]) -> Effect | None:
    """The mean of the peers' gains with its 95 % interval and verdict.

    The interval is normal: the peers' rows are different ones, so their variances add up. Of right and wrong answers
    these follow from the rows on which two models differ, to which half a row of each of the four kinds is added once
    for all peers, as Agresti and Min (2005) do; and an exact sign test of all these rows must agree. Of losses they
    follow from the peers' own intervals.

    Returns:
        None for fewer than two peers, or where not all have been compared, by the same measure, or if a summary lacks
        one of the numbers.
    """
    compared = [one for one in found if one is not None and one.verdict is not None]
    gains = [one.gain for one in compared if one.gain is not None]
    widths = [one.high - one.low for one in compared if one.high is not None and one.low is not None]
    alike = len({one.measure for one in compared}) == 1
    alike = alike and not (compared[0].of_accuracy and any(one.differ is None for one in compared))
    if not 2 <= len(found) == len(compared) or not alike or not len(gains) == len(widths) == len(compared):
        return None
    first = compared[0]
    gain = fmean(gains)
    center, halves = gain, [width / 2 for width in widths]
    if first.of_accuracy:
        parts = [_part_of_pool(one, 1 / len(compared)) for one in compared]
        center, halves = fmean(mean for mean, _ in parts), [half for _, half in parts]
    half = math.hypot(*halves) / len(halves)
    rows, differ = sum(one.rows or 0 for one in compared), sum(one.differ or 0 for one in compared)
    low, high = center - half, center + half
    clear = low > 0 or high < 0
    if clear and first.of_accuracy:
        better = sum(((one.differ or 0) + round((one.gain or 0.0) * (one.rows or 0))) // 2 for one in compared)
        clear = (better > differ - better) == (gain > 0) and sign_test(better, differ - better) <= _LEVEL
    return Effect(
        measure=first.measure, on=first.on, rows=rows, differ=differ, gain=gain, low=low, high=high,
        verdict=_verdict_of(gain, clear=clear),
    )  # fmt: skip


def pooled_text(found: Sequence[Effect | None]) -> str:
    """The gain of all peers together in a sentence, or why it has no verdict; empty if nothing can be computed."""
    one, compared = pooled(found), sum(other is not None and other.verdict is not None for other in found)
    if one is None:
        some = 0 < compared < len(found)
        return f"no verdict of all together: {compared} of {len(found)} peers are compared" if some else ""
    return f"{len(found)} peers together: {verdict_text(one)}; mean gain {gain_text(one)}"


def members_text(found: Mapping[int, Effect | None], members: Sequence[int]) -> str:
    """The gain of all members together in a sentence, and which compared peers are none any more."""
    gone = [str(rank) for rank, one in sorted(found.items()) if rank not in members and one is not None and one.verdict]
    left = f"not counted, because no member any more: rank {', '.join(gone)}" if gone else ""
    return "; ".join(filter(None, (pooled_text([found.get(rank) for rank in members]), left)))


def sign_test(better: int, worse: int) -> float:
    """The two-sided p-value of so many rows of either kind if both kinds were equally likely."""
    from scipy.stats import binomtest

    return float(binomtest(better, better + worse).pvalue) if better + worse else 1.0


def _verdict_of(gain: float, *, clear: bool) -> Verdict:
    return ("improved" if gain > 0 else "worse") if clear else "inconclusive"


def _of_answers(better: int, worse: int, rows: int) -> tuple[float, float]:
    """Agresti and Min's interval of the difference of two shares of the same rows.

    Args:
        better: Rows on which the first alone is right.
        worse: Rows on which the second alone is right.
        rows: All rows.
    """
    total, apart, difference = rows + 2, better + worse + 1, (better - worse) / (rows + 2)
    half = NormalDist().inv_cdf(1 - _LEVEL / 2) * math.sqrt((apart / total - difference**2) / total)
    return max(-1.0, difference - half), min(1.0, difference + half)


def _part_of_pool(one: Effect, part: float) -> tuple[float, float]:
    """A peer's gain, and half of its interval, with this part of two rows more, on one of which the models differ."""
    rows, differ, gain = one.rows or 0, one.differ or 0, one.gain or 0.0
    total = rows + 2 * part
    mean = gain * rows / total
    return mean, NormalDist().inv_cdf(1 - _LEVEL / 2) * math.sqrt(((differ + part) / total - mean**2) / total)


def _bootstrap(differences: NDArray[Any]) -> tuple[float, float]:
    """The percentile interval of a mean, from resamples of its values."""
    import numpy as np

    values, counts = np.unique(differences, return_counts=True)
    # The sum over a resample of rows, by how often each value is in it.
    resamples = max(_FEWEST_RESAMPLES, min(_RESAMPLES, _DRAWS // len(values)))
    generator = np.random.default_rng(0)
    chunk = max(1, 2_000_000 // len(values))
    means = np.concatenate([
        generator.multinomial(len(differences), counts / len(differences), min(chunk, resamples - begun)) @ values
        for begun in range(0, resamples, chunk)
    ]) / len(differences)  # fmt: skip
    low, high = np.percentile(means, (100 * _LEVEL / 2, 100 * (1 - _LEVEL / 2)))
    return float(low), float(high)
