"""Invariants of mass: each recorded mass is the column that the mixes of all peers give."""

import itertools
import math

from tests.world.overlaps import SHARE

_CLOSE = 1e-9


def at_the_end(world):
    """Every line's `mass_error` and `mass_adopted` are those of the matrix; without faults none is unknown."""
    for lives in world.lives:
        for life in (one for one in lives if one.files is not None):
            over = _run_before_the_disk_was_lost(world, lives, life)
            for line in life.files.lines:
                if line["round"] > over:
                    _right(world, life.rank, line)
    scenario = world.scenario
    if not (scenario.faults or scenario.resets or scenario.arrivals or scenario.budgets or scenario.deadline):
        unknown = [
            (life.rank, line["round"])
            for life in world.present
            for line in life.files.lines
            if line["round"] and line["mass_error"] is None
        ]
        world.check(not unknown, f"mass of the round before is unknown without a fault: {unknown[:3]}")


def _run_before_the_disk_was_lost(world, lives, life):
    """Rounds that an earlier process has run whose disk is lost: this one sits them out again, and says that."""
    return max((number + 1 for one in lives if one.disk < life.disk for number in one.began), default=-1)


def _right(world, rank, line):
    """A line's mass is the column of the round before, in one of the ways in which that round was run.

    A peer that was killed may run a round once more, and mix other bodies. One that has lost its disk may not, and what
    it has mixed before was a body that the line does not speak of, as where the rank of the line has lost its own.
    """
    number, found = line["round"] - 1, (line["mass_error"], line["mass_adopted"])
    if found[0] is None:
        world.check(found[1] is None, f"rank {rank} knows one part of its mass of round {number} alone: {found}")
        return
    own = [_own(world, rank, number, mix) for mix in world.mixtures[rank, number]]
    lost = {one for fault in world.scenario.faults if fault.what == "lose" for one in fault.ranks}
    parts, none = [], ([], False)
    for receiver in (one for one in range(world.size) if one != rank):
        mixes = [*world.mixtures.get((receiver, number), [none]), *[none] * bool(lost & {rank, receiver})]
        parts.append({_taken(world, receiver, number, rank, mix) for mix in mixes})
    share = SHARE if world.scenario.overlap else 1.0
    sums = (
        [math.fsum(values) for values in zip((-1.0, 0.0), *column, strict=True)]
        for column in itertools.product(set(own), *parts)
    )
    columns = [(share * error, taken) for error, taken in sums]
    world.check(
        any(all(abs(one - other) < _CLOSE for one, other in zip(found, column, strict=True)) for column in columns),
        f"rank {rank} says {found} of its mass of round {number}, and the matrix {sorted(set(columns))[:3]}",
    )


def _own(world, rank, number, mix):
    """The diagonal, and what adopting takes from it: all that the others in the row do not have."""
    heard, adopted = mix
    if adopted:
        return 1.0, -1.0
    row = world.graphs.at(number, rank).row
    return 1.0 - math.fsum(row[other] for other in heard), 0.0


def _taken(world, receiver, number, rank, mix):
    """The weight that another peer has given to a rank's body: by mixing, by adopting."""
    heard, adopted = mix
    if rank not in heard:
        return 0.0, 0.0
    row = world.graphs.at(number, receiver).row
    if adopted:
        return 0.0, row[rank] / math.fsum(row[other] for other in heard)
    return row[rank], 0.0
