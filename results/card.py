"""The model card: what there is to know about a saved model, in model.json beside it."""

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
    "earlier_steps", "earlier_releases", "released_without_noise",
)  # fmt: skip
"""What may be said of steps at sample level: it follows from settings and from how often the run was begun."""
_FACTORY = ("task_options", "seed", "seed_partition", "seed_init", "head", "size")


def make_card(facts: Mapping[str, Any], about: Mapping[str, Any], results: Mapping[str, Any]) -> dict[str, Any]:
    """The card of one peer's model, as JSON values.

    Args:
        facts: What summary.json says about the run.
        about: What the learner says of the model.
        results: What summary.json says about the results.
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
        # What a factory of one's own is called with again; a built-in task's model needs no more than "model".
        "factory": None if about.get("model") else {name: settings.get(name) for name in _FACTORY},
    }
    return _of_private_records(card, facts.get("stated")) if settings.get("privacy") == "sample" else card


def _of_private_records(card: dict[str, Any], stated: Mapping[str, Any] | None) -> dict[str, Any]:
    """The same without anything that is counted among training records and carries no noise.

    A model that protects single records may be handed on, and its card goes with it: how many training records there
    are, how many are of a class, how many were drawn or clipped: each tells exactly whether one of them is there. What
    is held out for testing is not protected, and its numbers may be said: they change with no training record.
    """
    spent = card["privacy"]
    return card | {
        "samples": {**(card.get("samples") or {}), "train": None, "stated": None if stated is None else dict(stated)},
        "class_counts": {**card["class_counts"], "train": None},
        "privacy": spent and {name: spent[name] for name in _OF_STEPS if name in spent},
    }


def measured(about: Mapping[str, Any]) -> dict[str, float | None] | None:
    """The values alone of the figures that a learner says, by name; None where there are none."""
    figures = about.get("metrics")
    return None if not figures else {name: value["value"] for name, value in figures["values"].items()}
