"""What earlier versions have recorded is read for ever: messages of each kind, a whole exchange, and checkpoints.

`tests.peer.record` has written the files. They are never changed: a version that cannot read one has to raise the
oldest version of the protocol that is spoken, and say so.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import dpeer
from dpeer.peer.core import wire
from dpeer.peer.core.effects import Deliver, Wake
from dpeer.topology import build
from tests.peer.conftest import done, expected_bodies, lines
from tests.peer.record import settings
from tests.peer.table import Table

RECORDED = Path(__file__).parent / "recorded"
VERSIONS = [
    json.loads(path.read_text()) for path in sorted(RECORDED.glob("protocol-*.json"))
]  # fmt: skip
KINDS = [(one["protocol"], kind) for one in VERSIONS for kind in one["kinds"]]
LIMITS = wire.Limits(payload_bytes=2**16)


def raw(frames):
    return [bytes.fromhex(frame) for frame in frames]


def test_every_version_that_is_spoken_is_recorded():
    assert {one["protocol"] for one in VERSIONS} >= {*wire.ADDED}


@pytest.mark.parametrize(("version", "kind"), KINDS, ids=lambda value: str(value)[:20])
def test_a_message_means_what_it_meant(version, kind):
    message = wire.decode(raw(kind["frames"]), LIMITS, version)
    fields = {name: bytes.fromhex(one["hex"]) if isinstance(one, dict) and "hex" in one else one
              for name, one in kind["fields"].items()}  # fmt: skip
    assert {name: getattr(message, name) for name in fields} == fields
    assert message.kind == kind["kind"]


class Recorded:
    """What the core asks of a learner, as in the recorded run."""

    def __init__(self, hello, payload_bytes):
        self.manifest, self.digest, self.payload_bytes = hello.manifest, hello.digest, payload_bytes

    def receive_buffer(self):
        return None


@pytest.mark.parametrize("version", VERSIONS, ids=lambda one: f"protocol {one['protocol']}")
def test_a_whole_exchange_is_understood(version, monkeypatch):
    """All that one of three peers got in a run: its core takes every body, and drops nothing."""
    recorded = version["exchange"]
    released = {tuple(map(int, key.split())): bytes.fromhex(body) for key, body in recorded["released"].items()}
    hello = next(
        one for one in (wire.decode(raw(message["frames"]), LIMITS) for message in recorded["messages"])
        if isinstance(one, wire.Hello)
    )  # fmt: skip
    learner = Recorded(hello, len(released[0, 0]))
    monkeypatch.setattr("tests.peer.table.Bodies", lambda: learner)
    table = Table(
        dialled=[1, 2], rounds=recorded["rounds"], fingerprint=hello.fingerprint, chunk_bytes=recorded["chunk_bytes"]
    )
    for rank in (1, 2):
        table.established(rank)
    delivered = {}
    loop = round_loop(table, recorded["rounds"], released, delivered)
    next(loop)
    for message in sorted(recorded["messages"], key=lambda one: one["time"]):
        table.now = 1000.0 + message["time"]
        table.hear(table.links[message["from"]], raw(message["frames"]))
        while table.ended:
            loop.send(table.ended.pop(0))
    assert delivered == {key: body for key, body in released.items() if key[0] != 0}
    assert not table.core.drops.counts
    assert not table.core.exchange.inbox.dropped
    assert [table.core.members[rank].current_round for rank in (1, 2)] == [recorded["rounds"]] * 2


def round_loop(table, rounds, released, delivered):
    """The wishes of a peer's round loop, one after the other; it is sent how each wait ended."""
    table.do(table.core.meet(table.now))
    assert isinstance((yield), Wake)
    for number in range(rounds):
        table.do(table.core.begin(number, table.now))
        table.do(table.core.release(number, [released[0, number]], table.now))
        table.do(table.core.collect(number, table.now))
        found = yield
        assert isinstance(found, Deliver)
        for rank, body in found.bodies.items():
            delivered[rank, number] = b"".join(bytes(part) for part in body.payload)
        table.do(table.core.settle(number, table.now))
        assert isinstance((yield), Wake)
    table.do(table.core.linger(table.now))
    assert isinstance((yield), Wake)
    yield


@pytest.mark.parametrize("folder", sorted(RECORDED.glob("checkpoint-*")), ids=lambda path: path.name)
async def test_a_checkpoint_is_taken_up(federation, tmp_path, folder):
    shutil.copytree(folder, tmp_path / "run")
    ours = federation("inprocess", build("ring", 3), rounds=4, out=tmp_path / "run", resume=True)
    done(await ours.run())
    np.testing.assert_allclose(ours.bodies(), expected_bodies(build("ring", 3), 4), rtol=1e-12)
    for rank in range(3):
        assert [line["round"] for line in lines(tmp_path / "run", rank)] == [0, 1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("folder", sorted(RECORDED.glob("run-*")), ids=lambda path: path.name)
def test_a_trained_run_is_resumed(tmp_path, monkeypatch, folder):
    """A third round follows the two that were recorded, as in a run of three."""
    shutil.copytree(folder, tmp_path / "there")
    monkeypatch.chdir(tmp_path / "there")
    before = [lines(Path("run"), rank) for rank in range(2)]
    dpeer.run(settings("run", 3), resume=True)
    dpeer.run(settings("whole", 3))
    for rank in range(2):
        assert lines(Path("run"), rank)[:2] == before[rank]
        resumed, whole = (load_file(Path(run) / f"rank-{rank}" / "model.safetensors") for run in ("run", "whole"))
        assert resumed.keys() == whole.keys()
        for name, values in whole.items():  # recorded with one version of torch, and gone on with another
            np.testing.assert_allclose(resumed[name], values, rtol=1e-3, atol=1e-5)
