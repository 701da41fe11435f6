"""Rounds in which a sample sends to all, as a server's clients do."""

import numpy as np
import pytest

from dpeer.exceptions import TopologyError
from dpeer.topology import Participation, ServerSampling, build, temporal_diameter

FULL = build("full", 10, weights="uniform")


def test_all_rows_are_the_mean_of_the_sample() -> None:
    graphs = ServerSampling(FULL, 0.3, 4)
    for number in range(30):
        sample = graphs.participants(number)
        assert len(sample) == 3
        for rank in range(10):
            seen = graphs.at(number, rank)
            assert {other: weight for other, weight in seen.row.items() if weight} == dict.fromkeys(sample, 1 / 3)
            assert set(seen.in_neighbors) == sample - {rank}
            assert seen.active == (rank in sample)
            assert seen.out_neighbors == (tuple(set(range(10)) - {rank}) if seen.active else ())


def test_who_sends_and_who_hears_agree() -> None:
    graphs = ServerSampling(FULL, 0.3, 4)
    for number in range(10):
        seen = [graphs.at(number, rank) for rank in range(10)]
        sent = {(one.rank, other) for one in seen for other in one.out_neighbors}
        assert sent == {(other, one.rank) for one in seen for other in one.in_neighbors}


def test_the_sample_is_that_of_participation() -> None:
    ours, others = ServerSampling(FULL, 0.3, 4), Participation(FULL, 0.3, 4)
    assert [ours.participants(n) for n in range(20)] == [others.participants(n) for n in range(20)]
    assert ours != others
    assert ours.share == 0.3
    assert ServerSampling(FULL, 0.25, 0).share == 0.3  # 2.5 peers are three
    assert ServerSampling(FULL, 0.01, 0).share == 0.2  # two at least


def test_what_does_not_come_counts_as_what_the_receiver_has() -> None:
    graphs = ServerSampling(FULL, 0.3, 4)
    sample = sorted(graphs.participants(0))
    outside = next(rank for rank in range(10) if rank not in sample)
    assert dict(graphs.at(0, outside).row.restricted_to(sample[:2])) == pytest.approx(
        {outside: 1 / 3, sample[0]: 1 / 3, sample[1]: 1 / 3}
    )
    assert dict(graphs.at(0, sample[0]).row.restricted_to(sample[:2])) == pytest.approx(
        {sample[0]: 2 / 3, sample[1]: 1 / 3}
    )


def test_everyone_is_the_full_graph() -> None:
    graphs = ServerSampling(FULL, 1.0, 0)
    for rank in range(10):
        seen, whole = graphs.at(0, rank), FULL.at(0, rank)
        assert (seen.in_neighbors, seen.out_neighbors, seen.active) == (whole.in_neighbors, whole.out_neighbors, True)
        np.testing.assert_allclose([*seen.row.values()], [*whole.row.values()])


def test_news_reaches_all_once_everybody_has_been_drawn() -> None:
    graphs = ServerSampling(FULL, 0.3, 4)
    rounds = temporal_diameter(graphs, 60)
    assert 4 <= rounds < 60


@pytest.mark.parametrize("name", ["ring", "star", "random-matching"])
def test_other_graphs_are_refused(name: str) -> None:
    with pytest.raises(TopologyError, match=r"^participation-mode server: .*--topology full --weights uniform"):
        ServerSampling(build(name, 8), 0.5, 0)


def test_a_full_graph_of_metropolis_weights_is_one_of_uniform_weights() -> None:
    ServerSampling(build("full", 8), 0.5, 0)
