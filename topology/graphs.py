"""The built-in graphs: functions of the number of peers, and of the parameters behind their names.

A new one is such a function. With an argument `graph_seed` it is random, with `number` it changes with the round.
Nodes are the ranks 0..size-1.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from dpeer.exceptions import TopologyError
from dpeer.topology.draws import Ranks, draw_others, ends_of, quickly_regular, random_stream, regular, shuffled

MOST_EDGES = 5_000_000
"""The most edges of a graph that is built."""


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph as the messages of a round: an undirected edge carries two.

    Attributes:
        sender: The sender of each message, (messages,).
        receiver: Its receiver, (messages,).
        parameters: What the graph took for parameters that were left out; canonical JSON.
        weights: The weight of each message in the mixing matrix, (messages,); None for those of a weights rule.
        circulant: Whether each peer sends to the ranks that are the same steps (modulo size) after its own.
    """

    size: int
    sender: Ranks
    receiver: Ranks
    directed: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)
    weights: NDArray[np.float64] | None = None
    circulant: bool = False

    @classmethod
    def joining(cls, size: int, ends: Ranks, parameters: dict[str, Any] | None = None) -> Graph:
        """The undirected graph of these edges, (edges, 2)."""
        sender, receiver = np.concatenate([ends, ends[:, ::-1]]).T
        return cls(size, sender, receiver, parameters=parameters or {})

    @classmethod
    def of_steps(cls, size: int, steps: Any, *, directed: bool = False) -> Graph:
        """The circulant graph in which each peer sends to the ranks that are these steps after its own."""
        steps = np.unique(np.asarray(steps, dtype=np.int64) % size)
        sender = np.repeat(np.arange(size), len(steps))
        return cls(size, sender, (sender + np.tile(steps, size)) % size, directed, circulant=True)

    def is_connected(self) -> bool:
        """Whether an undirected graph joins everyone."""
        edges = coo_array((np.ones(len(self.sender)), (self.sender, self.receiver)), shape=(self.size, self.size))
        return int(connected_components(edges.tocsr(), directed=False)[0]) == 1


Draw = TypeVar("Draw", bound=Callable[..., Graph])


@dataclass(frozen=True)
class Kind:
    """A built-in graph.

    Attributes:
        draw: Its function.
        form: Its name, with the form of its parameters.
        reads: What reads each parameter, in their order; each may be left out.
        period: Size -> after how many rounds a changing graph repeats; None if it never does.
        keeps_mean: Whether the columns of its mixing matrices sum to one, so that the average over the peers is kept.
    """

    draw: Callable[..., Graph]
    form: str
    example: str
    reads: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    period: Callable[[int], int] | None = None
    keeps_mean: bool = True

    @property
    def takes(self) -> Mapping[str, Any]:
        """The arguments of its function, each with its default."""
        return {name: one.default for name, one in inspect.signature(self.draw).parameters.items()}


TOPOLOGIES: dict[str, Kind] = {}
"""The built-in graphs by name; besides, `build` knows `file:PATH` and `FILE.py:FUNCTION`."""


def kind(
    form: str = "",
    example: str = "",
    *,
    period: Callable[[int], int] | None = None,
    keeps_mean: bool = True,
    **reads: Callable[[str], Any],
) -> Callable[[Draw], Draw]:
    """Add a function's graph to `TOPOLOGIES`, by the function's name."""

    def add(draw: Draw) -> Draw:
        name = draw.__name__.replace("_", "-")
        written, shown = (f"{name}:{text}" if text else name for text in (form, example))
        TOPOLOGIES[name] = Kind(draw, written, shown, reads, period, keeps_mean)
        return draw

    return add


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)


def _shape(text: str) -> tuple[int, int]:
    rows, _, columns = text.lower().partition("x")
    return _whole(rows), _whole(columns)


_COMMA = re.compile(r",(?!\s*[\d.])")
"""Where a list of names is parted: a number behind a comma belongs to the name before it."""


def split_names(text: str) -> list[str]:
    """The names of a list with commas, in which parameters may have commas, too: ring,small-world:4,0.1."""
    return [part.strip() for part in _COMMA.split(text)]


def parsed(name: str) -> tuple[str, dict[str, Any]]:
    """The name of a built-in graph, and the parameters that stand behind it, by the arguments of its function.

    Raises:
        TopologyError: They are not as the graph has them.
    """
    kind, colon, text = name.partition(":")
    if not colon:
        return kind, {}
    known = TOPOLOGIES[kind]
    if not known.reads:
        raise TopologyError(f"topology {name!r}: {kind} has no parameters: leave them out")
    parts = text.split(",")
    try:
        if len(parts) > len(known.reads):
            raise ValueError(text)
        return kind, {name: read(part.strip()) for (name, read), part in zip(known.reads.items(), parts, strict=False)}
    except ValueError:
        raise TopologyError(f"topology {name!r}: write {known.form}, for example {known.example}") from None


# -- graphs that need no chance ----------------------------------------------------------------------------------------


@kind()
def ring(size: int) -> Graph:
    """Each peer is joined to the one before and the one after it."""
    return Graph.of_steps(size, [1, -1])


@kind("ROWSxCOLUMNS", "2x4", grid_shape=_shape)
def grid(size: int, grid_shape: tuple[int, int] | None = None) -> Graph:
    """Rows and columns, rank = row * columns + column; open at the borders."""
    return _lattice("grid", size, grid_shape)


@kind("ROWSxCOLUMNS", "3x4", grid_shape=_shape)
def torus(size: int, grid_shape: tuple[int, int] | None = None) -> Graph:
    """A grid whose borders are joined; in a dimension of 2 that would double an edge, so nothing is added."""
    return _lattice("torus", size, grid_shape)


@kind()
def exponential(size: int) -> Graph:
    """Rank i is joined to i + 2^k and i - 2^k for every 2^k < size (the papers' Definition 1: symmetric)."""
    powers = _powers_of_two(size)
    return Graph.of_steps(size, [*powers, *(-step for step in powers)])


@kind()
def exponential_directed(size: int) -> Graph:
    """Rank i sends to i + 2^k for every 2^k < size: ceil(log2 size) messages a round."""
    return Graph.of_steps(size, _powers_of_two(size), directed=True)


@kind()
def hypercube(size: int) -> Graph:
    """Ranks that differ in one binary digit are joined: log2 size neighbors each."""
    if size & (size - 1):
        below = 1 << (size.bit_length() - 1)
        raise TopologyError(f"hypercube: size {size} is not a power of two: choose {below} or {2 * below}")
    sender = np.tile(np.arange(size), size.bit_length() - 1)
    return Graph(size, sender, sender ^ np.repeat(_powers_of_two(size), size))


@kind()
def full(size: int) -> Graph:
    """Everyone is joined to everyone."""
    if (edges := size * (size - 1) // 2) > MOST_EDGES:
        raise TopologyError(
            f"full: size {size} makes {edges:,} edges, and at most {MOST_EDGES:,} are built: choose less"
        )
    return Graph.of_steps(size, np.arange(1, size))


@kind()
def star(size: int) -> Graph:
    """Everyone is joined to rank 0."""
    return Graph.joining(size, np.array([(0, rank) for rank in range(1, size)]))


def _powers_of_two(size: int) -> list[int]:
    """The powers of two below `size`, from 1: ceil(log2 size) of them."""
    return [1 << k for k in range((size - 1).bit_length())]


def _lattice(name: str, size: int, shape: tuple[int, int] | None) -> Graph:
    rows, columns = shape or _nearly_square(name, size)
    if rows < 1 or columns < 1 or rows * columns != size:
        raise TopologyError(f"{name}:{rows}x{columns} does not hold {size} peers: rows times columns must be {size}")
    lattice = nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, columns, periodic=name == "torus"))
    return Graph.joining(size, ends_of(lattice), {"grid_shape": [rows, columns]})


def _nearly_square(name: str, size: int) -> tuple[int, int]:
    """The most nearly square shape with no more rows than columns."""
    rows = next(rows for rows in range(int(size**0.5), 0, -1) if size % rows == 0)
    if rows == 1 and size > 3:
        line = "ring" if name == "torus" else "line"
        raise TopologyError(
            f"{name}: size {size} is prime, which leaves only a {line}: choose another size, or the {line} itself by "
            f"{name}:1x{size}"
        )
    return rows, size // rows


# -- random graphs: draws that do not connect everyone are repeated from the same stream -------------------------------


@kind("DEGREE", "4", degree=_whole)
def random_regular(size: int, degree: int = 4, *, graph_seed: int) -> Graph:
    """A random connected graph in which everyone has `degree` neighbors."""
    _check_regular("random-regular", "degree", degree, size)
    if degree == 1 and size > 2:
        raise TopologyError(f"random-regular: degree 1 with size {size} is not connected: choose 2 or more")
    draw = partial(regular, size, degree, random_stream(graph_seed))
    return _connected(size, draw, f"random-regular: degree {degree}, graph seed {graph_seed}")


@kind("DEGREE,PROBABILITY", "4,0.1", degree=_whole, rewire=float)
def small_world(size: int, degree: int = 4, rewire: float = 0.1, *, graph_seed: int) -> Graph:
    """A ring in which everyone is joined to the `degree` nearest, each edge then moved with probability `rewire`.

    Watts and Strogatz, "Collective dynamics of 'small-world' networks", 1998.
    """
    if degree % 2 or not 2 <= degree < size:
        raise TopologyError(f"small-world: degree {degree} with size {size}: choose an even one from 2, below the size")
    if not 0.0 <= rewire <= 1.0:
        raise TopologyError(f"small-world: rewire {rewire:g}: choose a probability from 0 to 1")
    draw = partial(nx.watts_strogatz_graph, size, degree, rewire, random_stream(graph_seed))
    what = f"small-world: degree {degree}, rewire {rewire:.4g}, graph seed {graph_seed}"
    return _connected(size, lambda: ends_of(draw()), what)


@kind("PROBABILITY", "0.4", edge_probability=float)
def erdos_renyi(size: int, edge_probability: float | None = None, *, graph_seed: int) -> Graph:
    """Every pair is joined with probability `edge_probability`, by default twice the threshold of connectedness.

    Erdos and Renyi, "On random graphs I", 1959 (in Gilbert's form, each edge on its own).
    """
    default = min(1.0, 2.0 * math.log(size) / size)
    probability = default if edge_probability is None else edge_probability
    if not 0.0 < probability <= 1.0:
        raise TopologyError(f"erdos-renyi: edge probability {probability:g}: choose more than 0 and at most 1")
    if (edges := probability * size * (size - 1) / 2.0) > MOST_EDGES:
        raise TopologyError(
            f"erdos-renyi: edge probability {probability:.4g} with size {size} makes about {edges:,.0f} edges, "
            f"and at most {MOST_EDGES:,} are drawn: choose less"
        )
    draw = partial(nx.fast_gnp_random_graph, size, probability, random_stream(graph_seed))
    what = f"erdos-renyi: edge probability {probability:.4g} (the default: {default:.4g}), graph seed {graph_seed}"
    return replace(_connected(size, lambda: ends_of(draw()), what), parameters={"edge_probability": probability})


# -- graphs that change with the round ---------------------------------------------------------------------------------


@kind(period=lambda size: len(_powers_of_two(size)))
def one_peer_exponential(size: int, *, number: int) -> Graph:
    """In round t rank i sends to i + 2^(t mod log2 size) only: one message, half of it mixed in.

    At powers of two everyone holds the exact average after log2 size rounds (Ying, Yuan, Chen, Hu, Pan and Yin,
    "Exponential graph is provably efficient for decentralized deep training", 2021, Lemma 1).
    """
    powers = _powers_of_two(size)
    return Graph.of_steps(size, powers[number % len(powers)], directed=True)


@kind()
def random_matching(size: int, *, graph_seed: int, number: int) -> Graph:
    """In every round peers are paired at random and each pair averages; of an odd number one sits out.

    Boyd, Ghosh, Prabhakar and Shah, "Randomized gossip algorithms", 2006, with all pairs of a round at once.
    """
    return Graph.joining(size, shuffled(size, random_stream(graph_seed, number))[: size // 2 * 2].reshape(-1, 2))


@kind("K", "4", fresh_neighbors=_whole)
def fresh(size: int, fresh_neighbors: int = 4, *, graph_seed: int, number: int) -> Graph:
    """Each round has a new random graph in which everyone has `fresh_neighbors` neighbors; connected from 2 on."""
    _check_regular("fresh", "K", fresh_neighbors, size)
    draw = partial(quickly_regular, size, fresh_neighbors, random_stream(graph_seed, number))
    if fresh_neighbors == 1:
        return Graph.joining(size, draw())
    return _connected(size, draw, f"fresh: K {fresh_neighbors}, round {number}")


@kind("K", "4", keeps_mean=False, fresh_neighbors=_whole)
def fresh_directed(size: int, fresh_neighbors: int = 4, *, graph_seed: int, number: int) -> Graph:
    """In every round everyone draws `fresh_neighbors` peers to hear; others may hear the same ones.

    Rows of the matrix sum to one, columns do not: the average over the peers is not kept. It is how published
    simulations draw neighbors (Dai et al., "DisPFL", 2022, and those that build on its code).
    """
    if not 1 <= fresh_neighbors < size:
        raise TopologyError(f"fresh-directed: K {fresh_neighbors} with size {size}: choose a K from 1 to {size - 1}")
    heard = draw_others(size, fresh_neighbors, random_stream(graph_seed, number))
    return Graph(size, heard.ravel(), np.repeat(np.arange(size), fresh_neighbors), directed=True)


def _check_regular(name: str, option: str, degree: int, size: int) -> None:
    """Refuse a number of neighbors that not all of `size` peers can have."""
    if not 1 <= degree < size:
        raise TopologyError(
            f"{name}: {option} {degree} with size {size}: choose a {option} from 1 to {size - 1}, or more peers"
        )
    if degree * size % 2:
        raise TopologyError(f"{name}: {option} {degree} with size {size} does not exist: one of them must be even")


def _connected(size: int, draw: Callable[[], Ranks], what: str) -> Graph:
    draws = max(10, min(1000, 1_000_000 // size))  # a few seconds at most
    for _ in range(draws):
        if (graph := Graph.joining(size, draw())).is_connected():
            return graph
    raise TopologyError(f"{what} with size {size}: none of {draws} draws is connected")


TIME_VARYING = tuple(name for name, known in TOPOLOGIES.items() if "number" in known.takes)
"""Those that change with the round."""
