"""Algorithms of a user's own: ``path/to/file.py:CLASS`` or ``package.module:CLASS``."""

from __future__ import annotations

import difflib
import functools
import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

from pydantic import ValidationError

from dpeer.exceptions import AlgorithmError
from dpeer.training.algorithms.base import Algorithm
from dpeer.training.algorithms.options import check_options, make_options
from dpeer.training.errors import blame
from dpeer.training.extras import check_extras
from dpeer.training.hyperparameters import Hyperparameters
from dpeer.training.importing import imported
from dpeer.training.randomness import LOCK
from dpeer.training.split import Shares, Split

_BUILT_IN = "dpeer."

_CALLED = ("predictor", "untrained", "at_home", "codec", "state", "plan", "sit_out")
"""Methods of an algorithm that are called in passing; `restore` has errors of its own."""


def load_algorithm(text: str) -> type[Algorithm]:
    """Import a class; a file is imported once in a process.

    Args:
        text: ``path/to/file.py:CLASS`` or ``package.module:CLASS``.

    Raises:
        AlgorithmError: It cannot be imported, there is no such class, or it is no algorithm.
    """
    where, _, name = text.rpartition(":")
    with LOCK, imported(f"algorithm {text!r}", where, AlgorithmError) as module:
        return check_algorithm(_found(text, module, name), text)


def _found(text: str, module: ModuleType, name: str) -> Any:
    if hasattr(module, name):
        return getattr(module, name)
    there = [
        n
        for n, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Algorithm) and value.__module__ == module.__name__
    ]
    near = difflib.get_close_matches(name, there, n=1, cutoff=0.5)
    advice = f"did you mean {near[0]!r}? " if near else ""
    raise AlgorithmError(
        f"algorithm {text!r}: there is no {name!r}: {advice}its algorithms: {', '.join(there) or '(none)'}"
    )


def check_algorithm(found: Any, text: str) -> type[Algorithm]:
    """Refuse what cannot be used as an algorithm.

    Args:
        found: What the user gave, which should be a class.
        text: How it was asked for, for messages.

    Raises:
        AlgorithmError: It is no subclass of `Algorithm`, or something of it is missing or wrong.
    """
    what = f"algorithm {text!r}"
    if not (isinstance(found, type) and issubclass(found, Algorithm) and found is not Algorithm):
        kind = f"the class {found.__name__}" if isinstance(found, type) else f"a {type(found).__name__}"
        raise AlgorithmError(f"{what} is {kind}; it must be a subclass of dpeer.training.Algorithm")
    missing = sorted(getattr(found, "__abstractmethods__", ()))
    if missing:
        raise AlgorithmError(f"{what}: {found.__name__} does not define {', '.join(missing)}(self, peer)")
    shares = getattr(found, "shares", None)
    if shares not in get_args(Shares):
        said = "is missing" if shares is None else f"is {shares!r}"
        raise AlgorithmError(f"{what}: its shares {said}; it must be one of {', '.join(map(repr, get_args(Shares)))}")
    for attribute, names in (("uses", found.uses), ("defaults", found.defaults)):
        wrong = next((name for name in names if name not in Hyperparameters.model_fields), None)
        if wrong is not None:
            raise AlgorithmError(f"{what}: its {attribute} name {wrong!r}, which is no hyperparameter")
    if "rounds" in found.defaults:
        raise AlgorithmError(f"{what}: its defaults name 'rounds', which all algorithms are given alike")
    try:
        Hyperparameters(**found.defaults)
    except ValidationError as error:
        first = error.errors()[0]
        name = first["loc"][0]
        raise AlgorithmError(f"{what}: its defaults: {name} = {first['input']!r}: {first['msg'].lower()}") from error
    check_options(found)
    return found


def new_algorithm(algorithm: type[Algorithm], options: Mapping[str, Any] | Any) -> Algorithm:
    """An instance with these options.

    Args:
        algorithm: The class.
        options: Its `Options`, or values for them by name.

    Raises:
        UnknownName: It has no option of that name.
        AlgorithmError: An option cannot be what was given, or the class cannot be made with options.
    """
    given = options if isinstance(options, algorithm.Options) else make_options(algorithm, options)
    with blame(f"algorithm {algorithm.name} cannot be made with its options", kind=AlgorithmError):
        made = algorithm(given)
    if getattr(made, "options", None) is not given:
        raise AlgorithmError(f"algorithm {algorithm.name}: its __init__ must call super().__init__(options)")
    # Who may be sent what is decided by the class, before there is an instance.
    for attribute in ("name", "shares", "mixed_uses_data"):
        if getattr(made, attribute) != getattr(algorithm, attribute):
            raise AlgorithmError(
                f"algorithm {algorithm.name}: its {attribute} must be stated in the class, not changed"
            )
    if not is_built_in(algorithm):
        _blame_methods(made)
    return made


def is_built_in(code: type[Algorithm] | Callable[..., Any]) -> bool:
    """Whether a class or a function is one of dpeer's own."""
    return code.__module__.startswith(_BUILT_IN)


def _blame_methods(made: Algorithm) -> None:
    """Have every method that dpeer calls report what it raises as one error that names it."""
    for name in _CALLED:
        setattr(made, name, _blaming(made, name))


def _blaming(made: Algorithm, name: str) -> Callable[..., Any]:
    method = getattr(made, name)

    @functools.wraps(method)
    def call(*arguments: Any) -> Any:
        with blamed(made, name):
            found = method(*arguments)
            if name == "plan":
                json.dumps(found)
            return found

    return call


def extras_of(algorithm: Algorithm, split: Split) -> dict[str, int]:
    """How many values travel beside the body, by name.

    Raises:
        AlgorithmError: `Algorithm.extras` returned no numbers by name, or the algorithm shares nothing.
    """
    with blamed(algorithm, "extras"):
        sizes = algorithm.extras(split)
    return check_extras(sizes, algorithm.name, shares=algorithm.shares != "nothing")


def blamed(algorithm: Algorithm, method: str) -> AbstractContextManager[None]:
    """Within it a method of the algorithm runs: what a method of a user's own raises becomes one AlgorithmError.

    An error of a built-in algorithm is a fault of dpeer, and stays as it is.
    """
    if is_built_in(type(algorithm)):
        return nullcontext()
    return blame(f"algorithm {algorithm.name} failed in {method!r}", kind=AlgorithmError)


def source_hash(algorithm: type[Algorithm]) -> str | None:
    """SHA-256 (hex) of the files that a class and those it derives from are written in, dpeer's own left out.

    By it peers notice different versions. Functions that these files import are not looked into. None where there is no
    such file, as for a class that was typed into an interpreter.
    """
    content = hashlib.sha256()
    try:
        for one in inspect.getmro(algorithm):
            if issubclass(one, Algorithm) and not one.__module__.startswith(_BUILT_IN):
                content.update(Path(inspect.getfile(one)).read_bytes())
    except (OSError, TypeError):
        return None
    return content.hexdigest()
