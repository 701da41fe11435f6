"""Every built-in graph damps what peers disagree about when bodies are mixed one round late (--overlap 1)."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpeer.exceptions import TopologyError
from dpeer.topology import TIME_VARYING, TOPOLOGIES, build
from dpeer.topology.mixing_matrix import MixingMatrix
from dpeer.topology.overlapped_mixing import late_rounds

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


def worst(topology):
    """After each mix the largest share of any start's disagreement that is left, by dense matrices."""
    size = topology.size
    center = np.eye(size) - 1 / size
    now = before = center
    for number in range(3000):
        matrix = topology.mixing_at(number).sparse.toarray()
        now, before = now + 0.5 * (matrix @ before - before), now
        yield np.linalg.norm(center @ now, ord=2)


@pytest.mark.parametrize("size", [2, 5, 8])
@pytest.mark.parametrize("name", sorted(TOPOLOGIES))
def test_the_rounds_are_those_until_a_thousandth_is_left_and_stays(name, size):
    try:
        topology = build(name, size, degree=2, fresh_neighbors=min(2, size - 1), graph_seed=1)
    except TopologyError:
        return
    found = late_rounds(topology)
    shares = [0.0, *(share for _, share in zip(range(found + 1), worst(topology), strict=False))]
    assert max(shares[found], shares[found + 1]) <= 1e-3 * (1 + 1e-6)
    assert found == 1 or max(shares[found - 1], shares[found]) > 1e-3 * (1 - 1e-6)


def test_a_graph_on_which_disagreement_stays_has_no_such_rounds():
    """Two that only swap: W has an eigenvalue of -1, along which late mixing goes round in a circle for ever."""

    class Swap:
        size, period = 2, 1

        def mixing_at(self, number):
            return MixingMatrix(csr_array(np.array([[0.0, 1.0], [1.0, 0.0]])))

    assert late_rounds(Swap()) is None
