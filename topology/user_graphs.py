"""Graphs of a user's own: `file:PATH`, an edge list, or a function `FILE.py:NAME` or `MODULE:NAME`."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from dpeer import plugins
from dpeer.exceptions import TopologyError, describe
from dpeer.topology.graphs import TOPOLOGIES, Graph

PREFIX = "file:"
PLUGIN = plugins.Kind("topology", "function", "graph", TopologyError, inspect.isfunction)

_DIGITS = 9

_ROUNDING = 1e-12


def is_function(name: str) -> bool:
    """Whether a topology's name is that of a user's function."""
    kind, colon, _ = name.partition(":")
    return f"{kind}:" != PREFIX and kind not in TOPOLOGIES and (bool(colon) or name.endswith(".py"))


def function_source(name: str) -> str | None:
    """SHA-256 (hex) of the file of a user's function; None where no file is known.

    Raises:
        TopologyError: The function cannot be found.
    """
    with plugins.load(PLUGIN, name) as function:
        return plugins.source_hash(function)


def user_graph(name: str, size: int, seed: int) -> Graph:
    """Read the graph of `file:PATH`, or call a user's function `(size, seed) -> networkx.Graph`.

    A file has two ranks a line, `#` starts a comment. Where the edges of the function's graph have an attribute
    "weight", these are the weights in the mixing matrix.

    Raises:
        TopologyError: It cannot be read; the function cannot be found or fails; nodes are not the ranks 0..size-1, the
            graph is directed, or joins a peer to itself.
    """
    graph = nx.Graph(_read(name)) if name.startswith(PREFIX) else _made(name, size, seed)
    ranks = sorted(graph)
    if ranks[-1] != len(ranks) - 1:
        raise TopologyError(
            f"{name}: {len(ranks)} ranks from {ranks[0]} to {ranks[-1]}: ranks count from 0, and each has an edge"
        )
    if len(ranks) != size:
        raise TopologyError(f"{name}: joins {len(ranks)} peers, and size is {size}: they must be the same")
    edges = sorted(sorted(edge) for edge in graph.edges)
    digest = hashlib.sha256(json.dumps(edges).encode()).hexdigest()[:16]
    built = Graph.joining(size, np.array(edges, dtype=np.int64), {"edges_sha256": digest})
    weights = [graph.edges[one, other].get("weight") for one, other in edges]
    if all(weight is None for weight in weights):
        return built
    if not all(isinstance(weight, Real) for weight in weights):
        raise TopologyError(f"{name}: give each edge a number as its weight, or none of them")
    _check_weights(name, edges, weights, size)
    return replace(built, weights=np.tile(np.array(weights, dtype=np.float64), 2))


def _made(name: str, size: int, seed: int) -> nx.Graph[int]:
    """The graph of a user's function, with a rank for each node that has an edge."""
    with plugins.load(PLUGIN, name) as function:
        try:
            graph = function(size, seed)
        except (Exception, SystemExit) as error:
            raise TopologyError(f"{name}: failed: {describe(error)}") from error
    if not isinstance(graph, nx.Graph) or graph.is_directed() or graph.is_multigraph():
        kind = type(graph).__name__
        raise TopologyError(f"{name}: returned a {kind}; it must return an undirected networkx.Graph of the ranks")
    if wrong := [node for node in graph if type(node) is not int or not 0 <= node < size]:
        raise TopologyError(f"{name}: node {wrong[0]!r}: name the nodes by their ranks, 0 to {size - 1}")
    if graph.number_of_edges() == 0:
        raise TopologyError(f"{name}: the graph has no edges")
    for one, other in graph.edges:
        _refuse_loop(name, one, other)
    return graph


def _check_weights(name: str, edges: list[list[int]], weights: Sequence[Any], size: int) -> None:
    """Refuse weights that are lengths, costs or rates."""
    meant = (
        "the edge attribute 'weight' is what a body counts in its receiver's mean: call anything else by another name"
    )
    rest = np.ones(size)
    for (one, other), weight in zip(edges, weights, strict=True):
        if not 0 <= weight < 1:
            raise TopologyError(f"{name}: edge {one}-{other} has weight {weight:g}, not in [0, 1); {meant}")
        rest[[one, other]] -= float(weight)
    least = int(rest.argmin())
    if rest[least] < -_ROUNDING:
        raise TopologyError(f"{name}: the edges of rank {least} weigh {1 - rest[least]:g} in all, more than 1; {meant}")


def shown(name: str) -> str:
    """The name of a user's graph without the folders of its file, which differ from host to host."""
    if name.startswith(PREFIX):
        return f"{PREFIX}{Path(name.removeprefix(PREFIX)).name}"
    return Path(name).name


def shared_name(name: str) -> str:
    """A graph's name as all hosts know it: of a file or a function without the place, which may differ."""
    if name.startswith(PREFIX):
        return PREFIX.removesuffix(":")
    return name.rpartition(":")[2] if is_function(name) else name


def size_of(name: str) -> int:
    """The number of peers in the graph of `file:PATH`: one more than its largest rank.

    Raises:
        TopologyError: If it cannot be read.
    """
    return 1 + max(rank for edge in _read(name) for rank in edge)


def _read(name: str) -> list[tuple[int, int]]:
    """The edges, at least one, none of which joins a rank to itself."""
    place = name.removeprefix(PREFIX)
    if not place or "\0" in place:
        raise TopologyError(f"{PREFIX}{place!r}: write the path of a file, for example {PREFIX}graph.txt")
    path = Path(place).expanduser()
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors mark UTF-8 in front
    except OSError as error:
        raise TopologyError(f"{name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TopologyError(f"{name}: not a text file: {error.reason}") from error
    edges = _edge_list(name, text)
    if not edges:
        raise TopologyError(f"{name}: the graph has no edges")
    return edges


def _edge_list(name: str, text: str) -> list[tuple[int, int]]:
    edges = []
    for number, line in enumerate(text.splitlines(), 1):
        parts = line.partition("#")[0].replace(",", " ").split()
        if not parts:
            continue
        if len(parts) != 2 or not all(map(_is_rank, parts)):
            raise TopologyError(f"{name}: line {number}: {line.strip()[:60]!r}: write two ranks, for example 0 1")
        _refuse_loop(f"{name}: line {number}", *(ends := (int(parts[0]), int(parts[1]))))
        edges.append(ends)
    return edges


def _is_rank(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS


def _refuse_loop(where: str, one: int, other: int) -> None:
    if one == other:
        raise TopologyError(
            f"{where}: an edge joins rank {one} to itself: leave it out, its own weight is always there"
        )
