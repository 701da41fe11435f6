"""The draws of changing graphs: the same for every peer, and as random as they should be."""

import json
import os
import random
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeer.topology import TIME_VARYING, TimeVaryingTopology, build
from dpeer.topology.random_graphs import draw_others, pairing_model, shuffled


def changing(name: str, size: int, fresh_neighbors: int = 4, graph_seed: int = 0) -> TimeVaryingTopology:
    graph = build(name, size, fresh_neighbors=fresh_neighbors, graph_seed=graph_seed)
    assert isinstance(graph, TimeVaryingTopology)
    return graph


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TIME_VARYING))
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_everybody_is_as_likely_to_be_drawn(name: str, count: int) -> None:
    size, numbers = 66, 300
    graph = changing(name, size, count)
    if graph.graphs.period is not None:
        return
    met = sum(graph.weights_at(number) > 0.0 for number in range(numbers)).astype(float)
    np.fill_diagonal(met, 0.0)
    share = 1.0 if name == "random-matching" else float(count)
    expected = numbers * share / (size - 1)
    off = met[~np.eye(size, dtype=bool)]
    assert off.mean() == pytest.approx(expected)
    # Counts of draws that favor nobody differ by chance only: about Poisson, 4290 of them.
    assert off.std() == pytest.approx(np.sqrt(expected * (1.0 - share / (size - 1))), rel=0.1)
    assert off.max() < expected + 7.0 * np.sqrt(expected)


@pytest.mark.parametrize("name", ["random-matching", "fresh-neighbors", "fresh-directed"])
def test_rounds_and_seeds_draw_different_graphs(name: str) -> None:
    drawn = [json.dumps(changing(name, 70, graph_seed=seed).edges_at(t)) for seed in range(3) for t in (*range(4), 12)]
    assert len(set(drawn)) == len(drawn)
    assert changing(name, 70).digest != changing(name, 70, graph_seed=1).digest


DRAWN = [
    (name, size, count, seed)
    for name in sorted(TIME_VARYING)
    for size, count, seed in ((2, 1, 0), (8, 3, 5), (30, 4, 1), (100, 2, 7), (100, 4, 7), (700, 6, 3))
]


DRAWS = """
import json
from dpeer.topology import Participation, build
participation = Participation(build("ring", 30), 0.3, 7)
print(json.dumps([
    build("random-regular", 20, graph_seed=3).edges,
    [sorted(participation.participants(number)) for number in (9, 0, 1000)],
    *([graph.digest, *(graph.edges_at(number) for number in (77, 0, 3))]
      for graph in (build(name, size, fresh_neighbors=count, graph_seed=seed) for name, size, count, seed in DRAWN)),
]))
"""


@pytest.mark.slow
def test_graphs_and_participants_are_the_same_in_another_process(capsys: pytest.CaptureFixture[str]) -> None:
    # Peers draw them each for themselves; string hashing differs between their processes.
    program = f"DRAWN = {DRAWN!r}\n{DRAWS}"
    there = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": "12345"}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    exec(program, {})
    assert json.loads(there.stdout) == json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("name", "size", "count", "digest"),
    [
        ("random-matching", 9, 4, "43434a5a03976ff9"),  # pragma: allowlist secret
        ("fresh-neighbors", 8, 3, "6967de55b8e9e557"),
        ("fresh-neighbors", 64, 2, "91832b7a45baa6ff"),  # pragma: allowlist secret
        ("fresh-neighbors", 64, 4, "4d80de4e5f9b7315"),  # pragma: allowlist secret
        ("fresh-directed", 8, 3, "037397adce062263"),  # pragma: allowlist secret
    ],
)
def test_changing_graphs_stay_what_they_were(name: str, size: int, count: int, digest: str) -> None:
    # When this fails, seeds mean other graphs than in earlier releases: say so in the release notes.
    assert changing(name, size, count).digest == digest


def test_permutations_are_of_everything_and_favor_nothing() -> None:
    generator = random.Random(5)
    drawn = np.array([shuffled(7, generator) for _ in range(7000)])
    assert np.array_equal(np.sort(drawn, axis=1), np.tile(np.arange(7), (7000, 1)))
    counts = np.array([np.bincount(place, minlength=7) for place in drawn.T])
    assert np.abs(counts - 1000).max() < 150  # five standard deviations
    assert [len(shuffled(count, generator)) for count in (0, 1, 2, 1023, 1024, 1025)] == [0, 1, 2, 1023, 1024, 1025]


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 100), st.data())
def test_quick_draws_of_any_density_are_regular(size: int, data: st.DataObject) -> None:
    degree = data.draw(st.integers(1, max(1, size // 4)))
    degree -= degree * size % 2
    seed = data.draw(st.integers(0, 999))
    drawn = pairing_model(size, degree, random.Random(seed))
    ends = np.sort(np.stack([drawn.sender, drawn.receiver], axis=1), axis=1)
    assert len(np.unique(ends, axis=0)) == len(ends) == size * degree // 2
    assert (ends[:, 0] < ends[:, 1]).all()
    assert (np.bincount(ends.ravel(), minlength=size) == degree).all()
    heard = draw_others(size, min(degree, size - 1), random.Random(seed))
    assert all(len({rank, *row}) == 1 + len(row) for rank, row in enumerate(heard.tolist()))


def test_small_regular_graphs_are_all_as_likely() -> None:
    # There are 70 labelled graphs of 6 peers with 3 neighbors each, of which 10 are complete bipartite and 60 prisms.
    generator = random.Random(1)
    bipartite = 0
    for _ in range(1000):
        drawn = pairing_model(6, 3, generator)
        bipartite += nx.is_bipartite(nx.Graph(list(zip(drawn.sender.tolist(), drawn.receiver.tolist(), strict=True))))
    assert bipartite == pytest.approx(1000 / 7, abs=60)


def test_every_peer_may_hear_all_others() -> None:
    assert [sorted(row) for row in draw_others(4, 3, random.Random(0)).tolist()] == [
        [1, 2, 3],
        [0, 2, 3],
        [0, 1, 3],
        [0, 1, 2],
    ]
