"""Algorithms of a user's own: ``path/to/file.py:CLASS`` or ``package.module:CLASS``."""

from __future__ import annotations

import difflib
import hashlib
import inspect
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

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
    check_options(found)
    return found


def new_algorithm(algorithm: type[Algorithm], options: Mapping[str, Any]) -> Algorithm:
    """An instance with these options.

    Raises:
        UnknownName: It has no option of that name.
        AlgorithmError: An option cannot be what was given, or the class cannot be made with options.
    """
    given = make_options(algorithm, options)
    with blame(f"algorithm {algorithm.name} cannot be made with its options", kind=AlgorithmError):
        made = algorithm(given)
    if getattr(made, "options", None) is not given:
        raise AlgorithmError(f"algorithm {algorithm.name}: its __init__ must call super().__init__(options)")
    return made


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
    if type(algorithm).__module__.startswith(_BUILT_IN):
        return nullcontext()
    return blame(f"algorithm {algorithm.name} failed in {method!r}", kind=AlgorithmError)


def source_hash(algorithm: type[Algorithm]) -> str | None:
    """SHA-256 (hex) of the file that a class is written in, by which peers notice different versions of it.

    None where there is no such file, as for a class that was typed into an interpreter.
    """
    try:
        return hashlib.sha256(Path(inspect.getfile(algorithm)).read_bytes()).hexdigest()
    except (OSError, TypeError):
        return None
