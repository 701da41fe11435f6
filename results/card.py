"""Model card: the content of model.json, made of settings, a learner's facts and results; no file access."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

FORMAT = 1
"""Version of the card."""

_FEDERATION = ("size", "topology", "algorithm", "partition", "rounds", "seed", "body_parameters", "head_parameters")
_HOW_IT_ENDED = ("rank", "status", "completed_rounds", "kept_round", "kept_point", "lost")
_OF_STEPS = (
    "mode", "guarantee", "epsilon", "delta", "steps", "sampling_rate", "noise_multiplier", "head", "sent_again",
)  # fmt: skip
"""Keys of the privacy entry that a card may have at sample level: they follow from settings and restarts alone."""
_FACTORY = ("task_options", "seed", "head", "size")


def make_card(facts: Mapping[str, Any], about: Mapping[str, Any], results: Mapping[str, Any]) -> dict[str, Any]:
    """The card of one peer's model, as JSON values.

    Args:
        facts: The entries of summary.json on the run.
        about: The learner's entries on the model.
        results: The entries of summary.json on the results.
    """
    settings = facts.get("settings") or {}
    card = {
        "format": FORMAT,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "task": facts.get("task"),
        **about,
        "class_counts": {
            "train": facts.get("class_counts"),
            str(about.get("measured_on", "test")): facts.get("evaluated_class_counts"),
        },
        "own_metrics": results.get("metrics"),
        "federation": {name: facts.get(name) for name in _FEDERATION}
        | {name: results.get(name) for name in _HOW_IT_ENDED},
        "privacy": results.get("privacy"),
        # The arguments of a user's own factory; a built-in task's model needs no more than "model".
        "factory": None if about.get("model") else {name: settings.get(name) for name in _FACTORY} | _parts(settings),
    }
    return _of_private_records(card, facts.get("stated")) if settings.get("privacy") == "sample" else card


def _parts(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The number of parts into which the factory divides its data, as it was given instead of the size."""
    return {} if settings.get("shares") is None else {"size": settings["shares"]}


def _of_private_records(card: dict[str, Any], stated: Mapping[str, Any] | None) -> dict[str, Any]:
    """The same without counts of training records, which carry no noise.

    A model that protects single records may be handed on, and its card goes with it. Numbers of training records, of a
    class or drawn or clipped, would reveal whether a single one is there. Counts of records that were held out stay:
    they change with no training record.
    """
    spent = card["privacy"]
    return card | {
        "samples": {**(card.get("samples") or {}), "train": None, "stated": None if stated is None else dict(stated)},
        "class_counts": {**card["class_counts"], "train": None},
        "privacy": spent and {name: spent[name] for name in _OF_STEPS if name in spent},
    }


def measured(about: Mapping[str, Any]) -> dict[str, float | None] | None:
    """The values of a learner's figures by name, without intervals; None without figures."""
    figures = about.get("metrics")
    return None if not figures else {name: value["value"] for name, value in figures["values"].items()}
