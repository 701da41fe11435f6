"""Every built-in graph damps what peers disagree about when bodies are mixed one round late (--overlap 1)."""

import numpy as np
import pytest

from dpeer.topology import TIME_VARYING, TOPOLOGIES, build

ROUNDS = 240


def left(topology, scale):
    """The disagreement after 240 rounds of x(t+1) = s x(t) + s/2 (W - I) x(t-1), as a share of the largest before."""
    size = topology.size
    x = np.random.default_rng(0).standard_normal((size, 6))
    x -= x.mean(axis=0)
    before, lengths = np.zeros_like(x), []
    for number in range(ROUNDS):
        matrix = topology.mixing_at(number % topology.period).sparse.toarray()
        x, before = scale * x + scale * 0.5 * (matrix @ before - before), x
        lengths.append(np.linalg.norm(x))
    return lengths[-1] / max(lengths[:20])


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("name", sorted(TOPOLOGIES))
def test_disagreement_shrinks_however_training_scales_it(name, size):
    topology = build(name, size, degree=2, fresh_neighbors=2, graph_seed=1)
    most = 0.9 if name in TIME_VARYING or name in ("ring", "grid") else 0.1
    assert left(topology, 1.0) < most
    assert left(topology, 0.5) < 1e-6
    assert left(topology, -0.5) < 1e-3


def test_a_full_step_would_diverge_on_an_even_ring():
    topology = build("ring", 8, weights="uniform")
    matrix = topology.mixing_at(0).sparse.toarray()
    late = np.block([[np.eye(8), matrix - np.eye(8)], [np.eye(8), np.zeros((8, 8))]])
    assert np.abs(np.linalg.eigvals(late)).max() > 1.05
