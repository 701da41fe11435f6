"""A graph's name with its parameters, such as small-world:4,0.1."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dpeer.exceptions import TopologyError


def _shape(text: str) -> tuple[int, int]:
    rows, _, columns = text.lower().partition("x")
    return _whole(rows), _whole(columns)


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)


@dataclass(frozen=True)
class Form:
    """How a graph's parameters are written behind its name.

    Attributes:
        words: The form, as the help prints it.
        example: A name with parameters.
        reads: By parameter, in their order, what reads it.
    """

    words: str
    example: str
    reads: Mapping[str, Callable[[str], Any]]


FORMS: Mapping[str, Form] = {
    "grid": Form("grid:ROWSxCOLUMNS", "grid:2x4", {"grid_shape": _shape}),
    "torus": Form("torus:ROWSxCOLUMNS", "torus:3x4", {"grid_shape": _shape}),
    "random-regular": Form("random-regular:DEGREE", "random-regular:4", {"degree": _whole}),
    "small-world": Form("small-world:DEGREE,PROBABILITY", "small-world:4,0.1", {"degree": _whole, "rewire": float}),
    "erdos-renyi": Form("erdos-renyi:PROBABILITY", "erdos-renyi:0.4", {"edge_probability": float}),
    "fresh": Form("fresh:K", "fresh:4", {"fresh_neighbors": _whole}),
    "fresh-directed": Form("fresh-directed:K", "fresh-directed:4", {"fresh_neighbors": _whole}),
}
"""The graphs that have parameters; each parameter may be left out."""

_COMMA = re.compile(r",(?!\s*[\d.])")
"""Where a list of names is parted: a number behind a comma belongs to the name before it."""


def split_names(text: str) -> list[str]:
    """The names of a list with commas, in which parameters may have commas, too: ring,small-world:4,0.1."""
    return [part.strip() for part in _COMMA.split(text)]


def parsed(spec: str) -> tuple[str, dict[str, Any]]:
    """The name of a graph, and the parameters that stand behind it, by the arguments of its function.

    Raises:
        TopologyError: They are not as the graph has them.
    """
    kind, colon, text = spec.partition(":")
    if not colon:
        return kind, {}
    if (form := FORMS.get(kind)) is None:
        raise TopologyError(f"topology {spec!r}: {kind} has no parameters: leave them out")
    parts = text.split(",")
    try:
        if len(parts) > len(form.reads):
            raise ValueError(text)
        return kind, {name: read(part.strip()) for (name, read), part in zip(form.reads.items(), parts, strict=False)}
    except ValueError:
        raise TopologyError(f"topology {spec!r}: write {form.words}, for example {form.example}") from None
