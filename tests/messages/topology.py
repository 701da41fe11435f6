"""Error messages of topology/."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from dpeer.exceptions import ConfigurationError, TopologyError, UnknownName
from dpeer.topology import Isolated, Participation, Relabeled, ServerSampling, build, size_of, spectrum
from dpeer.topology.mixing_matrix import check_mixing
from dpeer.topology.settings import fresh_topology
from tests.messages.message import Message, file

Cause = Callable[[Path], Any]


def built(name: str, size: int = 8, **options: Any) -> Cause:
    return lambda _: build(name, size, **options)


def matrix(*rows: list[float]) -> Cause:
    return lambda _: check_mixing(csr_array(np.array(rows)), symmetric=True)


def read(name: str, content: str | bytes, size: int = 3) -> Cause:
    """The graph of a file."""

    def cause(folder: Path) -> Any:
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return build(f"file:{folder / name}", size)

    return cause


def called(body: str, name: str = ":graph") -> Cause:
    """The graph of a function of four peers."""
    code = f"import networkx as nx\ndef graph(size, seed):\n    {body}\n"
    return file("mine.py", code, lambda path: build(f"{path}{name}", 4))


RING = build("ring", 4)
MATCHING = build("random-matching", 4)

REFUSED = {
    "size 1: a topology joins at least 2 peers": built("ring", 1),
    "size 100001: graphs are built of at most 100,000 peers": built("ring", 100_001),
    "full: size 4000 makes 7,998,000 edges, and at most 5,000,000 are built: choose less": built("full", 4000),
    "hypercube: size 12 is not a power of two: choose 8 or 16": built("hypercube", 12),
    (
        "grid: size 7 is prime, which leaves only a line: choose another size, or the line itself by grid shape 1x7"
    ): built("grid", 7),
    (
        "torus: size 7 is prime, which leaves only a ring: choose another size, or the ring itself by grid shape 1x7"
    ): built("torus", 7),
    "grid: grid shape 3x3 does not hold 8 peers: rows times columns must be 8": built("grid", grid_shape=(3, 3)),
    "torus: grid shape -2x-4 does not hold 8 peers: rows times columns must be 8": built("torus", grid_shape=(-2, -4)),
    "random-regular: degree 4 with size 4: choose a degree from 1 to 3, or more peers": built(
        "random-regular", 4, degree=4
    ),
    "random-regular: degree 3 with size 7 does not exist: one of them must be even": built(
        "random-regular", 7, degree=3
    ),
    "random-regular: degree 1 with size 6 is not connected: choose 2 or more": built("random-regular", 6, degree=1),
    "random-regular: graph seed -1: choose 0 or more": built("random-regular", graph_seed=-1),
    "random-matching: graph seed -1: choose 0 or more": built("random-matching", graph_seed=-1),
    "fresh-neighbors: graph seed -1: choose 0 or more": built("fresh-neighbors", graph_seed=-1),
    "fresh-directed: graph seed -1: choose 0 or more": built("fresh-directed", graph_seed=-1),
    "small-world: degree 3 with size 8: choose an even degree from 2 to 6": built("small-world", degree=3),
    "small-world: degree 4 with size 2: choose at least 3 peers": built("small-world", 2),
    "small-world: rewire nan: choose a probability from 0 to 1": built("small-world", rewire=float("nan")),
    "erdos-renyi: edge probability nan: choose more than 0 and at most 1": built(
        "erdos-renyi", edge_probability=float("nan")
    ),
    (
        "erdos-renyi: edge probability 0.01 with size 8, graph seed 0: none of 1000 draws is connected: choose a "
        "larger one (the default here is 0.5199)"
    ): built("erdos-renyi", edge_probability=0.01),
    (
        "erdos-renyi: edge probability 0.5 with size 100000 makes about 2,499,975,000 edges, and at most "
        "5,000,000 are drawn: choose less"
    ): built("erdos-renyi", 100_000, edge_probability=0.5),
    "fresh-neighbors: K 8 with size 8: choose a K from 1 to 7, or more peers": built(
        "fresh-neighbors", fresh_neighbors=8
    ),
    "fresh-neighbors: K 3 with size 7 does not exist: one of them must be even": built(
        "fresh-neighbors", 7, fresh_neighbors=3
    ),
    "fresh-directed: K 0 with size 8: choose a K from 1 to 7": built("fresh-directed", fresh_neighbors=0),
    (
        "weights best-constant: random-matching has another graph every round, and these weights suit one: use "
        "metropolis"
    ): built("random-matching", weights="best-constant"),
    "grid: weights uniform: the graph is not regular (numbers of neighbors: 2, 3, 4): use weights metropolis": built(
        "grid", 9, weights="uniform"
    ),
    "participation: fraction 0: choose more than 0 and at most 1": lambda _: Participation(RING, 0.0, 0),
    "participation: fraction nan: choose more than 0 and at most 1": lambda _: Participation(RING, float("nan"), 0),
    "participation: seed -1: choose 0 or more": lambda _: Participation(RING, 0.5, -1),
    (
        "participation-mode server: all peers take the mean of the sample, so everyone hears everyone alike: use "
        "--topology full --weights uniform, or --participation-mode peers"
    ): lambda _: ServerSampling(RING, 0.5, 0),
    "size 2001: the spectrum is computed for at most 2000 peers": lambda _: spectrum(build("ring", 2001)),
    "mixing matrix: -0.1 is negative": matrix([1.1, -0.1], [-0.1, 1.1]),
    "mixing matrix: row 0 sums to 1.00000000001, not 1": matrix([0.5, 0.5 + 1e-11], [0.5, 0.5]),
    "mixing matrix: column 0 sums to 1.1, not 1": matrix([0.5, 0.5], [0.6, 0.4]),
    "mixing matrix: row 0 sums to nan, not 1": matrix([0.5, float("nan")], [0.5, 0.5]),
    "mixing matrix: not symmetric, though the graph is undirected": matrix(
        [0.2, 0.5, 0.3], [0.3, 0.2, 0.5], [0.5, 0.3, 0.2]
    ),
    "the graph is not connected: 2 groups of peers would never agree": matrix([1.0, 0.0], [0.0, 1.0]),
    "file:{folder}/graph: not a text file: …": read("graph", bytes(range(256))),
    "file:{folder}/graph: the graph has no edges": read("graph", ""),
    "file:{folder}/graph: line 2: '2': write two ranks, for example 0 1": read("graph", "0 1\n2\n"),
    "file:{folder}/graph: line 1: '0 ²': write two ranks, for example 0 1": read("graph", "0 ²\n"),
    "file:{folder}/graph: line 2: '\\x1b[31mred 2': write two ranks, for example 0 1": read(
        "graph", "0 1\n\x1b[31mred 2\n"
    ),
    (
        "file:{folder}/graph: line 1: '0 9999999999999999999999999999999999999999999999999999999999': write two "
        "ranks, for example 0 1"
    ): read("graph", f"0 {'9' * 5000}\n"),
    "file:{folder}/graph: line 2: an edge joins rank 1 to itself: leave it out, its own weight is always there": read(
        "graph", "0 1\n1 1\n1 2\n"
    ),
    "file:{folder}/graph: 3 ranks from 0 to 3: ranks count from 0, and each has an edge": read("graph", "0 1\n1 3\n"),
    "file:{folder}/graph: 2 ranks from 0 to 999999999: ranks count from 0, and each has an edge": read(
        "graph", "0 999999999\n", 2
    ),
    "file:{folder}/graph: joins 2 peers, and size is 3: they must be the same": read("graph", "0 1\n"),
    "file:{folder}/graph: the graph is not connected: 2 groups of peers would never agree": read(
        "graph", "0 1\n2 3\n", 4
    ),
    "file:{folder}/missing.txt: No such file or directory": lambda folder: build(f"file:{folder}/missing.txt", 3),
    "file:{folder}: Is a directory": lambda folder: size_of(f"file:{folder}"),
    "file:'': write the path of a file, for example file:graph.txt": lambda _: size_of("file:"),
    "{folder}/mine.py:graph: returned a int; it must return an undirected networkx.Graph of the ranks": called(
        "return 3"
    ),
    "{folder}/mine.py:graph: returned a DiGraph; it must return an undirected networkx.Graph of the ranks": called(
        "return nx.DiGraph([(0, 1)])"
    ),
    "{folder}/mine.py:graph: joins 3 peers, and size is 4: they must be the same": called(
        "return nx.Graph([(0, 1), (1, 2)])"
    ),
    "{folder}/mine.py:graph: the graph is not connected: 2 groups of peers would never agree": called(
        "return nx.Graph([(0, 1), (2, 3)])"
    ),
    "{folder}/mine.py:graph: an edge joins rank 0 to itself: leave it out, its own weight is always there": called(
        "return nx.Graph([(0, 0), (0, 1), (1, 2), (2, 3)])"
    ),
    "{folder}/mine.py:graph: node 'a': name the nodes by their ranks, 0 to 3": called("return nx.Graph([('a', 'b')])"),
    "{folder}/mine.py:graph: the graph has no edges": called("return nx.empty_graph(size)"),
    "{folder}/mine.py:graph: failed: ZeroDivisionError: division by zero": called("return 1 / 0"),
    "{folder}/mine.py:graph: give each edge a number as its weight, or none of them": called(
        "g = nx.path_graph(size); g.edges[0, 1]['weight'] = 0.5; return g"
    ),
    "mixing matrix: -0.2 is negative": called(
        "g = nx.path_graph(4); nx.set_edge_attributes(g, 0.6, 'weight'); return g"
    ),
    "topology '{folder}/mine.py' names no function; write '{folder}/mine.py:graph'": called("...", ""),
    "topology '{folder}/mine.py:grahp' has no 'grahp': did you mean 'graph'? it has graph": called("...", ":grahp"),
    "topology 'nowhere/mine.py:graph': no such file: 'nowhere/mine.py' (the current folder is …)": lambda _: build(
        "nowhere/mine.py:graph", 4
    ),
}
OF_RANKS = {
    "a graph": lambda _: RING.at(0, 4),
    "connections": lambda _: RING.connections(4, 9),
    "a time-varying graph": lambda _: MATCHING.at(0, 4),
    "its connections": lambda _: MATCHING.connections(4, 9),
    "isolated peers": lambda _: Isolated(4).at(0, 4),
    "their connections": lambda _: Isolated(4).connections(4, 9),
    "participants": lambda _: Participation(RING, 0.5, 0).at(0, 4),
    "a server's sample": lambda _: ServerSampling(build("full", 4), 0.5, 0).at(0, 4),
}
MESSAGES = {
    **{text: Message(cause, TopologyError, text) for text, cause in REFUSED.items()},
    **{
        f"a rank beyond {name}": Message(cause, TopologyError, "rank 4: ranks of 4 peers run from 0 to 3")
        for name, cause in OF_RANKS.items()
    },
    "a function of NaN weights": Message(
        called("g = nx.path_graph(4); nx.set_edge_attributes(g, float('nan'), 'weight'); return g"),
        TopologyError,
        "{folder}/mine.py:graph: give each edge a number as its weight, or none of them",
    ),
    "fewer names than peers": Message(
        lambda _: Relabeled(RING, (0, 1, 5)), TopologyError, "ranks 0, 1, 5: expected 4 different ones, ascending"
    ),
    "names out of order": Message(
        lambda _: Relabeled(RING, (0, 5, 1, 7)), TopologyError, "ranks 0, 5, 1, 7: expected 4 different ones, ascending"
    ),
    "an unknown topology": Message(
        built("rnig"),
        UnknownName,
        (
            "unknown topology 'rnig': did you mean 'ring'? valid: ring, grid, torus, exponential, "
            "exponential-directed, hypercube, full, star, random-regular, small-world, erdos-renyi, "
            "one-peer-exponential, random-matching, fresh-neighbors, fresh-directed, file:PATH"
        ),
    ),
    "an unknown weights rule": Message(
        built("ring", weights="metropolitan"),
        UnknownName,
        (
            "unknown weights rule 'metropolitan': did you mean 'metropolis'? valid: metropolis, uniform, max-degree, "
            "best-constant"
        ),
    ),
    "fresh neighbors without a number": Message(
        lambda _: fresh_topology("directed:x", None),
        ConfigurationError,
        "--fresh-neighbors 'directed:x': write K or directed:K, for example 4",
    ),
    "fresh neighbors of a ring": Message(
        lambda _: fresh_topology("4", "ring"),
        ConfigurationError,
        "fresh neighbors 4 make their own graphs, and topology ring is another: leave one of them out",
    ),
    "a negative rank": Message(lambda _: RING.at(0, -1), TopologyError, "rank -1: ranks of 4 peers run from 0 to 3"),
}
