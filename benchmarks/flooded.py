"""What a round of gossip loses while strangers flood one of the peers: 100 connections that send junk without pause.

    python benchmarks/flooded.py [--connections 100] [--peers 4] [--parameters 11173962] [--repeats 5] [--rounds 15]
                                 [--last] [--json]

The peers are those of `gossip_round.py`, on a ring, without training. The one that is flooded is the first, which dials
both of its neighbors, or with `--last` the one that is dialled by both of them, so that all that it gets comes through
the socket that is flooded. The strangers are one other process, held on the last core where there are several; on a
host of two cores it takes half of what the peers have. So there is a third contestant, in which that process floods a
socket that nobody of the federation reads.

    alone       no strangers
    aside       the strangers flood a socket of their own
    flooded     the strangers flood a peer; `flooded_ratio` is its time over that of `alone`, `flood_ratio` over `aside`
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
from statistics import median
from typing import Any

import zmq
from fleet import Case, Figures, Introduce, ring, say
from gossip_round import RESNET18, measure, peers, ratio, round_ms

from dpeer.cores import own_cores

JUNK = bytes(100)


def flood(address: str, connections: int) -> None:
    """Send junk to the address, or to a socket of this process if there is none, until the process is ended."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {own_cores()[-1]})
    context = zmq.Context()
    if not address:
        sink = context.socket(zmq.ROUTER)
        address = f"tcp://127.0.0.1:{sink.bind_to_random_port('tcp://127.0.0.1')}"
        threading.Thread(target=_swallow, args=(sink,), daemon=True).start()
    links = [context.socket(zmq.DEALER) for _ in range(connections)]
    poller = zmq.Poller()
    for link in links:
        link.connect(address)
        poller.register(link, zmq.POLLOUT)
    while True:
        for link, _ in poller.poll():
            try:
                for _ in range(10):
                    link.send(JUNK, zmq.NOBLOCK)
            except zmq.Again:
                continue


def _swallow(sink: zmq.Socket[bytes]) -> None:
    while True:
        sink.recv_multipart()


def flooded(rank: int, case: Case, introduce: Introduce) -> Figures:
    """A peer, and beside that of rank `at` the strangers; option `strangers`: "none", "aside" or "here"."""
    strangers: subprocess.Popen[bytes] | None = None

    def and_strangers(address: Any) -> list[Any]:
        nonlocal strangers
        told = introduce(address)
        if rank == case.options["at"] and case.options["strangers"] != "none":
            target = address if case.options["strangers"] == "here" else ""
            words = [sys.executable, __file__, "--flood", target, "--connections", str(case.options["connections"])]
            strangers = subprocess.Popen(words)
        return told

    try:
        return peers(rank, case, and_strangers)
    finally:
        if strangers is not None:
            strangers.kill()
            strangers.wait()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--parameters", type=int, default=RESNET18)
    parser.add_argument("--rounds", type=int, default=15, help="that count, in each repetition")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--last", action="store_true", help="flood the last peer, not the first")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--flood", metavar="ADDRESS", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.flood is not None:
        flood(arguments.flood, arguments.connections)
    options = {"connections": arguments.connections, "at": arguments.peers - 1 if arguments.last else 0}
    case = Case(arguments.peers, arguments.parameters, arguments.rounds, ring(arguments.peers), options)
    ways = {"alone": "none", "aside": "aside", "flooded": "here"}
    found = measure(case, arguments.repeats, {name: (flooded, {"strangers": way}) for name, way in ways.items()})
    times = {name: [round_ms(one) for one in runs] for name, runs in found.items()}
    result = {f"{name}_ms": median(values) for name, values in times.items()}
    result["flooded_ratio"] = ratio(times["flooded"], times["alone"])
    result["flood_ratio"] = ratio(times["flooded"], times["aside"])
    say({"connections": arguments.connections, **result}, as_json=arguments.json)


if __name__ == "__main__":
    main()
