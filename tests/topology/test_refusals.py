"""Graphs, weights and samples of peers that do not exist."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpeer.exceptions import ConfigurationError, TopologyError, UnknownName
from dpeer.topology import ServerSampling, build
from dpeer.topology.mixing_matrix import check_stochastic
from tests.error_texts import refused

RING = build("ring", 4)


@pytest.mark.parametrize(
    ("name", "size", "options", "fragment"),
    [
        ("rnig", 8, {}, "unknown topology 'rnig': did you mean 'ring'?"),
        ("ring", 8, {"weights": "metropolitan"}, "unknown weights rule 'metropolitan'"),
        ("ring", 1, {}, "size 1: a topology joins at least 2 peers"),
        ("full", 4000, {}, "full: size 4000"),
        ("hypercube", 12, {}, "hypercube: size 12 is not a power of two"),
        ("grid", 7, {}, "grid: size 7 is prime"),
        ("grid:3x3", 8, {}, "grid:3x3 does not hold 8 peers"),
        ("random-regular:4", 4, {}, "random-regular: degree 4 with size 4"),
        ("random-regular:3", 7, {}, "random-regular: degree 3 with size 7 does not exist"),
        ("random-regular:1", 6, {}, "random-regular: degree 1 with size 6 is not connected"),
        ("random-regular", 8, {"graph_seed": -1}, "random-regular: graph seed -1"),
        ("small-world:3", 8, {}, "small-world: degree 3 with size 8"),
        ("small-world:4,nan", 8, {}, "small-world: rewire nan"),
        ("erdos-renyi:nan", 8, {}, "erdos-renyi: edge probability nan"),
        (
            "erdos-renyi:0.01",
            8,
            {},
            "0.01 (the default: 0.5199), graph seed 0 with size 8: none of 1000 draws",
        ),
        ("erdos-renyi:0.5", 100_000, {}, "edge probability 0.5 with size 100000"),
        ("fresh-directed:0", 8, {}, "fresh-directed: K 0 with size 8"),
        (
            "fresh-directed:x",
            8,
            {},
            "write fresh-directed:K, for example fresh-directed:4",
        ),
        ("small-world:4,0.1,2", 8, {}, "write small-world:DEGREE,PROBABILITY, for example small-world:4,0.1"),
        ("grid:", 8, {}, "topology 'grid:': write grid:ROWSxCOLUMNS, for example grid:2x4"),
        ("ring:3", 8, {}, "topology 'ring:3': ring has no parameters: leave them out"),
        ("random-matching", 8, {"weights": "best-constant"}, "weights best-constant: random-matching"),
        ("grid", 9, {"weights": "uniform"}, "weights uniform: the graph is not regular"),
    ],
)
def test_a_graph_that_does_not_exist(name: str, size: int, options: dict[str, Any], fragment: str) -> None:
    with refused(UnknownName if fragment.startswith("unknown") else TopologyError, fragment):
        build(name, size, **options)


def test_a_matrix_that_changes_the_mean() -> None:
    with refused(TopologyError, "mixing matrix: column 0 sums to 1.1"):
        check_stochastic(csr_array(np.array([[0.5, 0.5], [0.6, 0.4]])))


def test_a_graph_that_edges_of_weight_zero_part(tmp_path: Path) -> None:
    path = tmp_path / "parted.py"
    path.write_text("import networkx as nx\ndef line(size, seed):\n    return nx.Graph([(0, 1, {'weight': 0})])\n")
    with refused(TopologyError, "the graph is not connected: 2 groups"):
        build(f"{path}:line", 2)


@pytest.mark.parametrize(
    ("call", "fragment"),
    [
        (lambda: RING.at(0, -1), "rank -1: ranks of 4 peers run from 0 to 3"),
        (lambda: RING.connections(4, 9), "rank 4: ranks of 4 peers run from 0 to 3"),
        (lambda: build("random-matching", 4).at(0, 4), "rank 4: ranks of 4 peers run from 0 to 3"),
        (lambda: ServerSampling(RING, 0.5, 0), "participation-mode server"),
    ],
)
def test_what_a_graph_cannot_be_asked(call: Callable[[], object], fragment: str) -> None:
    with refused(ConfigurationError, fragment):
        call()
