"""The effect of federating on one peer: the record of it in summary.json, and the words for it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from dpeer.results.json_fields import JsonFields, json_field, number, table, text, whole
from dpeer.results.training_alerts import ranks_rows
from dpeer.results.units import decimals

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


def _kept(value: Any) -> Kept | None:
    return cast(Kept, value) if value in ("joined", "alone", "blend") else None


def _verdict(value: Any) -> Verdict | None:
    return cast(Verdict, value) if value in ("improved", "worse", "inconclusive") else None


@dataclass(frozen=True)
class Effect(JsonFields):
    """The entry `worth` of a peer's summary.json; None where a value is not known."""

    measure: str | None = json_field(text)
    """accuracy, or test_loss where rows are neither right nor wrong."""
    on: str | None = json_field(text)
    """test or validation: the rows that were used."""
    rows: int | None = json_field(whole)
    """How many of this peer's own rows both models were compared on."""
    joined: float | None = json_field(number)
    """The measure of the federated model: the best one, or the last."""
    constant: float | None = json_field(number)
    """The same of always answering the most frequent training class, or the mean training target."""
    alone: float | None = json_field(number)
    """The same of the baseline."""
    auroc: float | None = json_field(number)
    alone_auroc: float | None = json_field(number)
    rounds: int | None = json_field(whole)
    """How many rounds the baseline was trained."""
    planned: int | None = json_field(whole)
    """How many that should have been."""
    gain: float | None = json_field(number)
    """How much better the federated model is, in the measure's unit; of a loss, how much lower."""
    low: float | None = json_field(number)
    high: float | None = json_field(number)
    """The ends of the gain's 95 % interval."""
    differ: int | None = json_field(whole)
    """On how many rows the two models differ."""
    verdict: Verdict | None = json_field(_verdict)  # noqa: RUF009 - see `json_field`
    rounds_mixed: int | None = json_field(whole)
    """In how many rounds the peer mixed a neighbor's body."""
    validation_loss: float | None = json_field(number)
    """The federated model's, by which its round was chosen; None without ``keep="best"``."""
    alone_validation_loss: float | None = json_field(number)
    """The same of the baseline."""
    kept: Kept | None = json_field(_kept)  # noqa: RUF009 - see `json_field`
    """Which is the peer's model; None where the two were not weighed."""
    weight: float | None = json_field(number)
    """The federated model's share of the blend; None without one."""
    blend: float | None = json_field(number)
    """The measure of the blend."""
    blend_validation_loss: float | None = json_field(number)
    """The blend's."""
    no_blend: str | None = json_field(text)
    """The reason for no blend, where one was asked for."""
    why: str | None = json_field(text)
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
    """The lines that a peer's run ends with.

    Args:
        effect: The peer's.
        folder: The folder that `dpeer worth` can be given; None to leave the command out.
    """
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
    if effect.verdict in ("improved", "worse"):
        return _against(effect, effect.verdict)
    rows = _rows(effect, own=False)
    few = effect.rows is not None and effect.rows < FEWEST_ROWS
    reason = f"{rows} are fewer than {FEWEST_ROWS}" if few else _mcnemar(effect)
    if effect.high is not None and effect.high < 0:
        return f"probably {_against(effect, 'worse')}: the whole interval lies below zero, but {reason}"
    if effect.low is not None and effect.low > 0:
        return f"probably {_against(effect, 'improved')}: the whole interval lies above zero, but {reason}"
    if few:
        return f"inconclusive, {reason}"
    differ = f", of which {effect.differ} differ" if effect.of_accuracy and effect.differ is not None else ""
    return f"inconclusive, the interval holds zero ({rows}{differ})"


def _against(effect: Effect, verdict: Literal["improved", "worse"]) -> str:
    return f"{verdict} {'over' if verdict == 'improved' else 'than'} {LOCAL_ONLY}"


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


def as_entry(**values: Any) -> Mapping[str, Any]:
    """The entry to be written; keys that are not given are null."""
    names = Effect.__dataclass_fields__
    unknown = values.keys() - names.keys()
    assert not unknown, unknown
    return {name: values.get(name) for name in names}


def _rows(effect: Effect, *, own: bool = True) -> str:
    kind = "validation" if effect.on == "validation" else "test"
    return f"{effect.rows} {'own ' if own else ''}{kind} {'row' if effect.rows == 1 else 'rows'}"


def _auroc(value: float | None) -> str:
    return "" if value is None else f" (AUROC {value:.4f})"
