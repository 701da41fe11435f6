"""Mass: a peer's column of a round's mixing matrix, from what its neighbors say of their mixes."""

import numpy as np
import pytest

from dpeer.peer.core.mass import Mass, MassChange, Mix
from dpeer.peer.core.schedule import Piece, Schedule
from dpeer.topology import ServerSampling, build


def ring(size=5):
    return Schedule(build("ring", size), 0, 9)


def mass(schedule, missed=(), adopted=False, released=True, number=3):
    found = Mass(0, schedule)
    heard = [rank for rank in schedule.at(number).in_neighbors if rank not in missed]
    found.note(number, heard, adopted=adopted, released=released)
    return found


def test_without_losses_nothing_changes():
    found = mass(ring())
    for rank in (1, 4):
        found.hear(rank, 3, Mix())
    assert found.change(3) == MassChange(0.0, 0.0)


@pytest.mark.parametrize(
    ("here", "there", "error"),
    [([], [0], -1 / 3), ([1], [], 1 / 3), ([1], [0], 0.0)],
    ids=["it misses ours", "we miss its", "both"],
)
def test_a_loss_in_one_direction_moves_a_third_of_a_body(here, there, error):
    found = mass(ring(), missed=here)
    found.hear(1, 3, Mix(there))
    found.hear(4, 3, Mix())
    assert found.change(3).error == pytest.approx(error)
    assert found.change(3).adopted == 0


def test_it_is_unknown_before_every_receiver_has_named_its_mix():
    found = mass(ring())
    found.hear(1, 3, Mix())
    assert found.change(3) is None
    found.hear(4, 2, Mix())
    assert found.change(3) is None
    found.hear(4, 3, Mix())
    assert found.change(3) is not None
    assert found.change(2) is None


def test_a_peer_that_released_nothing_needs_no_news():
    assert mass(ring(), missed=[1, 4], released=False).change(3) == MassChange(0.0, 0.0)


def test_of_an_adopters_body_nothing_is_left():
    assert mass(ring(), adopted=True, released=False).change(3) == MassChange(0.0, -1.0)


@pytest.mark.parametrize(("missed", "share"), [([0, 2], 0.0), ([2], 1.0), ([], 0.5)])
def test_who_is_adopted_counts_apart(missed, share):
    """Rank 1 was away: its weight is on rank 0's own body."""
    found = mass(ring(), missed=[1])
    found.hear(1, 3, Mix(missed, adopted=True))
    found.hear(4, 3, Mix())
    assert found.change(3) == MassChange(0.0, pytest.approx(share))


def test_a_graph_whose_columns_do_not_sum_to_one_shows_it():
    """Of four peers two train, and all take the mean of theirs."""
    graphs = ServerSampling(build("full", 4, weights="uniform"), 0.5, 3)
    number = next(one for one in range(9) if graphs.at(one, 0).active)
    found = mass(Schedule(graphs, 0, 9), number=number)
    for rank in (1, 2, 3):
        found.hear(rank, number, Mix())
    assert found.change(number).error == pytest.approx(1.0)
    aside = next(one for one in range(9) if not graphs.at(one, 0).active)
    assert mass(Schedule(graphs, 0, 9), number=aside, released=False).change(aside).error == pytest.approx(-1.0)


def test_a_joiner_adopts_in_the_last_round_before_its_entry():
    before, after = build("ring", 3), build("full", 4)
    schedule = Schedule(before, 0, 9)
    schedule.follow([Piece(0, before, frozenset(range(3))), Piece(4, after, frozenset(range(4)))], 9)
    found = mass(schedule)
    for rank in (1, 2):
        found.hear(rank, 3, Mix())
    assert found.change(3) is None
    found.hear(3, 3, Mix(adopted=True))
    assert found.change(3) == MassChange(0.0, pytest.approx(1 / 3))


def test_rounds_far_away_take_no_memory():
    found = mass(ring(), number=5)
    for number in (0, 3, 8, 2**52):
        found.hear(1, number, Mix([0]))
    found.hear(1, 5, Mix())
    found.hear(4, 5, Mix())
    assert found.change(5) == MassChange(0.0, 0.0)
    for number in range(6, 9):
        found.note(number, [1, 4], adopted=False, released=True)
    assert found.change(5) is None
    assert found.mix(5) == Mix()


def test_a_body_of_a_peer_that_is_away_half_of_the_time_ends_with_little_more_than_half_a_weight():
    """Its weight in the mean of much later, as docs/files.md has it: rows of 2000 rounds, multiplied from the end."""
    size, rounds, graphs = 8, 2000, build("ring", 8)
    away = np.random.default_rng(0).random(rounds) < 0.5
    since, rows = None, []
    for number in range(rounds):
        since = (number if since is None else since) if away[number] else None
        here = np.zeros((size, size))
        for rank in range(size):
            row = graphs.at(number, rank).row
            heard = [one for one in row if not away[number] or 0 not in (rank, one)]
            # It adopts in the last round that it sits out, but for a single one.
            back = rank == 0 and since is not None and number > since and not away[(number + 1) % rounds]
            for one, weight in (row.without_own(row) if back else row.restricted_to(heard)).items():
                here[rank, one] = weight
        rows.append(here)
    weight, found = np.ones(size), np.zeros(rounds)
    for number in reversed(range(rounds)):
        weight = weight @ rows[number]
        found[number] = weight[0]
    middle = slice(50, rounds - 50)
    assert found[middle].mean() == pytest.approx(0.56, abs=0.02)
    assert found[middle][~away[middle]].mean() == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("topology", ["ring", "exponential-directed", "full", "one-peer-exponential"])
def test_all_columns_of_random_losses_are_those_of_the_matrix(topology):
    """Against the matrix that numpy sums."""
    size, rng = 8, np.random.default_rng(3)
    graphs = build(topology, size)
    for number in range(6):
        rows, found = np.zeros((size, size)), [Mass(rank, Schedule(graphs, rank, 9)) for rank in range(size)]
        adopts = {int(rng.integers(size))} if number % 2 else set()
        mixes = {}
        for rank in range(size):
            graph = graphs.at(number, rank)
            heard = [one for one in graph.in_neighbors if one not in adopts and rng.random() < 0.7]
            adopted = rank in adopts and bool(heard)
            found[rank].note(number, heard, adopted=adopted, released=rank not in adopts)
            mixes[rank] = found[rank].mix(number)
            for one in heard:
                rows[rank, one] = graph.row[one]
            if adopted:
                rows[rank] /= rows[rank].sum()
            else:
                rows[rank, rank] = 1 - rows[rank].sum()
        for rank in range(size):
            for one in graphs.at(number, rank).out_neighbors:
                found[rank].hear(one, number, mixes[one])
        changes = [one.change(number) for one in found]
        np.testing.assert_allclose([1 + one.error + one.adopted for one in changes], rows.sum(0), atol=1e-12)
        assert sum(one.error + one.adopted for one in changes) == pytest.approx(0.0, abs=1e-12)
