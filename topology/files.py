"""Graphs that users bring: `file:PATH`, an edge list or GraphML."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from xml.etree.ElementTree import ParseError

import networkx as nx
import numpy as np

from dpeer.exceptions import TopologyError
from dpeer.topology.edges import Drawing, Links

PREFIX = "file:"

_GRAPHML = (".graphml", ".xml")
_DIGITS = 9


def file_graph(name: str, size: int) -> Drawing:
    """Read the graph of `file:PATH`: GraphML if the path ends so, else two ranks a line (`#` starts a comment).

    Raises:
        TopologyError: If it cannot be read, its nodes are not the ranks 0..size-1, or it is directed, joins a peer to
            itself, or does not connect everyone.
    """
    edges = _read(name)
    ranks = {rank for edge in edges for rank in edge}
    if max(ranks) != len(ranks) - 1:
        raise TopologyError(
            f"{name}: {len(ranks)} ranks from {min(ranks)} to {max(ranks)}: ranks count from 0, and each has an edge"
        )
    if len(ranks) != size:
        raise TopologyError(f"{name}: joins {len(ranks)} peers, and size is {size}: they must be the same")
    graph = nx.Graph(edges)
    if not nx.is_connected(graph):
        parts = nx.number_connected_components(graph)
        raise TopologyError(f"{name}: the graph is not connected: {parts} groups of peers would never agree")
    ordered = sorted(sorted(edge) for edge in graph.edges)
    digest = hashlib.sha256(json.dumps(ordered).encode()).hexdigest()[:16]
    ends = np.array(ordered, dtype=np.int64)
    return Drawing(Links(size, ends[:, 0], ends[:, 1]), {"edges_sha256": digest})


def size_of(name: str) -> int:
    """How many peers the graph of `file:PATH` has: one more than its largest rank.

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
    edges = _graphml(name, text) if path.suffix.lower() in _GRAPHML else _edge_list(name, text)
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
        edges.append(_edge(f"{name}: line {number}", int(parts[0]), int(parts[1])))
    return edges


def _is_rank(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS


def _edge(where: str, one: int, other: int) -> tuple[int, int]:
    if one == other:
        raise TopologyError(
            f"{where}: an edge joins rank {one} to itself: leave it out, its own weight is always there"
        )
    return one, other


def _graphml(name: str, text: str) -> list[tuple[int, int]]:
    try:
        graph = nx.parse_graphml(text)
    except (ParseError, nx.NetworkXError, KeyError, ValueError, StopIteration) as error:
        raise TopologyError(f"{name}: not GraphML: {' '.join(str(error).split())[:80]}") from error
    if graph.is_directed():
        raise TopologyError(f'{name}: the graph is directed: set edgedefault="undirected"')
    for node in graph:
        # "1" and "01" are two nodes, and would be one rank.
        if not _is_rank(str(node)) or str(int(node)) != node:
            raise TopologyError(f"{name}: node {str(node)[:60]!r}: name the nodes by their ranks, 0 to size - 1")
    isolated = [node for node in graph if graph.degree(node) == 0]
    if isolated:
        raise TopologyError(f"{name}: node {isolated[0]} has no edges: the graph must connect everyone")
    return [_edge(name, int(one), int(other)) for one, other in graph.edges()]
