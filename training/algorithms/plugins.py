"""Algorithms of a user's own: loaded, checked, and their errors reported in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, get_args

import torch
from pydantic import ValidationError
from torch import Tensor

from dpeer import plugins
from dpeer.exceptions import AlgorithmError
from dpeer.sections import Mistake
from dpeer.training.algorithms.base import Algorithm
from dpeer.training.algorithms.options import check_options, make_options
from dpeer.training.errors import blame
from dpeer.training.flat import check_extras
from dpeer.training.randomness import LOCK
from dpeer.training.settings import Hyperparameters
from dpeer.training.split import Shares, Split
from dpeer.training.trainer import Trainer

PLUGIN = plugins.Kind(
    "algorithm",
    "class",
    "CLASS",
    AlgorithmError,
    lambda thing: isinstance(thing, type) and issubclass(thing, Algorithm),
)


def load_algorithm(spec: str) -> type[Algorithm]:
    """Import a class, ``path/to/file.py:CLASS`` or ``package.module:CLASS``; a file is imported once in a process.

    Raises:
        AlgorithmError: It cannot be imported, the file has no such class, or it is no algorithm.
    """
    with LOCK, plugins.load(PLUGIN, spec) as found:
        return check_algorithm(found, spec)


def check_algorithm(found: Any, text: str) -> type[Algorithm]:
    """Refuse what cannot be used as an algorithm, by the text with which the user asked for it.

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
    if not {"name", "summary"} <= vars(found).keys():
        raise AlgorithmError(
            f"{what}: a class that it derives from has an __init_subclass__ that must call "
            "super().__init_subclass__(**arguments)"
        )
    for attribute, values in (("shares", get_args(Shares)), ("mixed_uses_data", (True, False))):
        if (value := getattr(found, attribute, None)) not in values:
            raise AlgorithmError(
                f"{what}: its {attribute} is {value!r}; it must be one of {', '.join(map(repr, values))}"
            )
    if wrong := [name for name in found.uses if name not in Hyperparameters.model_fields]:
        raise AlgorithmError(f"{what}: its uses name {wrong[0]!r}, which is no hyperparameter")
    if "rounds" in found.defaults:
        raise AlgorithmError(f"{what}: its defaults name 'rounds', which all algorithms are given alike")
    try:
        Hyperparameters(**found.defaults)
    except ValidationError as error:
        mistake = Mistake(error)
        why = mistake.error(f"its defaults: {mistake.keys[0]}", Hyperparameters.model_fields, "its defaults")
        raise AlgorithmError(f"{what}: {why}") from error
    check_options(found)
    return found


def new_algorithm(algorithm: type[Algorithm], options: Mapping[str, Any] | Any) -> Algorithm:
    """An instance with its `Options`, or with values for them by name.

    Raises:
        UnknownName: It has no option of that name.
        AlgorithmError: An option cannot be what was given, or the class cannot be made with options.
    """
    given = options if isinstance(options, algorithm.Options) else make_options(algorithm, options)
    with blame(f"algorithm {algorithm.name} cannot be made with its options", kind=AlgorithmError):
        made = algorithm(given)
    if getattr(made, "options", None) is not given:
        raise AlgorithmError(f"algorithm {algorithm.name}: its __init__ must call super().__init__(options)")
    return made


def is_built_in(code: type[Algorithm] | Callable[..., Any]) -> bool:
    """Whether a class or a function is one of dpeer's own."""
    return code.__module__.startswith("dpeer.")


def predictor_of(algorithm: Algorithm, peer: Trainer) -> Tensor | None:
    """The parameters that predict; None where the trained ones do.

    Raises:
        AlgorithmError: `Algorithm.predictor` returned something else.
    """
    with blamed(algorithm, "predictor"):
        found: Any = algorithm.predictor(peer)
    if found is not None and not (isinstance(found, Tensor) and found.shape == peer.model.data.shape):
        gave = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else f"a {type(found).__name__}"
        raise AlgorithmError(
            f"algorithm {algorithm.name}: its predictor gave {gave}; it must give None, or one vector of shape "
            f"({peer.model.count},), body then head"
        )
    return found


def check_state(algorithm: Algorithm) -> None:
    """Refuse a state that cannot be saved.

    Raises:
        AlgorithmError: It has something else than dense tensors by name.
    """
    for name, tensor in algorithm.state.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor) or tensor.layout is not torch.strided:
            kind = tensor.layout if isinstance(tensor, Tensor) else type(tensor).__name__
            raise AlgorithmError(
                f"algorithm {algorithm.name}: its state has {name!r}, a {kind}; it must be dense tensors by name: "
                "torch.tensor(...) makes one of a number"
            )


def extras_of(algorithm: Algorithm, split: Split) -> dict[str, int]:
    """How many values travel beside the body, by name.

    Raises:
        AlgorithmError: `Algorithm.extras` returned no numbers by name, or the algorithm shares nothing.
    """
    with blamed(algorithm, "extras"):
        sizes = algorithm.extras(split)
    return check_extras(sizes, algorithm.name, shares=algorithm.shares != "nothing")


@contextmanager
def blamed(algorithm: Algorithm, method: str) -> Iterator[None]:
    """Context in which a method of the algorithm runs: what a method of a user's own raises becomes one AlgorithmError.

    An error of a built-in algorithm is a fault of dpeer, and stays as it is.
    """
    own = not is_built_in(type(algorithm))
    with blame(f"algorithm {algorithm.name} failed in {method!r}", kind=AlgorithmError) if own else nullcontext():
        yield
