"""Drift of memory and round time over many rounds.

    python benchmarks/steady.py [--peers 8] [--parameters 11173962] [--rounds 200] [--json]

The peers are those of `gossip_round.py`, whole ones on a ring whose training does nothing. Resident memory (with what
is shared between the processes) is read after every round; given is the most of any peer, after some rounds, and the
slope of a line through the last three quarters. The baseline of round times is the run's own first quarter: the median
round of the last quarter over that of the first. Rounds that warm up are not counted among either.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import linear_regression, median
from typing import Any

from fleet import Case, Figures, ring, run, say
from gossip_round import RESNET18, peers

_MARKS = (0.05, 0.25, 0.5, 0.75, 1.0)


def summed_up(figures: Sequence[Figures], rounds: int) -> dict[str, Any]:
    """Memory and times, by name."""
    memory = [max(now) for now in zip(*(one.resident_mb for one in figures), strict=True)]
    times = [max(now) for now in zip(*(one.round_seconds for one in figures), strict=True)]
    quarter = max(1, rounds // 4)
    first, last = median(times[:quarter]), median(times[-quarter:])
    line = linear_regression(range(quarter, len(memory)), memory[quarter:])
    return {
        "resident_mb": {str(mark): memory[mark] for mark in sorted({max(1, round(rounds * part)) for part in _MARKS})},
        "slope_mb_per_100_rounds": 100 * line.slope,
        "first_quarter_ms": 1000 * first,
        "last_quarter_ms": 1000 * last,
        "last_over_first": last / first,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peers", type=int, default=8)
    parser.add_argument("--parameters", type=int, default=RESNET18)
    parser.add_argument("--rounds", type=int, default=200, help="that count; at least 8")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.rounds < 8:
        parser.error("--rounds: a trend needs 8 at least")
    case = Case(arguments.peers, arguments.parameters, arguments.rounds, ring(arguments.peers), {})
    found = summed_up(run(peers, case), arguments.rounds)
    result = {"peers": arguments.peers, "parameters": arguments.parameters, "rounds": arguments.rounds, **found}
    say(result, as_json=arguments.json)


if __name__ == "__main__":
    main()
