"""Texts shared by the privacy notes of both levels: epsilons in words, data warning, effect of `--dp-head`."""

from __future__ import annotations

import math
from collections.abc import Mapping

NEW_DATA_WARNING = (
    "WARNING: --new-data, but earlier runs in this folder have {done} these very data (their SHA-256 is the same): "
    "what they have cost is not counted, and what is promised here is too little"
)

HEADS = {
    "joint": "the head is trained in the same steps as the body and is as private as it",
    "alternate": "the head has steps of its own, which are charged too, and is as private as the body",
    "frozen": "the head stays as it was initialised",
    "post": "the head stays as it was initialised until no message leaves this peer any more; then it is trained at "
    "home without noise, so model.safetensors must not be given away",
}
"""By `--dp-head` its effect."""


def cost(epsilons: Mapping[str, float]) -> str:
    """Epsilons in few words; where averages are noised, against both adversaries."""
    if "epsilon_neighbor" in epsilons:
        outsider, neighbor = (_bound(epsilons[f"epsilon_{against}"]) for against in ("aggregate", "neighbor"))
        return f"epsilon {outsider} against an outsider and {neighbor} against a neighbor"
    return f"epsilon {_bound(epsilons['epsilon'])}"


def _bound(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "unbounded"
