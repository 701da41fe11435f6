"""A round of gossip without training, beside a ring of raw sockets that does the same sends, receives and sums.

    python benchmarks/gossip_round.py [--peers 4] [--parameters 11173962] [--repeats 5] [--rounds 15] [--train 0.5]
                                      [--out FOLDER] [--json]

The peers are whole ones (round loop, session, transport, inbox, codec and mixing; no files by default),
each in a process of its own with one torch thread; their learner's training does nothing. Every repetition runs all
contestants one after the other; a round's time is the elapsed time of the slowest process over its rounds. Medians of
the repetitions, and a ratio's own median: of two contestants of the same repetition. `cpu_ms` has the processor time of
a process in a round, by contestant.

    dpeer           over tcp://; `ratio` and `cpu_ratio` are over the raw ring
    dpeer_ipc       over ipc://, as the peers of `dpeer cluster`; `ipc_ratio` is over the raw TCP ring
    raw             the baseline: plain TCP sockets, both directions at once, landing buffers used again and again
    pickle          send_pyobj and recv_pyobj; `pickle_ratio` is its time over dpeer's
    pickle_mallopt  the same with the heap kept
    gloo            isend and irecv; `gloo_ratio` is its time over the raw ring's: below 1, the baseline is wrong
    saving          dpeer with files: a checkpoint in every round, on the disk that `--out` is on; `saving_ratio` is its
                    time over dpeer's
    trained         dpeer with `--train` seconds of training in every round, in which the processor has nothing to do,
                    as where a GPU trains
    trained_saving  the same with a checkpoint in every round; `trained_saving_ratio` is its time over that of `trained`
    encrypted       dpeer over tcp:// with keys; `encrypted_ratio` is its time over dpeer's, `encrypted_cpu_ratio` its
                    processor time
    relay           the same through a relay in a process of its own; `relay_ratio`, `relay_cpu_ratio` are over
                    encrypted's (the processor time is that of the peers, with their halves of the tunnels)

Of `saving` to `relay` only what `--only` names is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import mean, median
from typing import Any, cast

import rings
import torch
from fleet import Case, Figures, Introduce, Laps, Worker, ring, run, say
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.federation.keys import keyrings
from dpeer.federation.process_tuning import freeze_heap, keep_heap
from dpeer.peer.config import PeerConfig
from dpeer.peer.core.limits import Limits
from dpeer.peer.logs import PeerLog
from dpeer.peer.peer import Peer
from dpeer.peer.relay.server import Listed, Relay
from dpeer.peer.transports import Keyring, ZeroMQTransport
from dpeer.peer.worker import Worker as Threads
from dpeer.topology import build
from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.evaluation import Evaluation

RESNET18 = 11_173_962


class Vector(nn.Module):
    """A body of so many parameters, and a head of one."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.body = nn.Parameter(torch.rand(count))
        self.head = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """An output of one class, for the card of the model that files are kept of."""
        return inputs * self.head


def idle(rank: int, count: int, sleeps: float, settings: Hyperparameters) -> TorchLearner:
    """A learner with nothing to learn, which lets so many seconds go by: it releases, mixes and saves as any other."""
    learner: Any = build_learner(task(count), "dfedmdc", settings, rank=rank, seed=0)
    learner.train = lambda number, **budget: time.sleep(sleeps) if sleeps else None
    learner.evaluate = lambda: Evaluation(None, 0.0)
    learner.fine_tune = lambda number: None
    return cast(TorchLearner, learner)


def peers(rank: int, case: Case, introduce: Introduce) -> Figures:
    """Whole peers.

    Options: `listen`, a relay's address, "tcp" or "ipc"; `sleeps`, of the learner; `settings`, its hyperparameters, by
    which a body may travel in few bytes; `saves`, to write a checkpoint each round, in a folder in `out`; `keyrings`,
    of all ranks, to use keys.
    """
    keep_heap()
    freeze_heap()
    with (
        tempfile.TemporaryDirectory(prefix="dpeer-bench-", dir=case.options.get("out")) as folder,
        tempfile.TemporaryDirectory(prefix="dpeer-") as sockets,
    ):
        places = {"tcp": f"tcp://{case.lines.host(rank)}:0", "ipc": f"ipc://{sockets}/socket"}
        listen = case.options.get("listen", "tcp")
        return asyncio.run(_peer(rank, case, introduce, Path(folder), places.get(listen, listen)))


async def _peer(rank: int, case: Case, introduce: Introduce, folder: Path, listen: str) -> Figures:
    settings = Hyperparameters(**case.options.get("settings", {}))
    learner = idle(rank, case.parameters, case.options.get("sleeps", 0.0), settings)
    keyring = case.options["keyrings"][rank] if "keyrings" in case.options else None
    transport = ZeroMQTransport(Limits(payload_bytes=learner.about.payload_bytes), keyring=keyring)
    laps, sent = Laps(case.warm_up, case.cool_down), list[int]()

    def record(event: Mapping[str, Any]) -> None:
        if event["kind"] == "record":
            laps.lap()
            sent.append(event["entry"]["bytes_sent"])

    peer = Peer(
        PeerConfig(
            rank=rank,
            rounds=case.all_rounds,
            listen=listen,
            fingerprint={},
            authenticated=keyring is not None,
            evaluate_every=10**9,
            checkpoint_every=1 if case.options.get("saves") else 10**9,
            out=folder,
        ),
        build("ring", case.size),
        learner,
        transport,
        Threads(*(ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,)) for _ in range(2))),
        PeerLog(rank, None, "warning"),
        report=record,
    )
    addresses = introduce(await peer.listen())
    if peer.neighbors != case.neighbors[rank]:
        raise RuntimeError(f"rank {rank} has neighbors {peer.neighbors}, the others' have {case.neighbors[rank]}")
    outcome = await peer.serve(
        {other: _reached(case, rank, other, addresses[other]) for other in range(case.size) if other != rank}
    )
    if outcome.lost or outcome.status != "done":
        raise RuntimeError(f"rank {rank} {outcome.status}, lost neighbors {outcome.lost}: nothing was measured")
    return laps.figures(round(median(sent)))


def _reached(case: Case, rank: int, other: int, address: str) -> str:
    """The address at which this rank dials that one."""
    before, _, port = address.rpartition(":")
    if not before.startswith("tcp:"):
        return address
    host, reached = case.lines.reach(rank, other, int(port))
    return f"tcp://{host}:{reached}"


def task(parameters: int) -> Task:
    """A task whose body has so many parameters."""
    torch.manual_seed(0)
    data = TensorDataset(torch.zeros(1, 1), torch.zeros(1, dtype=torch.long))
    return Task(model=Vector(parameters), head=("head",), train=data, test=data)


CONTESTANTS: dict[str, tuple[Worker, dict[str, Any]]] = {
    "dpeer": (peers, {}),
    "dpeer_ipc": (peers, {"listen": "ipc"}),
    "raw": (rings.raw, {}),
    "pickle": (rings.pickle, {}),
    "pickle_mallopt": (rings.pickle, {"mallopt": True}),
    "gloo": (rings.gloo, {}),
}


def others(train: float, keys: Sequence[Keyring], relay: str = "") -> dict[str, tuple[Worker, dict[str, Any]]]:
    """Peers that do more, with seconds of training, keys and a relay's address; measured only where they are named."""
    return {
        "saving": (peers, {"saves": True}),
        "trained": (peers, {"sleeps": train}),
        "trained_saving": (peers, {"sleeps": train, "saves": True}),
        "encrypted": (peers, {"keyrings": keys}),
        "relay": (peers, {"keyrings": keys, "listen": relay}),
    }


@contextmanager
def relayed(keys: Sequence[Keyring]) -> Iterator[str]:
    """The address of a relay for peers with these keys, in a process of its own."""
    found, port = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=_relay, args=(keys[0].listed, port), daemon=True)
    process.start()
    yield f"relay://127.0.0.1:{found.recv()}"
    process.kill()
    process.join()


def _relay(keys: Mapping[int, tuple[bytes, ...]], port: Connection) -> None:
    async def serve() -> None:
        listed = {key: Listed("benchmark", f"rank {rank}") for rank, own in keys.items() for key in own}
        relay = Relay(listed, lambda line: None, rate=1e12)
        port.send(relay.listen("127.0.0.1", 0)[1])
        await relay.run()

    asyncio.run(serve())


def measure(
    case: Case, repeats: int, contestants: Mapping[str, tuple[Worker, Mapping[str, Any]]]
) -> dict[str, list[list[Figures]]]:
    """The figures of every rank, by contestant and repetition; interleaved."""
    found: dict[str, list[list[Figures]]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, (worker, options) in contestants.items():
            found[name].append(run(worker, replace(case, options={**case.options, **options})))
    return found


def round_ms(figures: Sequence[Figures]) -> float:
    """A round of the slowest process, on average."""
    return max(1000 * one.seconds / len(one.round_seconds) for one in figures)


def cpu_s_per_gb(figures: Sequence[Figures]) -> float:
    """CPU seconds of all processes per 10^9 bytes that all sent."""
    return sum(one.cpu_seconds for one in figures) / (sum(one.bytes_sent for one in figures) / 1e9)


def cpu_ms(figures: Sequence[Figures]) -> float:
    """The processor time of a process in a round, of all its threads, in the mean over the processes."""
    return 1000 * mean(one.cpu_seconds / len(one.round_seconds) for one in figures)


_KEYS = {"dpeer": "round_ms", "dpeer_ipc": "ipc_ms", "raw": "raw_ring_ms"}
_RATIOS = {
    "ratio": ("dpeer", "raw"),
    "ipc_ratio": ("dpeer_ipc", "raw"),
    "pickle_ratio": ("pickle", "dpeer"),
    "pickle_mallopt_ratio": ("pickle_mallopt", "dpeer"),
    "gloo_ratio": ("gloo", "raw"),
    "saving_ratio": ("saving", "dpeer"),
    "trained_saving_ratio": ("trained_saving", "trained"),
    "encrypted_ratio": ("encrypted", "dpeer"),
    "relay_ratio": ("relay", "encrypted"),
}
_CPU_RATIOS = {
    "cpu_ratio": ("dpeer", "raw"),
    "encrypted_cpu_ratio": ("encrypted", "dpeer"),
    "relay_cpu_ratio": ("relay", "encrypted"),
}


def figures(found: Mapping[str, Sequence[Sequence[Figures]]]) -> dict[str, Any]:
    """Times, CPU times and ratios of what was measured."""
    times = {name: [round_ms(one) for one in runs] for name, runs in found.items()}
    cpu = {name: [cpu_s_per_gb(one) for one in runs] for name, runs in found.items()}
    result: dict[str, Any] = {_KEYS.get(name, f"{name}_ms"): median(values) for name, values in times.items()}
    for key, (name, other) in _RATIOS.items():
        if {name, other} <= found.keys():
            result[key] = ratio(times[name], times[other])
    for name, before in (
        ("dpeer", ""),
        ("raw", "raw_"),
        ("encrypted", "encrypted_"),
        ("relay", "relay_"),
    ):
        if name in cpu:
            result[f"{before}cpu_s_per_gb"] = median(cpu[name])
    for key, (name, other) in _CPU_RATIOS.items():
        if {name, other} <= found.keys():
            result[key] = ratio(cpu[name], cpu[other])
    if "raw" in found:
        first = found["raw"][0]
        sent = sum(one.bytes_sent / len(one.round_seconds) for one in first)
        result["raw_gb_per_s"] = sent / 1e6 / result["raw_ring_ms"]
    result["cpu_ms"] = {name: median(cpu_ms(one) for one in runs) for name, runs in found.items()}
    result["repetitions_ms"] = times
    return result


def ratio(values: Sequence[float], others: Sequence[float]) -> float:
    """Median of the ratios, repetition by repetition."""
    return median(one / other for one, other in zip(values, others, strict=True))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--parameters", type=int, default=RESNET18)
    parser.add_argument("--rounds", type=int, default=15, help="that count, in each repetition")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--train", type=float, default=0.5, help="seconds of training in a round, if it has any")
    parser.add_argument("--out", type=Path, help="a folder on the disk that files are kept on (default: the system's)")
    parser.add_argument("--only", nargs="*", choices=[*CONTESTANTS, *others(0, [])], default=list(CONTESTANTS))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    options = {"out": arguments.out}
    case = Case(arguments.peers, arguments.parameters, arguments.rounds, ring(arguments.peers), options)
    keys = keyrings(arguments.peers)
    with relayed(keys) if "relay" in arguments.only else nullcontext("") as relay:
        named = CONTESTANTS | others(arguments.train, keys, relay)
        found = measure(case, arguments.repeats, {name: named[name] for name in arguments.only})
    result = {"peers": arguments.peers, "parameters": arguments.parameters, **figures(found)}
    if result.get("gloo_ratio", 1.0) < 1:
        print("warning: gloo beats the raw ring: the raw ring is the wrong baseline", file=sys.stderr)
    say(result, as_json=arguments.json)


if __name__ == "__main__":
    main()
