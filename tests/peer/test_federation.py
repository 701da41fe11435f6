"""Whole federations of peers with a known recursion, over every transport."""

import asyncio
import json
import math

import msgpack
import numpy as np
import pytest
import zmq

from dpeer.exceptions import Refused
from dpeer.peer.config import LivenessConfig
from dpeer.peer.core import wire
from dpeer.topology import Participation, ServerSampling, build
from tests.peer.conftest import PATIENT, QUICK, TIME_VARYING, VectorLearner, done, expected_bodies, lines
from tests.peer.table import encoded

RING = build("ring", 4)
NO_HEARTBEAT = LivenessConfig(heartbeat=0)


# -- bodies follow the recursion ---------------------------------------------------------------------------------------


def taking_part(drawn, rounds, width=5):
    """X <- W' (0.9 X + d) for those who take part; the weight of those who sit out is on the diagonal."""
    x, drift = np.zeros((drawn.size, width)), np.arange(drawn.size)[:, None] + 1.0
    for number in range(rounds):
        active = np.array([rank in drawn.participants(number) for rank in range(drawn.size)])
        together = build("ring", drawn.size).weights * np.outer(active, active)
        np.fill_diagonal(together, 0)
        together += np.diag(1 - together.sum(axis=1))
        x = together @ np.where(active[:, None], 0.9 * x + drift, x)
    return x


def servers(drawn, rounds, width=5):
    """x <- the mean over the sample of 0.9 x + d, which all take."""
    x = np.zeros(width)
    for number in range(rounds):
        x = np.mean([0.9 * x + rank + 1.0 for rank in sorted(drawn.participants(number))], axis=0)
    return np.tile(x, (drawn.size, 1))


GRAPHS = {
    "ring": (build("ring", 5), expected_bodies),
    "star": (build("star", 4), expected_bodies),
    "exponential-directed": (build("exponential-directed", 6), expected_bodies),
    **{name: (make(5, 1), expected_bodies) for name, make in TIME_VARYING.items()},
    "participation": (Participation(build("ring", 5), 0.6, seed=3), taking_part),
    "servers": (ServerSampling(build("full", 6), 0.4, seed=3), servers),
}


@pytest.mark.parametrize(
    ("kind", "liveness", "name"),
    [*(("inprocess", NO_HEARTBEAT, name) for name in GRAPHS), ("tcp", PATIENT, "ring"), ("tcp", PATIENT, "shift")],
)
async def test_bodies_follow_the_recursion(federation, kind, liveness, name):
    """tests/world plays many more schedules, in virtual time."""
    topology, recursion = GRAPHS[name]
    ours = federation(kind, topology, rounds=12, liveness=liveness)
    done(await ours.run())
    np.testing.assert_allclose(ours.bodies(), recursion(topology, 12), rtol=1e-12)
    for peer in ours.peers.values():
        assert not peer.core.reports.counts
        # With heartbeats, a handshake that is answered late is asked for again, which brings a body twice.
        assert set(peer.core.exchange.inbox.dropped) <= ({"duplicate"} if liveness.heartbeat else set())


# -- records -----------------------------------------------------------------------------------------------------------


async def test_every_round_is_recorded(federation, tmp_path):
    ours = federation("tcp", RING, rounds=3, out=tmp_path)
    done(await ours.run())
    entries = lines(tmp_path, 1)
    assert [entry["round"] for entry in entries] == [0, 1, 2]
    assert all(entry["heard"] == [0, 2] and entry["missed"] == [] for entry in entries)
    frames = encoded(b"f" * 16, 1, 0, [b"x" * 40], bytes(4 * RING.size))
    assert entries[0]["bytes_sent"] == entries[0]["bytes_received"] == 2 * wire.size(frames)
    assert entries[0]["accuracy_trained"] == 2.0
    assert entries[0]["accuracy"] == pytest.approx((1 + 2 + 3) / 3)
    assert entries[0]["metrics"] == {"first": entries[0]["accuracy"]}
    assert entries[0]["epsilon"] is None
    summary = json.loads((tmp_path / "rank-1" / "summary.json").read_text())
    assert (summary["status"], summary["bytes_sent"]) == ("done", 6 * wire.size(frames))
    assert summary["accuracy"] == entries[-1]["accuracy"]
    assert (tmp_path / "rank-1" / "model.safetensors").read_bytes() == ours.learners[1].body.tobytes()
    assert summary["measured"] == {"auroc": 0.5}
    card = json.loads((tmp_path / "rank-1" / "model.json").read_text())
    assert card["metrics"] == {"values": {"auroc": {"value": 0.5}}}
    assert (card["federation"]["rank"], card["federation"]["status"]) == (1, "done")


async def test_a_round_in_which_nothing_was_trained_has_not_diverged(federation, tmp_path):
    ours = federation("inprocess", build("ring", 3), rounds=2, out=tmp_path)
    for rank, loss in ((1, None), (2, math.nan)):
        ours.learners[rank].train = lambda number, loss=loss, **budget: loss
    done(await ours.run())
    for rank, diverged in enumerate((False, False, True)):
        entries = lines(tmp_path, rank)
        assert [entry["train_loss"] is None for entry in entries] == [rank > 0] * 2
        assert [entry["diverged"] for entry in entries] == [diverged] * 2
        assert any("diverged" in line for line in ours.logs[rank]) == diverged


async def test_in_a_round_in_which_nothing_was_mixed_no_neighbor_was_heard(federation, tmp_path):
    ours = federation("inprocess", build("ring", 3), rounds=3, out=tmp_path)
    silent = ours.learners[0]
    release = silent.release
    silent.release = lambda number, receivers: None if number == 1 else release(number)
    done(await ours.run())
    entries = lines(tmp_path, 0)
    assert [entry["heard"] for entry in entries] == [[1, 2], [], [1, 2]]
    assert [entry["missed"] for entry in entries] == [[], [1, 2], []]
    assert [entry["bytes_received"] > 0 for entry in entries] == [True, False, True]
    assert [entry["heard"] for entry in lines(tmp_path, 1)] == [[0, 2], [2], [0, 2]]


async def test_a_peer_that_sits_out_neither_trains_nor_exchanges_and_its_lines_show_it(federation, tmp_path):
    drawn, rounds = Participation(RING, 0.5, seed=1), 12
    ours = federation("inprocess", drawn, rounds=rounds, out=tmp_path)
    trained = {rank: [] for rank in range(4)}
    for rank, learner in ours.learners.items():
        learner.on_train = trained[rank].append
    done(await ours.run())
    for rank, learner in ours.learners.items():
        took_part = [number for number in range(rounds) if rank in drawn.participants(number)]
        assert trained[rank] == took_part
        assert learner.sat_out == [number for number in range(rounds) if number not in took_part]
        assert 0 < len(took_part) < rounds, "the seed is one for which all sit out sometimes"
        entries = lines(tmp_path, rank)
        assert [entry["round"] for entry in entries if entry["active"]] == took_part
        samples = [10 * (rank + 1) * (number in took_part) for number in range(rounds)]
        samples[-1] += 5  # what is done after the last round is of that round
        assert [entry["samples"] for entry in entries] == samples
        for entry in entries:
            if not entry["active"]:
                assert entry["train_loss"] is None
                assert entry["bytes_sent"] == entry["bytes_received"] == 0
                assert entry["heard"] == entry["missed"] == []
                assert entry["accuracy"] is not None, "its model is evaluated all the same"


async def test_a_new_run_leaves_nothing_of_an_older_one_but_the_users_files(federation, until, tmp_path):
    topology = build("ring", 2)
    done(await federation("inprocess", topology, rounds=3, out=tmp_path).run())
    folder = tmp_path / "rank-0"
    (folder / "notes.txt").write_text("mine")
    again = federation("inprocess", topology, rounds=2, out=tmp_path)
    again.learners[1].hold = 0
    running = asyncio.create_task(again.run())
    await until(again.learners[1].held.is_set)
    assert not any((folder / name).exists() for name in ("model.safetensors", "model.json", "summary.json"))
    again.learners[1].go.set()
    done(await running)
    assert len(lines(tmp_path, 0)) == 2
    assert [path.name for path in (folder / "checkpoint").iterdir()] == ["round-00000001"]
    assert (folder / "notes.txt").read_text() == "mine"


# -- neighbors that leave, fail or send nonsense -----------------------------------------------------------------------


async def test_a_peer_whose_learner_fails_says_goodbye_and_the_others_finish(federation):
    ours = federation("tcp", RING, rounds=4)
    ours.learners[2].fail = 1
    found = await ours.run()
    assert str(found.pop(2)) == "the data went away"
    done(found)
    assert found[1].lost == found[3].lost == {2: "failed"}


async def test_a_body_that_is_not_finite_is_left_out(federation, tmp_path):
    ours = federation("inprocess", RING, rounds=3, out=tmp_path)
    ours.learners[1].poison = 1
    done(await ours.run())
    for rank in (0, 2):
        assert lines(tmp_path, rank)[1]["missed"] == [1]
        summary = json.loads((tmp_path / f"rank-{rank}" / "summary.json").read_text())
        assert summary["dropped"]["not-finite"] >= 1
        assert np.isfinite(ours.learners[rank].body).all()
        assert sum("not-finite" in line for line in ours.logs[rank]) == 1


async def test_strangers_on_the_port_have_no_effect(federation, tmp_path, until):
    ours = federation("tcp", RING, rounds=5, out=tmp_path)
    ours.learners[1].hold = 2
    addresses = await ours.listen()
    running = asyncio.create_task(ours.serve(addresses))
    await until(ours.learners[1].held.is_set)
    federation_id = wire.federation_id({"size": 4, "body_lr": 0.05})
    nonsense = [
        [b"GET / HTTP/1.1\r\n"],
        [b"\xc1" * 50, b"x" * 30],
        [msgpack.packb({"kind": "hello"})],
        encoded(federation_id, 0, 2, [np.full(5, 1e6).tobytes()]),
        wire.encode(wire.Goodbye(rank=0, federation=federation_id, reason="stopped")),
        wire.encode(wire.Hello(rank=0, next_round=2, fingerprint={"size": 5}, manifest={}, digest="")),
        [b"h", b"x" * 10_000],
        [b"z"] * 6000,
    ]
    with zmq.Context() as context:
        strangers = [context.socket(zmq.DEALER) for _ in nonsense]
        for stranger, message in zip(strangers, nonsense, strict=True):
            stranger.linger = 0
            stranger.connect(addresses[2])
            stranger.send_multipart(message)
        _, raw = await asyncio.open_connection("127.0.0.1", int(addresses[2].rpartition(":")[2]))
        raw.write(b"\x00\xff" * 5000)
        await until(lambda: sum(ours.peers[2].core.reports.counts.values()) >= len(nonsense))
        ours.learners[1].go.set()
        done(await running)
        raw.close()
        for stranger in strangers:
            stranger.close()
    np.testing.assert_allclose(ours.bodies(), expected_bodies(RING, 5), rtol=1e-12)
    dropped = json.loads((tmp_path / "rank-2" / "summary.json").read_text())["dropped"]
    assert dropped.keys() >= {"malformed", "stranger", "oversized", "mismatch"}


# -- peers that do not fit, or do not come -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "here", "there"),
    [
        ({"fingerprint": {"body_lr": 0.1}}, "body_lr: 0.05 here, 0.1 at rank 1", "body_lr: 0.1 here, 0.05 at rank 0"),
        ({"learner": VectorLearner(1, digest="other")}, "initial body: same here", "initial body: other here"),
    ],
    ids=["a setting", "the initial body"],
)
async def test_two_peers_that_differ_both_name_the_difference(federation, change, here, there):
    found = await federation("inprocess", build("ring", 2), wait=10, change={1: change}).run()
    for rank, text in ((0, here), (1, there)):
        assert isinstance(found[rank], Refused)
        assert str(found[rank]).startswith(text)


@pytest.mark.parametrize("where", ["happened", "tick"])
async def test_a_mistake_in_the_core_ends_the_peer_and_is_logged(federation, until, where):
    ours = federation("inprocess", build("ring", 3), rounds=3, liveness=QUICK)
    ours.learners[0].hold = 1
    running = asyncio.create_task(ours.run())
    await until(ours.learners[0].held.is_set)

    def mistaken(*arguments, **options):
        raise RuntimeError("a mistake")

    setattr(ours.peers[0].core, where, mistaken)
    found = await running
    assert isinstance(found.pop(0), RuntimeError)
    assert any("the connections of this peer failed" in line and "a mistake" in line for line in ours.logs[0])
    done(found)
