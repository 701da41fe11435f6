"""Records the messages and a checkpoint of this version, which all later ones must read: `python -m tests.peer.record`.

It is run once for a version of the protocol, before that is released. What it has written is never changed.
"""

import asyncio
import json
import shutil
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import dpeer
from dpeer.peer.core import wire
from dpeer.topology import build
from tests.peer.conftest import Federation, done
from tests.world.scenario import Scenario
from tests.world.world import World

RECORDED = Path(__file__).parent / "recorded"
FEDERATION = b"federation-id-16"
CHUNK = 16
"""Bytes of a chunk in the exchange."""

KEPT = ("checkpoint", "metrics.jsonl", "released.json")
"""What is kept of a rank's folder."""

VALUES = {
    "rank": 1, "next_round": 3, "reply": True, "fingerprint": {"size": 3, "body_lr": 0.05}, "digest": "same",
    "manifest": {"parameters": [{"name": "w", "shape": [2], "offset": 0}]}, "apart_from": 2,
    "presence": b"\x01\0\0\0" * 3, "apart_because": "body_lr differs", "running": True, "federation": FEDERATION,
    "round": 4, "sizes": [8, 3], "paused": True, "hops": 2, "got": 65536, "pace": 131072, "back_within": 120,
    "protocol": 6, "oldest": 5, "enters": 6, "incarnation": 2, "remembers": 1, "recalls": 5,
    "there": 2, "waited": 30,
    "process": b"a-name", "serial": 7, "alone": True, "holds": b"sixteen-bytes-16\0\0\1\0\0\0\0\0",
}  # fmt: skip
"""By name of a field, a value that is not its default."""

REASONS = {"goodbye": "stopped", "refusal": "another process already takes part as rank 1"}


def messages():
    """One of every kind, with all its fields."""
    for one in wire.CURRENT.messages:
        kind = one.model_fields["kind"].default
        names = [name for name, field in one.model_fields.items() if name != "kind" and not field.exclude]
        values = {name: REASONS[kind] if name == "reason" else VALUES[name] for name in names}
        yield one(**values, **({"buffers": (b"12345678", b"abc")} if kind == "body" else {}))


def plain(value):
    """A value as JSON; bytes as {"hex": ...}."""
    if isinstance(value, bytes | bytearray | memoryview):
        return {"hex": bytes(value).hex()}
    return value


class Recorder(World):
    """Keeps what rank 0 gets, and what it released."""

    def __init__(self, scenario):
        super().__init__(scenario)
        self.got = []

    def _sent(self, source, target, frames):
        super()._sent(source, target, frames)
        if target == 0:
            self.got.append({"time": self.loop.time(), "from": source, "frames": [bytes(one).hex() for one in frames]})


def exchange():
    """All that rank 0 of a ring of three gets in a run of three rounds, in chunks and whole."""
    scenario = Scenario(1, "ring", 3, 3)
    conditions = replace(scenario.conditions, chunk_bytes=CHUNK)
    world = Recorder(replace(scenario, conditions=conditions)).run()
    released = {f"{rank} {number}": body.hex() for (rank, number, _), body in world.released.items()}
    return {"rounds": 3, "chunk_bytes": CHUNK, "messages": world.got, "released": released}


async def checkpoint(folder):
    """A federation of three that has completed two rounds."""
    with TemporaryDirectory() as out:
        ours = Federation("inprocess", build("ring", 3), rounds=2, out=Path(out))
        done(await ours.run())
        for threads in (ours.executor, ours.disk):
            threads.shutdown()
        for rank in range(3):
            for name in KEPT:
                source, target = Path(out) / f"rank-{rank}" / name, folder / f"rank-{rank}" / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)


TABLE = "age,pulse,outcome\n" + "".join(
    f"{20 + one},{60 + 7 * one % 40},{'yes' if 7 * one % 40 > 20 else 'no'}\n" for one in range(40)
)


def settings(out, rounds):
    """Of a small run on a table, whose path counts from the current folder."""
    return dpeer.Settings(
        size=2, rounds=rounds, task="csv", task_options={"path": "visits.csv", "target": "outcome"}, partition="iid",
        body_epochs=1, alone="never", threads=1, out=out,
    )  # fmt: skip


def trained_run(folder):
    """A run of two peers that has trained a model for two rounds, and its table."""
    with TemporaryDirectory() as here, chdir(here):
        Path("visits.csv").write_text(TABLE)
        dpeer.run(settings("run", 2))
        folder.mkdir()
        shutil.copy("visits.csv", folder)
        for rank in range(2):
            for name in (*KEPT, "partition.json", "preparation.json", "privacy"):
                source = Path("run") / f"rank-{rank}" / name
                target = folder / source
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)


def main():
    version = wire.CURRENT.newest
    kinds = [
        {"kind": one.kind, "frames": [bytes(frame).hex() for frame in wire.encode(one)],
         "fields": {name: plain(value) for name, value in one.model_dump().items()}}
        for one in messages()
    ]  # fmt: skip
    RECORDED.mkdir(exist_ok=True)
    content = {"protocol": version, "kinds": kinds, "exchange": exchange()}
    (RECORDED / f"protocol-{version}.json").write_text(json.dumps(content, indent=1) + "\n")
    folder = RECORDED / f"checkpoint-of-protocol-{version}"
    shutil.rmtree(folder, ignore_errors=True)
    asyncio.run(checkpoint(folder))
    run = RECORDED / f"run-of-protocol-{version}"
    shutil.rmtree(run, ignore_errors=True)
    trained_run(run)


if __name__ == "__main__":
    main()
