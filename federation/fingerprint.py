"""The fingerprint, which peers compare when they shake hands; it is made from the settings and their marks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from dpeer.federation.settings import Settings, default_of, shared
from dpeer.privacy import Guarantee
from dpeer.privacy.settings import PrivacySettings
from dpeer.topology import AnyTopology
from dpeer.training import Task, find_algorithm, shared_options, source_hash
from dpeer.training.algorithms.options import flagged_options
from dpeer.training.algorithms.own import is_built_in
from dpeer.training.settings import OptionSettings

_FIRST = ("size", "algorithm", "rounds", "seed")
_ELSEWHERE = {*_FIRST, *PrivacySettings.model_fields, *OptionSettings.model_fields}
_LATER = ("lr_schedule", "warmup", "optimizer")
"""Settings that earlier versions had not: at their defaults nothing is said of them, so that earlier runs go on."""


def fingerprint(
    settings: Settings, graph: AnyTopology, options: Any, guarantee: Guarantee | None = None
) -> dict[str, Any]:
    """The values that must be equal on all peers, in the order in which differences are named.

    Args:
        settings: All values as they are used.
        graph: What follows from the settings of the graph; its edges and weights are compared.
        options: The algorithm's; those that it shares are compared.
        guarantee: What follows from the settings of privacy; None without it.
    """
    algorithm = find_algorithm(settings.algorithm)
    flagged = flagged_options(algorithm)

    def said(name: str) -> str:
        """An option's key: one of a user's own must not take the place of a setting of the same name."""
        return name if name in flagged else f"option {name}"

    return {
        "size": settings.size,
        "topology": settings.topology.partition(":")[0],  # a file may lie elsewhere on every host
        **{f"topology {name}": value for name, value in graph.parameters.items()},
        "weights": graph.weights_rule,
        "edges": graph.digest,
        "algorithm": algorithm.name,  # its file may lie elsewhere on every host
        **({} if is_built_in(algorithm) else {"algorithm's source": source_hash(algorithm)}),
        "rounds": settings.rounds,
        "seed": settings.seed,
        "seed partition": settings.seed if settings.seed_partition is None else settings.seed_partition,
        **{name: getattr(settings, name) for name in shared() if not _left_out(name, settings)},
        **{said(name): value for name, value in shared_options(options).items()},
        "privacy": settings.privacy,
        "clip_norm": guarantee.clip_norm if guarantee else None,
        "noise_multiplier": guarantee.noise_multiplier if guarantee else None,
        **({name: getattr(settings, name) for name in shared(PrivacySettings)} if guarantee else {}),
    }


def _left_out(name: str, settings: Settings) -> bool:
    return name in _ELSEWHERE or (name in _LATER and getattr(settings, name) == default_of(name))


def divided(task: Task, partition: str | None, settings: Settings, *, private: bool) -> dict[str, Any]:
    """How a common pool is divided: peers that divide it differently would hold each other's samples.

    A private peer tells only its settings: which rank holds which samples follows from everybody's labels, too.
    """
    if task.division is None:
        return {}
    said = {"partition": partition, "test split": settings.test_split}
    return said if private else said | {"division of the samples": task.division[:16]}


def named(names: Mapping[str, Any], shares: str) -> dict[str, Any]:
    """Hashes of names that must mean the same to peers with files of their own: hashes, since names may be private.

    A peer that keeps a head of its own may number its classes as it likes.

    Args:
        names: `Task.names`.
        shares: The part of the model that the algorithm sends.
    """
    wanted = {"nothing": (), "body": ("input columns",), "model": ("input columns", "classes")}[shares]
    return {name: hashlib.sha256(json.dumps(names[name]).encode()).hexdigest()[:16] for name in wanted if name in names}
