"""Facts of an algorithm: what its class states of what leaves the peer, read once and checked.

What leaves a peer, and whether noise has to cover it, follows from these facts.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, get_args

from dpeer.exceptions import AlgorithmError
from dpeer.training.split import Shares


@dataclass(frozen=True)
class Facts:
    """The facts of a class.

    Attributes:
        algorithm: The class.
        name: See `Algorithm`, as for the next three.
        shares: What of the model it sends.
        mixed_uses_data: Whether `mixed` may look at data: True unless this very class says False.
        draws: Whether its code may draw: True unless this very class says False.
    """

    algorithm: type
    name: str
    shares: Shares
    mixed_uses_data: bool
    draws: bool


@functools.cache
def facts_of(algorithm: type) -> Facts:
    """The facts of a class, as they are when this is first asked.

    Raises:
        AlgorithmError: A fact is missing or of another type.
    """
    own = vars(algorithm)
    what = f"algorithm {own.get('name', algorithm.__name__)}"
    if not all(name in own for name in ("name", "draws")):
        raise AlgorithmError(
            f"{what}: a class that it derives from has an __init_subclass__ that must call "
            "super().__init_subclass__(**arguments)"
        )
    name: Any = own["name"]
    shares: Any = getattr(algorithm, "shares", None)
    if not isinstance(name, str) or not name:
        raise AlgorithmError(f"{what}: its name is {name!r}; it must be a text")
    if shares not in get_args(Shares):
        is_ = "is missing" if shares is None else f"is {shares!r}"
        raise AlgorithmError(f"{what}: its shares {is_}; it must be one of {', '.join(map(repr, get_args(Shares)))}")
    for attribute in ("mixed_uses_data", "draws"):
        if type(own.get(attribute, True)) is not bool:
            raise AlgorithmError(f"{what}: its {attribute} is {own[attribute]!r}; it must be True or False")
    return Facts(algorithm, name, shares, own.get("mixed_uses_data", True), own["draws"])
