"""Which graphs damp disagreements a round late, against powers of the recursion's own matrix."""

import numpy as np
import pytest

from dpeer.topology import build
from dpeer.topology.overlap_stability import stable_late


def grows(topology, scale):
    """Whether 3,000 rounds of x(t+1) = s x(t) + s/2 (W - I) x(t-1) make a disagreement larger."""
    size = topology.size
    matrix = topology.mixing_at(0).sparse.toarray()
    late = scale * 0.5 * (matrix - np.eye(size))
    whole = np.block([[scale * np.eye(size), late], [np.eye(size), np.zeros((size, size))]])
    return np.abs(np.linalg.eigvals(whole)).max() > 1 + 1e-9


CIRCLE = """
import networkx


def circle(size, seed):
    return networkx.cycle_graph(size, create_using=networkx.DiGraph)
"""

GRAPHS = [
    "ring", "full", "star", "grid", "exponential", "exponential-directed", "hypercube", "one-peer-exponential",
]  # fmt: skip


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("name", [*GRAPHS, "circle.py:circle"])
def test_what_is_called_stable_is_what_does_not_grow(name, size, tmp_path):
    if ":" in name:
        (tmp_path / "circle.py").write_text(CIRCLE)
        name = f"{tmp_path}/{name}"
    topology = build(name, size)
    assert stable_late(topology) == (not any(grows(topology, scale) for scale in (1.0, 0.5, -0.5)))


def test_a_large_directed_circle_is_refused_and_a_ring_is_not(tmp_path):
    (tmp_path / "circle.py").write_text(CIRCLE)
    assert not stable_late(build(f"{tmp_path}/circle.py:circle", 16))
    assert stable_late(build("ring", 64))
