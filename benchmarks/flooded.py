"""Slowdown of a gossip round while one of the peers is attacked, by strangers or by a neighbor.

    python benchmarks/flooded.py [--kind junk stalled unlisted plain neighbor] [--connections N] [--peers 4]
                                 [--parameters 11173962] [--repeats 5] [--rounds 15] [--last] [--json]

The peers are those of `gossip_round.py`, on a ring, without training; with keys by default. The one
that is attacked is the first, which dials both of its neighbors, or with `--last` the one that is dialled by both of
them, so that all that it gets comes through the socket that is attacked.

    junk        100 connections that send junk without pause; here no peer has keys (measured if nothing is named)
    stalled     1,000 connections that stall in the handshake, and are made again when they are ended
    unlisted    100 connections with a key that is not listed, that connect again and again
    plain       100 connections without keys, that send 64 KiB of junk and are ended, again and again
    neighbor    a listed neighbor that takes part, and sends 10 damaged or replayed messages before each that it has to

The strangers (`strangers.py`) are one other process, held on the last core where there are several; on a host of two
cores it takes half of what the peers have. The neighbor (`hostile_neighbor.py`) is itself a peer. So each attack has
two contestants beside peers that are left alone. In one a peer is attacked, in the other one a socket that no peer of
the federation reads, in the attacker's own process, and no more often a second than the peer just before. By kind:

    _alone_ms   a round that is not attacked
    _aside_ms   a round while a socket of its own is attacked
    _ms         a round while a peer is attacked; `_ratio` is its time over that alone, `_over_aside` over that aside
    _cpu_ratio  processor time of the peer that is attacked, over that alone
    _per_s      how often a second it was connected; of junk and the neighbor how many messages of no use were sent
    _aside_per_s    the same, aside
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import IO, Any

from fleet import Case, Figures, Introduce, ring, run, say
from gossip_round import RESNET18, peers, ratio, round_ms
from hostile_neighbor import HostileTransport

from dpeer.federation.keys import keyrings
from dpeer.peer import Limits
from dpeer.peer.transports import Keyring

KINDS = {"junk": 100, "stalled": 1000, "unlisted": 100, "plain": 100, "neighbor": 1}
"""The attacks, and the connections of each."""

_WITH_KEYS = "with keys"


def attacked(rank: int, case: Case, introduce: Introduce) -> Figures:
    """A peer of a federation of which rank `at` is attacked.

    Options: those of `peers`; `at`; `attack`, the kind, or "" for none; `aside`, for one that goes elsewhere;
    `connections`, how many the strangers have, and `per_s`, how often they connect at most.
    """
    options = case.options
    if options["attack"] == "neighbor":
        return _hostile(rank, case, introduce) if rank == case.neighbors[options["at"]][0] else peers(
            rank, case, introduce
        )  # fmt: skip
    if not options["attack"] or rank != options["at"]:
        return peers(rank, case, introduce)
    with _strangers(options) as (tell, hear):

        def and_attack(address: Any) -> list[Any]:
            addresses = introduce(address)
            server = options["keyrings"][rank].public.hex() if "keyrings" in options else ""
            where = {"address": "" if options["aside"] else address, "server": server, "per_s": options.get("per_s")}
            tell.write(f"{json.dumps(where)}\n")
            tell.flush()
            return addresses

        found = peers(rank, case, and_attack)
        tell.close()
        return replace(found, attempts_per_s=float(hear.readline()))


@contextmanager
def _strangers(options: Mapping[str, Any]) -> Iterator[tuple[IO[str], IO[str]]]:
    """Strangers that wait for an address to attack, with their input and output."""
    program = Path(__file__).with_name("strangers.py")
    words = [sys.executable, str(program), options["attack"], str(options["connections"])]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{program.name} has not begun: nothing was measured")
        yield process.stdin, process.stdout
    finally:
        process.kill()
        process.wait()


def _hostile(rank: int, case: Case, introduce: Introduce) -> Figures:
    made: list[HostileTransport] = []

    def make(limits: Limits, keyring: Keyring, bulk: int | None, *, local: bool) -> HostileTransport:
        options = case.options
        made.append(HostileTransport(limits, keyring, bulk, local=local, victim=options["at"], aside=options["aside"]))
        return made[0]

    found = peers(rank, replace(case, options={**case.options, "transport": make}), introduce)
    (transport,) = made
    seconds = time.perf_counter() - (transport.began or 0.0)
    return replace(found, attempts_per_s=transport.attempts / seconds)


def contests(case: Case, kinds: Sequence[str], repeats: int, connections: int | None) -> dict[str, list[list[Figures]]]:
    """The figures of every rank, by contestant and repetition: peers left alone, and two contestants for each kind."""
    rings = keyrings(case.size)
    found: defaultdict[str, list[list[Figures]]] = defaultdict(list)
    for _ in range(repeats):
        for alone in dict.fromkeys(map(_alone, kinds)):
            keys: dict[str, Any] = {"keyrings": rings, "bulk": 0} if alone == _WITH_KEYS else {}
            with_keys = replace(case, options={**case.options, **keys, "attack": ""})
            found[alone].append(run(attacked, with_keys))
            for kind in (kind for kind in kinds if _alone(kind) == alone):
                options = {**with_keys.options, "attack": kind, "connections": connections or KINDS[kind]}
                here = run(attacked, replace(case, options={**options, "aside": False}))
                paced = {**options, "aside": True, "per_s": sum(one.attempts_per_s for one in here)}
                found[kind].append(here)
                found[f"{kind}_aside"].append(run(attacked, replace(case, options=paced)))
    return found


def _alone(kind: str) -> str:
    return "without keys" if kind == "junk" else _WITH_KEYS


def figures(kind: str, at: int, found: Mapping[str, Sequence[Sequence[Figures]]]) -> dict[str, float]:
    """What was measured of one kind of attack on rank `at`."""
    ways = {"alone": found[_alone(kind)], "aside": found[f"{kind}_aside"], "here": found[kind]}
    times = {way: [round_ms(one) for one in runs] for way, runs in ways.items()}
    cpu = {way: [one[at].cpu_seconds for one in runs] for way, runs in ways.items()}
    often = {way: median(sum(one.attempts_per_s for one in ranks) for ranks in runs) for way, runs in ways.items()}
    return {
        f"{kind}_alone_ms": median(times["alone"]),
        f"{kind}_aside_ms": median(times["aside"]),
        f"{kind}_ms": median(times["here"]),
        f"{kind}_ratio": ratio(times["here"], times["alone"]),
        f"{kind}_over_aside": ratio(times["here"], times["aside"]),
        f"{kind}_cpu_ratio": ratio(cpu["here"], cpu["alone"]),
        f"{kind}_per_s": often["here"],
        f"{kind}_aside_per_s": often["aside"],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kind", nargs="+", choices=list(KINDS), default=["junk"])
    parser.add_argument("--connections", type=int, help="of strangers (default: by kind)")
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--parameters", type=int, default=RESNET18)
    parser.add_argument("--rounds", type=int, default=15, help="that count, in each repetition")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--last", action="store_true", help="attack the last peer, not the first")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    at = arguments.peers - 1 if arguments.last else 0
    case = Case(arguments.peers, arguments.parameters, arguments.rounds, ring(arguments.peers), {"at": at})
    kinds = list(dict.fromkeys(arguments.kind))
    found = contests(case, kinds, arguments.repeats, arguments.connections)
    result: dict[str, float] = {}
    for kind in kinds:
        result |= figures(kind, at, found)
    say(result, as_json=arguments.json)


if __name__ == "__main__":
    main()
