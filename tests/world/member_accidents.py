"""Accidents of member lists, made by hand: the schedule, and how it must end."""

import math
from inspect import isfunction

from dpeer.simulation.network import Conditions
from tests.world.faults import Fault
from tests.world.members import Change, MemberScenario, MemberWorld

_QUICK = {"disk": (0.0,), "wait": 120.0}


def _play(topology, size, *, rounds=48, **how):
    scenario = MemberScenario(1, topology, size, rounds, **{**_QUICK, **how})
    return MemberWorld(scenario, log=False).run()


def _part(ranks, at, seconds):
    return Fault("part", tuple(ranks), at, seconds)


def _ends(world, ranks, status="done"):
    found = world.statuses()
    assert {rank: found.get(rank) for rank in ranks} == dict.fromkeys(ranks, status)
    return world


def _agree(world, ranks):
    found = {rank: world.lives[rank][-1].peer.core.lists.lists.stamp for rank in ranks}
    assert len({*found.values()}) == 1, found


# -- safety ------------------------------------------------------------------------------------------------------------


def a_minority_evicts():
    """Two of five, cut off, are handed a list without one of the others: half of the four that it leaves."""
    world = _play("full", 5, faults=(_part([0, 1], 5, 40),), changes=(Change(20, 0, remove=(4,)),))
    _agree(world, range(4))
    _ends(world, range(4))
    return _ends(world, [4], "left")


def the_other_half_evicts():
    """Of eight cut in two halves the one with rank 0 goes on; the other one is handed a list without rank 3."""
    world = _play("full", 8, faults=(_part([4, 5, 6, 7], 5, 40),), changes=(Change(20, 4, remove=(3,)),))
    return _ends(world, [0, 1, 2, 4, 5, 6, 7])


def one_after_the_other_is_evicted():
    """Three of eight are handed five lists, one after the other, each without one of those that they do not hear."""
    changes = tuple(Change(20 + 3 * place, 0, remove=(rank,)) for place, rank in enumerate((7, 6, 5, 4, 3)))
    return _play("full", 8, faults=(_part([0, 1, 2], 5, 60),), changes=changes)


def a_vote_is_heard_of():
    """Ranks 0 and 1 know that 2 has the list, and are cut off; 3 and 4 hear of its vote."""
    pairs = [(one, other) for one in (0, 1) for other in (2, 3, 4)]
    faults = [Fault("stall", pair, 3.9, 150) for pair in pairs] + [
        Fault("stall", pair[::-1], 4.3, 150) for pair in pairs
    ]
    world = _play("full", 5, faults=tuple(faults), changes=(Change(4.0, 0, remove=(4,), also=(1, 2)),))
    _agree(world, range(4))
    return world


def a_vote_is_not_on_disk():
    """Rank 2 gets a list and crashes before that is on disk; it comes back among those that lack it."""
    faults = (_part([3, 4], 3.9, 60), Fault("power", (2,), 5.0, 2.0), _part([0, 1], 5.05, 60))
    return _play("full", 5, faults=faults, changes=(Change(4.0, 0, remove=(4,)),), disk=(2.0,))


def a_newcomer_lacks_the_list_before():
    """Two of list 0 are a quorum of it, and not of list 1; a newcomer comes to them with the list after that."""
    faults = (_part([0, 1, 6], 20, 40),)
    changes = (Change(3, 0, add=3), Change(21, 0, add=1, remove=(3, 4, 5), comes=0.5))
    world = _play("full", 3, faults=faults, changes=changes)
    return _ends(world, [0, 1, 2, 6])


# -- liveness, and that all hear ---------------------------------------------------------------------------------------


def a_lost_disk_had_the_list():
    """Presence says for ever that the disk has it."""
    world = _play("full", 4, faults=(Fault("lose", (3,), 15, 3),), changes=(Change(2, 0, rounds=10),))
    _agree(world, range(4))
    assert all(life.outcome.completed_rounds == 58 for life in world.present)
    return _ends(world, range(4))


def a_disk_is_rolled_back():
    """Rank 0 comes back with the disk of before two lists; by those that it has it has other neighbors."""
    faults = (Fault("back up", (0,), 5), Fault("restore", (0,), 24, 2))
    changes = (Change(8, 3, remove=(1,), add=2), Change(16, 2, rounds=5))
    world = _play("line", 5, rounds=90, faults=faults, changes=changes)
    _agree(world, [0, 2, 3, 4, 5, 6])
    return _ends(world, [0, 2, 3, 4, 5, 6])


def the_center_dies():
    """The center of a star dies for good; the others hear no neighbor, and an operator takes it out."""
    world = _play("star", 6, faults=(Fault("power", (0,), 6, math.inf),), changes=(Change(45, 3, remove=(0,)),))
    _agree(world, range(1, 6))
    return _ends(world, range(1, 6))


def islands_hear_themselves():
    """Three of seven in a ring die; 4 and 6 are handed a list, by which they are neighbors; 1 and 2 hear each other.

    The list that joins them comes later than they wait.
    """
    dead = tuple(Fault("power", (rank,), 10, math.inf) for rank in (0, 3, 5))
    changes = (Change(50, 6, remove=(5,)), Change(140, 6, remove=(0, 3)))
    world = _play("ring", 7, wait=60.0, faults=dead, changes=changes)
    _agree(world, (1, 2, 4, 6))
    return _ends(world, (1, 2, 4, 6))


def both_neighbors_go():
    """Rank 0 of a ring of seven is slow; both of its neighbors die, and are taken out."""
    faults = (Fault("slow", (0,), 0.0, 400.0, times=3.0), *(Fault("power", (one,), 9.5, math.inf) for one in (1, 6)))
    world = _play("ring", 7, faults=faults, changes=(Change(40, 3, remove=(1,)), Change(60, 3, remove=(6,))))
    return _ends(world, [0, 2, 3, 4, 5])


def a_newcomer_is_out_before_its_entry():
    """It is taken out again when it has hardly come."""
    world = _play("full", 4, changes=(Change(3, 0, add=1, comes=0.5), Change(5, 1, remove=(4,))))
    _ends(world, range(4))
    return _ends(world, [4], "left")


def away_while_all_neighbors_change(hidden=()):
    """A member is away while all neighbors that it knows leave and newcomers take their places."""
    changes = (Change(30, 3, remove=(1,), add=1), Change(60, 3, remove=(5,), add=1))
    world = _play("ring", 6, rounds=105, hidden=hidden, faults=(Fault("power", (0,), 5, 100),), changes=changes)
    _agree(world, [0, 2, 3, 4, 6, 7])
    return _ends(world, [0, 2, 3, 4, 6, 7])


def a_lost_disk_among_strangers():
    """The same, and its disk is lost: by the federation file all its neighbors have gone."""
    changes = (Change(30, 3, remove=(1,), add=1), Change(60, 3, remove=(5,), add=1))
    world = _play("ring", 6, rounds=105, faults=(Fault("lose", (0,), 5, 100),), changes=changes)
    _agree(world, [0, 2, 3, 4, 6, 7])
    return _ends(world, [0, 2, 3, 4, 6, 7])


def away_behind_a_firewall():
    """The same, and it can only dial out: it dials whom it knows, and none is its neighbor."""
    return away_while_all_neighbors_change(hidden=(0,))


def a_newcomer_comes_in_the_last_rounds():
    """It ends as the others do if there is a body that it can adopt, in the last round at the latest."""
    for at in (20.4, 21.6, 22.2, 22.8):
        world = _play("ring", 5, rounds=20, changes=(Change(at, 1, add=1, comes=0.5),), disk=(0.5,))
        _ends(world, range(5))
        _ends(world, [5], "done" if any(rank == 5 for rank, _ in world.adopted) else "left-behind")
    return world


def newcomers_do_not_come():
    """Two members are given three newcomers at once that never come."""
    return _ends(_play("full", 2, changes=(Change(3, 0, add=3, comes=math.inf),)), range(2))


def a_list_before_the_start():
    """A newcomer is added while a member is still missing, and never comes; another one comes."""
    for comes in (math.inf, 1.0):
        changes = (Change(5, 0, add=1, comes=comes),)
        world = _play("full", 3, rounds=20, arrivals=(0.0, 0.0, 20.0), changes=changes)
        _ends(world, range(3 if comes == math.inf else 4))
    return world


def a_leaver_crashes():
    """It crashes before it has left, and comes back after that."""
    world = _play("ring", 5, faults=(Fault("crash", (3,), 5.5, 33),), changes=(Change(5, 0, remove=(3,)),))
    _ends(world, [3], "left")
    return _ends(world, [0, 1, 2, 4])


def a_leaver_hears_late():
    """It is cut off while its list spreads, and the line heals after its round."""
    world = _play("ring", 5, faults=(_part([3], 4.5, 20),), changes=(Change(5, 0, remove=(3,)),))
    _ends(world, [3], "left")
    return _ends(world, [0, 1, 2, 4])


def a_leaver_is_slow():
    """It is three times slower than the others, and the last to come to its last round: it ends its mix."""
    slow = (Fault("slow", (3,), 0.0, 200.0, times=3.0),)
    world = _play("ring", 5, faults=slow, changes=(Change(5, 0, remove=(3,)),))
    error, _ = world.columns()
    assert error < 1e-12
    _ends(world, [3], "left")
    return _ends(world, [0, 1, 2, 4])


def rounds_are_added_at_the_end():
    """Two of five are cut off when rounds are added to the last ones: they end, or go on with the others."""
    for place in range(4):
        for seconds in (3, 20):
            at = 19 + 1.4 * place
            world = _play(
                "ring", 5, rounds=20, faults=(_part([1, 2], at - 1, seconds),), changes=(Change(at, 4, rounds=10),)
            )
            _ends(world, range(5))
    return world


def rounds_are_added_while_the_last_one_is_written():
    """Those who have still to write it have completed no more rounds than that."""
    for at in (18.8, 19.6, 20.4):
        world = _play("ring", 5, rounds=10, disk=(0.0, 2.0), changes=(Change(at, 0, rounds=3),))
        _ends(world, range(5))
    return world


def rounds_are_added_as_the_last_one_ends():
    """Some have completed all rounds by the list before when others train the next one: they are waited for."""
    slow = Conditions(latency=(0.001, 0.3), redial=(0.1, 1.0), notice=(0.0, 0.5))
    for at in (2.86, 2.96, 3.26):
        world = _play("ring", 5, rounds=10, pace=0.05, conditions=slow, changes=(Change(at, 0, rounds=3),))
        _ends(world, range(5))
    return world


def a_newcomer_has_a_list_of_its_own():
    """Its list was handed to nobody."""
    world = _play("full", 4, alone=(4,))
    assert not any(begun.rank == 4 for begun in world.begun)
    _ends(world, [4], "isolated")
    return _ends(world, range(4))


def two_operators_at_once():
    """Two lists of one number are handed to two peers; the number after it settles that."""
    for delay in (0.0, 0.01, 0.05, 0.1):
        changes = (
            Change(4.0, 0, remove=(3,), blind=True),
            Change(4.0 + delay, 2, add=1, blind=True, comes=math.inf),
            Change(20, 1, rounds=1, settle=True),
        )
        world = _play("ring", 5, faults=(Fault("power", (4,), 2, math.inf),), changes=changes)
        last = world.lives[0][-1].peer.core.lists.lists.counts
        assert last.version > 0
        _agree(world, [rank for rank in last.members if rank < 4])
        _ends(world, [rank for rank in last.members if rank < 4])
    return world


def forced_beside_others():
    """Three of eight are forced to go on while the other five run: the others end when the line is back."""
    changes = (Change(20, 0, remove=(3, 4, 5, 6, 7), force=True),)
    world = _play("full", 8, faults=(_part([0, 1, 2], 5, 30),), changes=changes, promised=False)
    _ends(world, range(3, 8), "evicted")
    return _ends(world, range(3))


def a_member_moves():
    """It goes to another address."""
    world = _play("ring", 5, changes=(Change(10, 0, move=2, comes=2.0),))
    _agree(world, range(5))
    return _ends(world, range(5))


def a_member_moves_from_between_others():
    """Ranks 0 and 1 hear of the others over it alone, and so cannot know its other address: it dials them."""
    world = _play("line", 7, rounds=24, changes=(Change(10, 5, move=2, comes=0.5),))
    moved = world.present[2]
    assert world.began[2, moved.began[0]] < moved.since + 10, "it has waited to be found"
    _agree(world, range(7))
    return _ends(world, range(7))


def whole_rounds():
    """Without faults W is doubly stochastic in every round; at most one round of a change lacks an edge."""
    for topology, place in (("ring", 3), ("line", 1), ("line", 3), ("full", 0), ("star", 2), ("exponential", 1)):
        changes = (
            Change(3.3 + place / 5, place, topology="ring" if topology != "ring" else "full"),
            Change(12.1 + place / 5, place + 1, remove=((place + 3) % 6,)),
        )
        world = _play(topology, 6, rounds=22, changes=changes, disk=(0.0, 0.2, 1.0))
        error, partial = world.columns()
        assert error < 1e-12, (topology, place, error)
        assert partial <= len(changes), (topology, place, partial)
        _ends(world, [rank for rank in range(6) if rank != (place + 3) % 6])
    return world


def directed_and_changing_graphs():
    """Peers join, leave and change the graph where edges have a direction, or are others in each round."""
    for topology in ("exponential-directed", "one-peer-exponential", "random-matching", "one-way"):
        changes = (
            Change(4, 0, add=1),
            Change(10, 1, remove=(3,)),
            Change(16, 2, topology="one-peer-exponential"),
            Change(22, 2, topology="exponential-directed"),
        )
        world = _play(topology, 6, rounds=28, changes=changes)
        _ends(world, [3], "left")
        _ends(world, [0, 1, 2, 4, 5, 6])
    return world


# -- what is not promised ----------------------------------------------------------------------------------------------


def twins_and_a_cut():
    """Two operators at one moment, and a cut at that moment: both groups may go on, and find together later."""
    pairs = [(one, other) for one in (0, 1) for other in (2, 3, 4)]
    faults = [Fault("stall", pair, 3.9, 150) for pair in pairs] + [
        Fault("stall", pair[::-1], 4.3, 150) for pair in pairs
    ]
    changes = (Change(4.0, 0, remove=(4,), also=(1, 2)), Change(4.001, 3, remove=(0,), also=(4,), blind=True))
    return _play("full", 5, faults=tuple(faults), changes=changes, promised=False)


def a_voter_loses_its_disk():
    """A voter loses its disk before it has told the others, and the two that counted it are cut off."""
    pairs = [(one, other) for one in (0, 1) for other in (2, 3, 4)]
    faults = [Fault("stall", pair, 3.9, 150) for pair in pairs] + [
        Fault("stall", pair[::-1], 4.3, 150) for pair in pairs
    ]
    faults += [Fault("stall", (2, one), 3.9, 2.5) for one in (3, 4)] + [Fault("lose", (2,), 4.6, 2.0)]
    changes = (Change(4.0, 0, remove=(4,), also=(1, 2)),)
    return _play("full", 5, faults=tuple(faults), changes=changes, promised=False)


NOT_PROMISED = [twins_and_a_cut, a_voter_loses_its_disk]
_MADE = [one for name, one in globals().items() if isfunction(one) and one.__module__ == __name__ and name[0] != "_"]
ACCIDENTS = [one for one in _MADE if one not in NOT_PROMISED]
