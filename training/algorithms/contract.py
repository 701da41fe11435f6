"""What dpeer relies on of an algorithm: read from its class once, and the same from then on.

What leaves a peer, and whether noise has to cover it, follows from what a class says of itself. So it is read in one
place, when the class is first looked up; all else asks `facts_of`. A class, or an instance of it, that later says
something else is refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args
from weakref import WeakKeyDictionary

from dpeer.exceptions import AlgorithmError
from dpeer.training.algorithms.options import shared_options
from dpeer.training.split import Shares

_FACTS: WeakKeyDictionary[type, Facts] = WeakKeyDictionary()
_PROMISED: WeakKeyDictionary[type, Any] = WeakKeyDictionary()
_KEPT = "_dpeer_facts"

_STATED = ("name", "shares", "mixed_uses_data", "draws")
_SET = ("name", "summary", "paper", "draws")
"""What `Algorithm.__init_subclass__` gives every class where it does not say it."""

CALLED = ("predictor", "untrained", "held", "at_home", "codec", "state", "plan", "sit_out")
"""Methods of an algorithm that are called in passing; `restore` has errors of its own."""

_LATER = ("train", "mixed", "finish", "restore", *CALLED)
_METHODS = ("extras", "start", *_LATER)


@dataclass(frozen=True)
class Facts:
    """What a class says of itself.

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


def note_promise(algorithm: type) -> None:
    """Remember the `mixed` of a class that is being made: what the class says of it holds for no other one."""
    _PROMISED[algorithm] = inspect.getattr_static(algorithm, "mixed", None)


def facts_of(algorithm: type) -> Facts:
    """What a class says of itself, as it was when this was first asked.

    Raises:
        AlgorithmError: It says something that it cannot, or something else than it did then.
    """
    now = _read(algorithm)
    then = _FACTS.setdefault(algorithm, now)
    for attribute in _STATED:
        said, says = getattr(then, attribute), getattr(now, attribute)
        if said != says:
            raise AlgorithmError(
                f"algorithm {then.name}: its {attribute} must be stated in the class, not changed: it was {said!r} "
                f"when the class was first used, and is {says!r} now"
            )
    return then


def _read(algorithm: type) -> Facts:
    own = vars(algorithm)
    what = f"algorithm {own.get('name', algorithm.__name__)}"
    if not all(name in own for name in _SET):
        raise AlgorithmError(
            f"{what}: a class that it derives from has an __init_subclass__ that must call "
            "super().__init_subclass__(**arguments)"
        )
    name: Any = own["name"]
    shares: Any = getattr(algorithm, "shares", None)
    if not isinstance(name, str) or not name:
        raise AlgorithmError(f"{what}: its name is {name!r}; it must be a text")
    if shares not in get_args(Shares):
        said = "is missing" if shares is None else f"is {shares!r}"
        raise AlgorithmError(f"{what}: its shares {said}; it must be one of {', '.join(map(repr, get_args(Shares)))}")
    for attribute in ("mixed_uses_data", "draws"):
        if type(own.get(attribute, True)) is not bool:
            raise AlgorithmError(f"{what}: its {attribute} is {own[attribute]!r}; it must be True or False")
    uses = own.get("mixed_uses_data", True)
    if not uses and inspect.getattr_static(algorithm, "mixed") is not _PROMISED.get(algorithm):
        raise AlgorithmError(
            f"{what}: its mixed is another one than when the class was made, for which alone mixed_uses_data = False "
            "holds: write mixed into the class"
        )
    return Facts(algorithm, name, shares, uses, own["draws"])


def keep_facts(made: Any, facts: Facts) -> None:
    """Hold a new instance to what its class says: `check_kept` compares.

    Raises:
        AlgorithmError: It is of another class, says something else, or has attributes in the place of methods.
    """
    vars(made)[_KEPT] = facts, shared_options(made.options)
    check_kept(made)
    _check_methods(made, facts, _METHODS)


def check_kept(made: Any) -> None:
    """Refuse an instance that has become something else since `keep_facts`.

    Raises:
        AlgorithmError: It has.
    """
    kept: tuple[Facts, dict[str, Any]] | None = vars(made).get(_KEPT)
    if kept is None:
        return
    facts, options = kept
    kind = type(made)
    if kind is not facts.algorithm:
        raise AlgorithmError(
            f"algorithm {facts.name}: its instance is of the class {kind.__name__}; a class must make instances "
            "of itself, which stay of that class"
        )
    facts_of(facts.algorithm)
    for attribute in _STATED:
        if getattr(made, attribute) != getattr(facts, attribute):
            raise AlgorithmError(f"algorithm {facts.name}: its {attribute} must be stated in the class, not changed")
    _check_methods(made, facts, _LATER)
    _check_options(made, facts, options)


def _check_options(made: Any, facts: Facts, began: dict[str, Any]) -> None:
    try:
        now = shared_options(made.options)
    except (AttributeError, TypeError, ValueError):
        now = {}
    name = next((name for name, value in began.items() if name not in now or now[name] != value), None)
    if name is not None:
        raise AlgorithmError(
            f"algorithm {facts.name}: it has changed its option {name}, which was {began[name]!r} and which peers "
            "compare: keep what changes in an attribute of another name, and in state"
        )


def _check_methods(made: Any, facts: Facts, names: tuple[str, ...]) -> None:
    own = vars(made)
    wrong = next((name for name in names if name in own and not isinstance(own[name], Called)), None)
    if wrong is not None:
        raise AlgorithmError(
            f"algorithm {facts.name}: its {wrong} must be a method of the class; an instance has set self.{wrong}: "
            "give that another name"
        )


class Called:
    """A method of an instance as dpeer calls it, which stands in the instance in that method's place.

    Args:
        call: What is called.
    """

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *arguments: Any) -> Any:
        """Call it."""
        return self._call(*arguments)
