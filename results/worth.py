"""Whether joining was worth it to a peer: the record of it in summary.json, and the words for it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from dpeer.results.json_fields import Keys, said
from dpeer.results.training_alerts import ranks_rows
from dpeer.results.units import decimals
from dpeer.results.values import number, table, text, whole

Verdict = Literal["helped", "alone", "unclear"]
"""Joining helped; the peer would be better off alone; it cannot be told with so many rows."""


Kept = Literal["joined", "alone"]
"""Which model a peer keeps, where both were weighed by validation data."""


def _kept(value: Any) -> Kept | None:
    return cast(Kept, value) if value in ("joined", "alone") else None


def _verdict(value: Any) -> Verdict | None:
    return cast(Verdict, value) if value in ("helped", "alone", "unclear") else None


FEWEST_ROWS = 10
"""With fewer rows there is no verdict: a resample of so few says little of others."""


@dataclass(frozen=True)
class Worth(Keys):
    """What a peer has from joining: the entry `worth` of its summary.json. None is what is not known."""

    measure: str | None = said(text)
    """accuracy, or test_loss where rows cannot be told right or wrong."""
    on: str | None = said(text)
    """test or validation: which rows are meant."""
    rows: int | None = said(whole)
    """How many of this peer's own rows both models were compared on."""
    joined: float | None = said(number)
    """The measure of the joined model: the best one, or the last."""
    constant: float | None = said(number)
    """The same of always answering the most frequent training class, or the mean training target."""
    alone: float | None = said(number)
    """The same of the model that was trained alone."""
    auroc: float | None = said(number)
    alone_auroc: float | None = said(number)
    algorithm: str | None = said(text)
    """What trained alone: local, or another baseline."""
    rounds: int | None = said(whole)
    """How many rounds were trained alone."""
    planned: int | None = said(whole)
    """How many that should have been."""
    gain: float | None = said(number)
    """How much better the joined model is, in the measure's unit; of a loss, how much lower."""
    low: float | None = said(number)
    high: float | None = said(number)
    """The ends of the gain's 95 % interval."""
    differ: int | None = said(whole)
    """On how many rows the two models differ."""
    verdict: Verdict | None = said(_verdict)  # noqa: RUF009 - see `said`
    rounds_mixed: int | None = said(whole)
    """In how many rounds the peer mixed a neighbor's body."""
    validation_loss: float | None = said(number)
    """The joined model's, by which its round was chosen; None without ``keep="best"``."""
    alone_validation_loss: float | None = said(number)
    """The same of the model that was trained alone."""
    kept: Kept | None = said(_kept)  # noqa: RUF009 - see `said`
    """Which of the two is the peer's model; None where they were not weighed."""
    why: str | None = said(text)
    """Why there is no comparison."""

    @property
    def of_accuracy(self) -> bool:
        """Whether rows are right or wrong; else they have a loss."""
        return self.measure == "accuracy"

    @property
    def is_unfinished(self) -> bool:
        """Whether the model alone has rounds left to be trained, so that it can be compared later."""
        return self.verdict is None and (self.rounds or 0) < (self.planned or 0)

    @property
    def is_useless(self) -> bool:
        """Whether a constant answer does at least as well, and is not perfect itself."""
        if self.joined is None or self.constant is None:
            return False
        return self.joined <= self.constant < 1 if self.of_accuracy else self.joined >= self.constant > 0


def worth_of(value: Any) -> Worth | None:
    """The entry as it was read; None if there is none."""
    content = table(value)
    return None if content is None else Worth.of(content)


def worth_by_rank(value: Any) -> tuple[Worth | None, ...]:
    """The entries of all peers; empty if the value is no list."""
    return tuple(map(worth_of, value)) if isinstance(value, list) else ()


def ending(worth: Worth, folder: str | None = None) -> list[str]:
    """The lines that a peer's run ends with.

    Args:
        worth: The peer's.
        folder: The folder that `dpeer worth` can be given; None to leave the command out.
    """
    later = f"; dpeer worth {shlex.quote(folder)} makes it later" if worth.is_unfinished and folder is not None else ""
    missing = [] if worth.why is None else [f"no comparison with this peer alone: {worth.why}{later}"]
    if worth.rows is None:
        return missing
    name = "accuracy" if worth.of_accuracy else "loss"
    model = "joined model: " if worth.kept == "alone" else ""
    first = f"{model}{name} {decimals(worth.joined)}{_auroc(worth.auroc)} on {_rows(worth)}"
    what = "always the most frequent class" if worth.of_accuracy else "always the mean"
    if worth.constant is not None:
        first += f"; {what}: {decimals(worth.constant)}"
    useless = [useless_text(worth, what)] if worth.is_useless else []
    if worth.alone is not None:
        other = "alone" if worth.algorithm in (None, "local") else f"with {worth.algorithm}"
        part = "" if worth.rounds == worth.planned else f" after {worth.rounds} of {worth.planned} rounds"
        first += f"; {other}{part}: {decimals(worth.alone)}{_auroc(worth.alone_auroc)}"
    if worth.verdict is not None:
        gain = f"gain {gain_text(worth)}: {verdict_text(worth)}{_few_rounds(worth)}"
        return [first, gain, *useless, *kept_text(worth)]
    return [first, *useless, *missing, *kept_text(worth)]


def useless_text(worth: Worth, constant: str) -> str:
    """What to say of a model that is no better than a constant answer; it may have learned something all the same."""
    said = f"the model is no better than {constant}"
    if ranks_rows(worth.auroc):
        return (
            f"{said} at its threshold, but tells rows apart (AUROC {worth.auroc:.4f}): choose a threshold on its "
            "scores, or --class-weights balanced"
        )
    return said


NOTHING_RECEIVED = "nothing was received from a neighbor that could be mixed, in any round"
"""Why there is no verdict where a peer has joined nobody."""


def _few_rounds(worth: Worth) -> str:
    """In how many rounds bodies were mixed, where not in all."""
    if worth.rounds_mixed is None or worth.planned is None or worth.rounds_mixed >= worth.planned:
        return ""
    return f"; bodies mixed in {worth.rounds_mixed} of {worth.planned} rounds"


def kept_text(worth: Worth) -> list[str]:
    """A line on which model is kept and why; none where the two were not weighed."""
    if worth.kept is None or worth.validation_loss is None or worth.alone_validation_loss is None:
        return []
    joined, alone = f"{worth.validation_loss:.4g}", f"{worth.alone_validation_loss:.4g}"
    if worth.kept == "alone":
        return [f"kept: the model trained alone, whose validation loss is {alone}; the joined model's is {joined}"]
    return [f"kept: the joined model, whose validation loss is {joined}; that of the model trained alone is {alone}"]


def gain_text(worth: Worth) -> str:
    """The gain with its interval."""
    if worth.gain is None:
        return "-"
    unit = "" if worth.of_accuracy else " of loss"
    return f"{worth.gain:+.4f}{unit} (95 % interval {interval_text(worth)})"


def interval_text(worth: Worth) -> str:
    """The ends of the gain's interval."""
    return "-" if worth.low is None or worth.high is None else f"{worth.low:+.4f} to {worth.high:+.4f}"


def verdict_text(worth: Worth) -> str:
    """What can be told of the gain, in one sentence without a full stop."""
    joining = worth.algorithm in (None, "local")
    if worth.verdict == "helped":
        return "joining helped" if joining else f"better than with {worth.algorithm}"
    if worth.verdict == "alone":
        return "you would be better off alone" if joining else f"you would be better off with {worth.algorithm}"
    return _reason(worth, "joining" if joining else worth.algorithm)


def _reason(worth: Worth, other: str | None) -> str:
    """Why a verdict is inconclusive, and what leans to one side all the same."""
    rows = _rows(worth, own=False)
    few = worth.rows is not None and worth.rows < FEWEST_ROWS
    against = f"{rows} are fewer than {FEWEST_ROWS}" if few else _mcnemar(worth)
    if worth.high is not None and worth.high < 0:
        which = "you would probably be better off alone" if other == "joining" else f"probably better with {other}"
        return f"{which}: the whole interval lies below zero, but {against}"
    if worth.low is not None and worth.low > 0:
        which = "joining probably helped" if other == "joining" else f"probably better than with {other}"
        return f"{which}: the whole interval lies above zero, but {against}"
    if few:
        return f"inconclusive, {against}"
    differ = f", of which {worth.differ} differ" if worth.of_accuracy and worth.differ is not None else ""
    return f"inconclusive, the interval holds zero ({rows}{differ})"


def _mcnemar(worth: Worth) -> str:
    """The rows that McNemar's test counts, where it does not agree with the interval."""
    differ, more = worth.differ or 0, round((worth.gain or 0.0) * (worth.rows or 0))
    joined = (differ + more) // 2
    return (
        f"McNemar's test does not confirm it: {joined} rows are right only joined, {differ - joined} only "
        f"{'alone' if worth.algorithm in (None, 'local') else f'with {worth.algorithm}'}"
    )


def verdict_word(worth: Worth) -> str:
    """The verdict in a word or two, for tables and pictures."""
    joining = worth.algorithm in (None, "local")
    if worth.verdict == "unclear" and worth.high is not None and worth.high < 0:
        return "probably alone" if joining else "probably worse"
    words = {"helped": "improved" if joining else "better", "alone": "better alone" if joining else "worse"}
    return "-" if worth.verdict is None else words.get(worth.verdict, "inconclusive")


def headline(found: Sequence[Worth | None]) -> str:
    """How many peers joining helped; empty where no peer has been compared."""
    told = [worth for worth in found if worth is not None and worth.verdict is not None]
    if not told:
        return ""
    counts = Counter(worth.verdict for worth in told)
    others = {worth.algorithm for worth in told} - {None, "local"}
    of = f"{counts['helped']} of {len(told)} {'peer' if len(told) == 1 else 'peers'}"
    against = f" than with {', '.join(sorted(map(str, others)))}"
    parts = [f"{of} did better{against}" if others else f"joining helped {of}"]
    if counts["alone"]:
        parts.append(f"{counts['alone']} {'did worse' if others else 'would be better off alone'}")
    if counts["unclear"]:
        parts.append(f"{counts['unclear']} inconclusive")
    if leaning := sum(verdict_word(worth).startswith("probably") for worth in told):
        parts[-1] += f" ({leaning} probably {'worse' if others else 'better off alone'})"
    return "; ".join(parts)


def majority(train: Sequence[int] | None, evaluated: Sequence[int] | None) -> float | None:
    """The accuracy of always answering the most frequent training class.

    Args:
        train: Training samples by class.
        evaluated: Samples by class of what is evaluated; classes beyond its end have none.

    Returns:
        None where the task has no classes.
    """
    if not train or not evaluated or not sum(evaluated):
        return None
    most = train.index(max(train))
    return (evaluated[most] if most < len(evaluated) else 0) / sum(evaluated)


def as_entry(**values: Any) -> Mapping[str, Any]:
    """The entry to be written: what is not said is null."""
    names = Worth.__dataclass_fields__
    unknown = values.keys() - names.keys()
    assert not unknown, unknown
    return {name: values.get(name) for name in names}


def _rows(worth: Worth, *, own: bool = True) -> str:
    kind = "validation" if worth.on == "validation" else "test"
    return f"{worth.rows} {'own ' if own else ''}{kind} {'row' if worth.rows == 1 else 'rows'}"


def _auroc(value: float | None) -> str:
    return "" if value is None else f" (AUROC {value:.4f})"
