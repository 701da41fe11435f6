"""The places of a graph's peers in a drawing."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from dpeer.topology import AnyTopology, Topology

Points = NDArray[np.float64]

_STUB = 0.45
_EXACT_LIMIT = 100

# Where a binary digit of a hypercube's rank moves a peer. Found by search, like the numbers further down: directions
# of equal length would let peers fall together or lie on edges that are not theirs.
_DIRECTIONS = ((1.0, 0.0), (0.0, 1.0), (0.5, 0.5))
_FOUR_DIRECTIONS = ((1.0, 0.0), (0.0, 1.0), (0.43, -0.21), (-0.21, 0.43))


def place(graph: AnyTopology) -> Points:
    """Every peer's place, (size, 2), centred and with coordinates from -1 to 1; the same at every call."""
    if shape := _lattice(graph):
        points = _rows_and_columns(*shape)
    elif graph.name == "star":
        points = np.concatenate([np.zeros((1, 2)), _circle(graph.size - 1)])
    elif graph.name == "hypercube":
        points = _shadow_of_cube(graph.size)
    elif isinstance(graph, Topology) and graph.name.startswith("file:"):
        points = _by_distance(graph)
    else:
        points = _circle(graph.size)
    points = points - (points.max(axis=0) + points.min(axis=0)) / 2
    return np.asarray(points / np.abs(points).max())


def segments(graph: AnyTopology, edges: list[list[int]], points: Points) -> tuple[Points, Points]:
    """The lines to draw for edges: straight ones, and the ends of those that go around a torus's border.

    Returns:
        Two arrays (lines, 2, 2). An edge around the border leaves two short lines in the second: drawn across, it
        would lie upon the edges of its whole row.
    """
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    lines = points[ends]
    shape = _lattice(graph)
    if graph.name != "torus" or shape is None:
        return lines, np.zeros((0, 2, 2))
    columns = shape[1]
    apart = np.abs(ends[:, 0] // columns - ends[:, 1] // columns) + np.abs(ends[:, 0] % columns - ends[:, 1] % columns)
    inside, around = lines[apart == 1], lines[apart > 1]
    along = around[:, 1] - around[:, 0]
    spacing = np.linalg.norm(points[1] - points[0])
    stub = _STUB * spacing * along / np.linalg.norm(along, axis=1, keepdims=True)
    first = np.stack([around[:, 0], around[:, 0] - stub], axis=1)
    last = np.stack([around[:, 1], around[:, 1] + stub], axis=1)
    return inside, np.concatenate([first, last])


def _lattice(graph: AnyTopology) -> tuple[int, int] | None:
    """The rows and columns of a grid or torus; None for other graphs, and for a torus of one row, which is a ring."""
    rows, columns = graph.parameters.get("grid_shape", (0, 0))
    if rows * columns == 0 or (graph.name == "torus" and 1 in (rows, columns)):  # a torus of one row is a ring
        return None
    return rows, columns


def _circle(size: int) -> Points:
    """Places on a circle: rank 0 at the top, the others clockwise."""
    angles = math.pi / 2 - 2 * math.pi * np.arange(size) / size
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _rows_and_columns(rows: int, columns: int) -> Points:
    ranks = np.arange(rows * columns)
    return np.stack([ranks % columns, -(ranks // columns)], axis=1).astype(np.float64)


def _shadow_of_cube(size: int) -> Points:
    """Places for a hypercube: every binary digit of the rank moves a peer in a direction of its own."""
    digits = np.arange(size.bit_length() - 1)
    if len(digits) <= len(_FOUR_DIRECTIONS):
        directions = np.array(_FOUR_DIRECTIONS if len(digits) == len(_FOUR_DIRECTIONS) else _DIRECTIONS[: len(digits)])
    else:
        angles = 1.077 * np.pi * (digits + 0.5) / len(digits)
        lengths = 1.0 + 1.511 * (digits * 0.257 % 1.0)
        directions = np.stack([np.cos(angles), np.sin(angles)], axis=1) * lengths[:, None]
    return np.asarray((np.arange(size)[:, None] >> digits & 1) @ directions)


def _by_distance(graph: Topology) -> Points:
    """Places for other graphs: peers that are few edges apart stand close together."""
    drawn: nx.Graph[int] = nx.Graph()
    drawn.add_nodes_from(range(graph.size))
    drawn.add_edges_from((one, other) for one, other in graph.edges)
    # Kamada and Kawai's places are better, and take minutes for hundreds of peers.
    found = nx.kamada_kawai_layout(drawn) if graph.size <= _EXACT_LIMIT else nx.spring_layout(drawn, seed=0)
    return np.array([found[rank] for rank in range(graph.size)], dtype=np.float64)
