"""Name matching of first weights: maps a model's tensor names to those in a safetensors file."""

from __future__ import annotations

import difflib
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from torch import nn

Translation = Callable[[str], str]

_WRAPPERS = frozenset({"module", "model", "base_model", "net", "_orig_mod", "state_dict"})
"""What programs put before names when they save a model: for these, and no others, another prefix may come."""

_DEEPEST = 3
"""How many components a common prefix may have."""


def matched(there: Collection[str], here: Collection[str], model: nn.Module) -> dict[str, str]:
    """By the model's name, the file's: as many as can be matched.

    Tried are the names as they are and, of models of the library transformers, translated from those that earlier
    versions gave, each with a prefix left out that most of the file's names have, or one added that most of the
    model's have; both only where what is left out is no part of a model. The first of those that match most counts.

    Args:
        there: The file's names.
        here: The model's.
        model: The model. What it says in an attribute `names_elsewhere`, prefixes of its names by those of files, is
            used for names that are found in no other way.
    """
    elsewhere: Mapping[str, str] = getattr(model, "names_elsewhere", {})
    best: dict[str, str] = {}
    for translate in (_as_it_is, *_translations(model)):
        names = {name: translate(name) for name in there}
        for left_out in ("", *_prefixes(names.values())):
            replaceable = _WRAPPERS.issuperset(left_out.split(".")[:-1])
            for added in ("", *_prefixes(here)) if replaceable else ("",):
                found = _found(names, here, left_out, added, elsewhere)
                if len(found) > len(best):
                    best = found
    return best


def nearest(here: Iterable[str], there: Collection[str]) -> tuple[str, str]:
    """A name of the model, and the file's that is most like it; the latter is empty where none is."""
    first = ""
    for name in here:
        first = first or name
        if near := difflib.get_close_matches(name, there, n=1):
            return name, near[0]
    return first, ""


def _found(
    names: Mapping[str, str], here: Collection[str], left_out: str, added: str, elsewhere: Mapping[str, str]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, translated in names.items():
        short = translated.removeprefix(left_out)
        for candidate in (added + short, translated, *_renamed(short, elsewhere)):
            if candidate in here:
                found.setdefault(candidate, name)
                break
    return found


def _as_it_is(name: str) -> str:
    return name


def _renamed(name: str, elsewhere: Mapping[str, str]) -> list[str]:
    return [
        ours + name.removeprefix(theirs) for theirs, ours in elsewhere.items() if name.startswith(theirs + ".")
    ]  # fmt: skip


def _prefixes(names: Collection[str]) -> list[str]:
    """The prefixes, in whole components and with the dot, that at least half of some names have."""
    counts: Counter[str] = Counter()
    for name in names:
        parts = name.split(".")
        counts.update(".".join(parts[:count]) + "." for count in range(1, min(_DEEPEST + 1, len(parts))))
    return [prefix for prefix, count in counts.items() if 2 * count >= len(names)]


def _translations(model: nn.Module) -> list[Translation]:
    """How the library transformers translates names of files that earlier versions of it wrote."""
    if "transformers" not in sys.modules:  # then the model is not of it
        return []
    from transformers import PreTrainedModel
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightRenaming, rename_source_key

    of_library = next((part for part in model.modules() if isinstance(part, PreTrainedModel)), None)
    if of_library is None:
        return []
    steps: list[Any] = [one for one in get_model_conversion_mapping(of_library) if isinstance(one, WeightRenaming)]
    return [lambda name: str(rename_source_key(name, steps, [])[0])]
