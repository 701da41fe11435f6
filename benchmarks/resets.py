"""Connections that are reset in the middle of a body: how many bytes travel again, and what that costs a round.

    python benchmarks/resets.py [--line 20Mbit/40ms] [--parameters 11173962] [--peers 4] [--repeats 1]
                                [--emulator netem|packets|proxy] [--json]

Peers on a ring, over emulated lines (`emulated_lines.py`). In the second of three rounds that count, rank 0 ends both
of its connections once half of a body has come on one of them. Peers that speak protocol 5, in which a body is sent
again from its first byte on, and peers of the present one take turns. For each:

    again     10^6 bytes of bodies that came to a peer beyond those of whole bodies, all peers together
    reset     seconds of the round with the reset
    others    seconds of the other two, on average
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from statistics import fmean, median
from typing import Any, ClassVar

from emulated_lines import Shape, emulators, opened
from fleet import Case, Figures, Introduce, ring, run, say
from gossip_round import RESNET18, peers

from dpeer.peer import ZeroMQTransport
from dpeer.peer.core import wire
from dpeer.peer.core.versions import Protocol
from dpeer.peer.transport import Arrival, Event, Link

ROUNDS, WARM_UP = 3, 1


class Until5(Protocol):
    """The versions that a peer of protocol 5 speaks."""

    newest = 5


CONTESTANTS: Mapping[str, Protocol] = {"protocol_5": Until5(wire.ADDED, wire.CURRENT.messages), "now": wire.CURRENT}


class Resetting(ZeroMQTransport):
    """Ends all connections that it has dialled, once, after so many bytes of bodies have come on one of them.

    Attributes:
        came: Bytes of bodies that have come to this process.
    """

    came: ClassVar[int] = 0

    def __init__(self, *args: Any, after: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self._after = after
        self._on: Counter[Link] = Counter()

    async def receive(self) -> Event:
        """The next event."""
        event = await super().receive()
        if isinstance(event, Arrival):
            nbytes = wire.size(event.frames[1:])
            Resetting.came += nbytes
            self._on[event.link] += nbytes
            if self._on[event.link] >= self._after and event.link in self._dealers:
                self._after = float("inf")
                for dealer in self._dealers.values():
                    dealer.end()
        return event


def worker(rank: int, case: Case, introduce: Introduce) -> Figures:
    """A peer; `protocol` names what it speaks, and `after` is as for `Resetting`, of rank 0."""
    after = case.options["after"] if rank == 0 else float("inf")
    options = {"transport": partial(Resetting, after=after), "protocol": CONTESTANTS[case.options["protocol"]]}
    figures = peers(rank, replace(case, options={**case.options, **options}), introduce)
    return replace(figures, bytes_came=Resetting.came)


def measured(options: argparse.Namespace, name: str) -> dict[str, float]:
    """The figures of one run."""
    body = 4 * options.parameters
    shape = Shape.parse(options.line)
    with opened([shape] * options.peers, options.emulator) as (_, lines):
        case = Case(
            options.peers, options.parameters, ROUNDS, ring(options.peers),
            {"protocol": name, "after": (WARM_UP + 1.5) * body, "changes": True}, lines, warm_up=WARM_UP,
        )  # fmt: skip
        found = run(worker, case)
    seconds = [fmean(times) for times in zip(*(one.round_seconds for one in found), strict=True)]
    whole = body * case.all_rounds * sum(map(len, case.neighbors))
    return {
        "again": (sum(one.bytes_came for one in found) - whole) / 1e6,
        "reset": seconds[1],
        "others": (seconds[0] + seconds[2]) / 2,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--line", default="20Mbit/40ms")
    parser.add_argument("--parameters", type=int, default=RESNET18)
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--emulator", choices=[*emulators()], help="default: the first that works here")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {name: [] for name in CONTESTANTS}
    for _ in range(options.repeats):
        for name, runs in found.items():
            runs.append(measured(options, name))
    say(
        {f"{name}_{key}": median(one[key] for one in runs) for name, runs in found.items() for key in runs[0]},
        as_json=options.json,
    )


if __name__ == "__main__":
    main()
