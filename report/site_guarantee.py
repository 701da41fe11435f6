"""The guarantee under which a site's bodies left, in sentences that docs/privacy.md holds, and its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpeer.federation.site_records import SiteRecords
from dpeer.results.json_fields import number, whole

_NONE = (
    "None. No noise was added, and no epsilon is counted.",
    "A body is computed from the data and can reveal something about them. How much is not bounded. What protects the "
    "data is that they stay, that listed peers alone get bodies where they have keys, and what the sites have agreed.",
)
_SAMPLE = {
    "record": "All that this peer sent in the run would be almost equally likely without any one training record.",
    "group": "All that this peer sent in the run would be almost equally likely without any one group of training "
    "records, such as those of a patient.",
}
_ALMOST = "Almost means up to a factor that epsilon states, except with the probability delta."
_ODDS = (
    "Suppose that an observer knows two data sets, knows that this site holds one of them, either as likely as the "
    "other, and reads all messages. The best guess is then right 55 times in 100 at epsilon 1, 71 times at 5, and 84 "
    "times at 10 (delta 1e-5)."
)


def in_short(records: SiteRecords) -> str:
    """The guarantee in one sentence."""
    level, spent = _level(records), records.summary.privacy
    if spent is None and records.nothing_left:
        return "So neighbors have learned nothing of the data from this run."
    if spent is None:
        return "Nothing bounds what the sent values tell about the data: the run had no privacy guarantee."
    unit = "the site's whole data set" if level == "client" else f"each single {_unit(records)}"
    return f"The sent values carry noise that protects {unit}: epsilon {_epsilon(spent)}, delta {_delta(spent)}."


def guarantee(records: SiteRecords) -> tuple[list[str], list[tuple[str, str]]]:
    """The guarantee in sentences, and its numbers by name."""
    level, spent = _level(records), records.summary.privacy
    if spent is None and records.nothing_left:
        return ["None is needed for messages, for nothing of a model was sent."], []
    if spent is None:
        return list(_NONE), []
    sentences = [*(_of_client() if level == "client" else _of_sample(records)), _ALMOST, _ODDS]
    if number(spent.get("epsilon")) is None:
        sentences.append("These records state no epsilon: the loss of privacy has no known bound.")
    sentences.append(
        "It does not hide what holds for all patients, which is what training learns, or that the site takes part, "
        "when it sends, its settings, and roughly how many records it has. Figures and models that people hand on are "
        "releases of their own, and so is each further run on the same data."
    )
    if (more := _uncounted(records)) is not None:
        sentences.append(more)
    return sentences, _numbers(records, spent)


def _level(records: SiteRecords) -> str:
    return str(records.summary.settings["privacy"])


def _of_client() -> list[str]:
    return [
        "All that this peer sent in the run would be almost equally likely with any other data set. That holds against "
        "neighbors, and everybody they pass messages to. The model at home is not covered."
    ]


def _of_sample(records: SiteRecords) -> list[str]:
    settings = records.summary.settings
    found = [f"{_SAMPLE[_unit(records)]} That holds against everybody."]
    if settings.get("dp_head") == "post" and settings.get("finish") != "none":
        found.append("The model at home is not covered: it was trained on after the last message, without noise.")
    else:
        found.append("The model at home, model.safetensors, is covered, too.")
    if _unit(records) == "record":
        found.append("One record is protected, not one patient: a patient with several records is protected less.")
    return found


def _numbers(records: SiteRecords, spent: Mapping[str, Any]) -> list[tuple[str, str]]:
    stated = records.content.get("stated")
    rows = [
        ("what is protected", str(spent.get("guarantee") or "the records do not hold it")),
        ("epsilon", _epsilon(spent)),
        ("delta", _delta(spent)),
    ]
    budget = number(records.summary.settings.get("target_epsilon"))
    if budget is not None:
        rows.append(("budget (largest epsilon)", f"{budget:g}"))
    for name, key in (("noised steps", "steps"), ("noised bodies", "releases")):
        if (count := whole(spent.get(key))) is not None:
            rows.append((name, f"{count:,}"))
    if isinstance(stated, Mapping) and whole(stated.get("number")) is not None:
        rows.append((f"stated number of {stated.get('of')}s", f"{stated['number']:,}"))
    if records.charged is not None:
        lines = records.charged
        rows.append(("the ledger counts", f"{lines.steps:,} steps" if lines.steps else f"{lines.releases:,} bodies"))
    return rows


def _uncounted(records: SiteRecords) -> str | None:
    """A sentence where the ledger has more than the summary, whose epsilon is then too low."""
    spent, lines = records.summary.privacy or {}, records.charged
    if lines is None:
        return None
    more = lines.steps > (whole(spent.get("steps")) or 0) or lines.releases > (whole(spent.get("releases")) or 0)
    return "The ledger counts more than the summary: the true epsilon is larger than the one below." if more else None


def _unit(records: SiteRecords) -> str:
    return "group" if records.summary.settings.get("privacy_unit") == "group" else "record"


def _epsilon(spent: Mapping[str, Any]) -> str:
    value = number(spent.get("epsilon"))
    return "no bound known" if value is None else f"{value:.4g}"


def _delta(spent: Mapping[str, Any]) -> str:
    value = number(spent.get("delta"))
    return "unknown" if value is None else f"{value:g}"
