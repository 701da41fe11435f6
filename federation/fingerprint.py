"""The fingerprint that peers compare in the handshake, made from the settings and their marks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from dpeer.federation.config import RunConfig
from dpeer.federation.settings import shared
from dpeer.privacy.settings import SAMPLE_ONLY, PrivacySettings
from dpeer.topology import shared_name
from dpeer.training import Task, codecs, shared_options, source_hash
from dpeer.training.algorithms.plugins import is_built_in
from dpeer.training.models import find_model

_FIRST = ("size", "algorithm", "rounds", "seed")
_ELSEWHERE = {*_FIRST, *PrivacySettings.model_fields}
_ONLY_IF_USED = {"rho", "sam"}
"""Settings that it has only where they have an effect on the algorithm."""


def fingerprint(config: RunConfig) -> dict[str, Any]:
    """The values that must be equal on all peers, in the order in which differences are named.

    Of settings marked as followed these are what follows: edges and weights, and the noise at client level.
    """
    values, algorithm, graph = config.values(), config.algorithm, config.topology
    guarantee = config.protected.guarantee
    elsewhere = {*_ELSEWHERE, *(_ONLY_IF_USED - {*algorithm.uses})}
    return {
        "size": values["size"],
        "topology": shared_name(values["topology"]).partition(":")[0],  # its parameters follow
        **{f"topology {name}": value for name, value in graph.parameters.items()},
        "weights": graph.weights_rule,
        **{f"weight of rank {rank}": brought for rank, brought in enumerate(graph.declared)},
        "edges": graph.digest,
        "algorithm": config.algorithm.name,  # its file may lie elsewhere on every host
        **({} if is_built_in(algorithm) else {"algorithm's source": source_hash(algorithm)}),
        "rounds": values["rounds"],
        "seed": values["seed"],
        **{name: values[name] for name in shared() if name not in elsewhere},
        **codecs.identity(values["compress"]),
        **{f"option {name}": value for name, value in shared_options(config.options).items()},
        "privacy": values["privacy"],
        "clip_norm": guarantee.clip_norm if guarantee else None,
        "noise_multiplier": guarantee.noise_multiplier if guarantee else None,
        **{name: values[name] for name in _privacy(values["privacy"])},
    }


def _privacy(level: str) -> tuple[str, ...]:
    """The settings of privacy that peers compare; at sample level each has an epsilon, noise and delta of its own."""
    if level == "client":
        return tuple(name for name in shared(PrivacySettings) if name not in SAMPLE_ONLY)
    return tuple(name for name in shared(PrivacySettings) if name in SAMPLE_ONLY) if level == "sample" else ()


def divided(task: Task, partition: str | None, test_split: str, *, private: bool) -> dict[str, Any]:
    """How a common pool is divided: peers that divide it differently would hold each other's samples.

    A private peer tells only its settings: which rank holds which samples follows from everybody's labels, too.
    """
    if task.division is None:
        return {}
    how = {"partition": partition, "test split": test_split}
    return how if private else how | {"division of the samples": task.division[:16]}


def of_model(task: Task) -> dict[str, Any]:
    """The options of a built-in model that differ from its defaults, and a hash of the file of first weights.

    Not all options show in the body's shapes: attention with other heads has the same parameters, for example.
    """
    built: Mapping[str, Any] = task.built or {}
    usual = find_model(built["model"]).options() if built.get("options") else {}
    options = {
        f"model option {name}": value for name, value in built.get("options", {}).items() if value != usual[name]
    }
    return options if task.initial is None else options | {"initial weights": task.initial.sha256[:16]}


NAMED_SINGLY = 4096
"""The most names of a kind that are compared one by one; more of them are compared as a whole."""


def named(task: Task, shares: str) -> dict[str, Any]:
    """Hashes of names that must mean the same to peers with files of their own: hashes, since names may be private.

    Each name has one, and one of what it means, so that a peer finds a difference by its own names. With a
    schema these are all its columns, with their definitions; without one the columns and the classes. A peer without a
    schema that keeps a head of its own may number its classes as it likes.

    Args:
        task: The peer's.
        shares: The part of the model that the algorithm sends.
    """
    found = {field: None if names is None else _hashes(names) for field, names in _meanings(task, shares).items()}
    if "classes" in found:
        found["order of the classes"] = _hash(json.dumps(task.names["classes"]))
    return found


def own_names(task: Task, shares: str) -> dict[str, dict[str, str]]:
    """By the fields of `named`, the names that the hashes stand for."""
    return {
        field: {} if names is None else {_hash(name): name for name in names}
        for field, names in _meanings(task, shares).items()
    }


def _meanings(task: Task, shares: str) -> dict[str, Mapping[str, str] | None]:
    """By field, each name with a text that is equal where it means the same."""
    if shares == "nothing":
        return {}
    found: dict[str, Mapping[str, str] | None] = {}
    if task.preparation is not None:
        if (definitions := task.preparation.definitions) is not None:
            return {"schema": definitions}
        found["schema"] = None
    if "input columns" in task.names:  # they are sorted: their order follows from their names
        found["input columns"] = dict.fromkeys(task.names["input columns"], "")
    if "tokenizer" in task.names:
        found["tokenizer"] = dict.fromkeys(task.names["tokenizer"], "")
    if "classes" in task.names and shares == "model":
        found["classes"] = dict.fromkeys(task.names["classes"], "")
    return found


def _hashes(names: Mapping[str, str]) -> Any:
    if len(names) > NAMED_SINGLY:
        return _hash(json.dumps(names))
    return {_hash(name): _hash(meaning)[:8] for name, meaning in names.items()}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
