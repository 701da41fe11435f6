"""Whole federations of peers with a known recursion, over every transport."""

import asyncio
import json
import math
import shutil
import threading

import msgpack
import numpy as np
import pytest
import zmq

from dpeer.exceptions import CheckpointError, PeersMissing, Refused
from dpeer.peer import LivenessConfig
from dpeer.peer.core import wire
from dpeer.peer.transport import Sent
from dpeer.topology import build

RING = build("ring", 4)

AGAIN = "start these two again with settings that agree"


def has_failed(ours, rank):
    """The line in which rank 3 says that the rank has failed, once there is one."""
    begins = f"rank {rank} failed: its own log.jsonl says why"
    return next((line for line in ours.logs[3] if line.startswith(begins)), None)


def outcomes(found, status="done"):
    for rank, outcome in found.items():
        if isinstance(outcome, BaseException):
            raise AssertionError(f"rank {rank}: {outcome!r}") from outcome
        assert outcome.status == status
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size"), [("ring", 5), ("star", 5), ("full", 4), ("grid", 6), ("exponential-directed", 6), ("ring", 2)]
)
async def test_bodies_follow_the_recursion(federation, kind, expected, name, size):
    topology = build(name, size)
    ours = federation(kind, topology, rounds=6)
    outcomes(await ours.run())
    np.testing.assert_allclose(ours.bodies(), expected(topology, 6), rtol=1e-12)


async def test_every_round_is_recorded(federation, kind, tmp_path):
    ours = federation(kind, RING, rounds=3, out=tmp_path)
    outcomes(await ours.run())
    lines = [json.loads(line) for line in (tmp_path / "rank-1" / "metrics.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == [0, 1, 2]
    assert all(line["heard"] == [0, 2] and line["missed"] == [] for line in lines)
    frames = wire.encode(wire.body(b"f" * 16, 1, 0, [b"x" * 40], bytes(4 * RING.size)))
    assert lines[0]["bytes_sent"] == lines[0]["bytes_received"] == 2 * wire.size(frames)
    assert lines[0]["accuracy_trained"] == 2.0
    assert lines[0]["accuracy"] == pytest.approx((1 + 2 + 3) / 3)
    assert lines[0]["metrics"] == {"first": lines[0]["accuracy"]}
    assert lines[0]["epsilon"] is None
    summary = json.loads((tmp_path / "rank-1" / "summary.json").read_text())
    assert summary["status"] == "done"
    assert summary["bytes_sent"] == 6 * wire.size(frames)
    assert summary["accuracy"] == lines[-1]["accuracy"]
    assert (tmp_path / "rank-1" / "model.safetensors").read_bytes() == ours.learners[1].body.tobytes()
    assert summary["measured"] == {"auroc": 0.5}
    card = json.loads((tmp_path / "rank-1" / "model.json").read_text())
    assert card["metrics"] == {"values": {"auroc": {"value": 0.5}}}
    assert (card["federation"]["rank"], card["federation"]["status"]) == (1, "done")


async def test_a_round_in_which_nothing_was_trained_has_not_diverged(federation, tmp_path):
    ours = federation("inprocess", build("ring", 3), rounds=2, out=tmp_path)
    for rank, loss in ((1, None), (2, math.nan)):
        ours.learners[rank].train = lambda number, loss=loss: loss
    outcomes(await ours.run())
    for rank, diverged in enumerate((False, False, True)):
        lines = [json.loads(line) for line in (tmp_path / f"rank-{rank}" / "metrics.jsonl").read_text().splitlines()]
        assert [line["train_loss"] is None for line in lines] == [rank > 0] * 2
        assert [line["diverged"] for line in lines] == [diverged] * 2
        assert any("diverged" in line for line in ours.logs[rank]) == diverged


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ring", "exponential-directed"])
async def test_stopped_together_and_resumed_is_as_never_stopped(federation, kind, tmp_path, expected, name, until):
    topology = build(name, 5)
    first = federation(kind, topology, rounds=8, out=tmp_path)
    first.learners[2].hold = 4
    running = asyncio.create_task(first.run())
    # The others may still be finishing round 3 when rank 2 begins round 4.
    await until(
        lambda: first.learners[2].held.is_set() and all(4 in first.learners[rank].released for rank in (0, 1, 3, 4))
    )
    # The last to be stopped is the one for whom the others wait.
    for rank in (0, 1, 3, 4, 2):
        first.peers[rank].stop()
        await asyncio.sleep(0.02)
    found = outcomes(await running, "stopped")
    assert {outcome.completed_rounds for outcome in found.values()} <= {4, 5}
    assert found[2].completed_rounds == 4
    assert np.frombuffer((tmp_path / "rank-2" / "model.safetensors").read_bytes()).min() > 0
    card = json.loads((tmp_path / "rank-2" / "model.json").read_text())
    assert (card["federation"]["status"], card["federation"]["completed_rounds"]) == ("stopped", 4)

    again = federation(kind, topology, rounds=8, out=tmp_path, resume=True)
    outcomes(await again.run())
    np.testing.assert_array_equal(again.bodies(), await uninterrupted(federation, kind, topology))
    np.testing.assert_allclose(again.bodies(), expected(topology, 8), rtol=1e-12)
    for rank in range(5):
        lines = [json.loads(x) for x in (tmp_path / f"rank-{rank}" / "metrics.jsonl").read_text().splitlines()]
        assert [line["round"] for line in lines] == list(range(8))
        assert not any(line["missed"] for line in lines)


async def uninterrupted(federation, kind, topology):
    whole = federation(kind, topology, rounds=8)
    outcomes(await whole.run())
    return whole.bodies()


async def test_one_round_apart_on_resume_the_body_is_sent_again(federation, kind, tmp_path, expected):
    """Rank 1 has completed a round that its neighbors have not: what they need comes from its checkpoint."""
    first = federation(kind, RING, rounds=3, out=tmp_path)
    outcomes(await first.run())
    ahead = {path.name: path.read_bytes() for path in (tmp_path / "rank-1" / "checkpoint").rglob("*") if path.is_file()}
    assert ahead
    older = federation(kind, RING, rounds=2, out=tmp_path / "older")
    outcomes(await older.run())
    for rank in (0, 2, 3):
        (tmp_path / "older" / f"rank-{rank}").rename(tmp_path / f"older-{rank}")
        (tmp_path / f"rank-{rank}").rename(tmp_path / f"newer-{rank}")
        (tmp_path / f"older-{rank}").rename(tmp_path / f"rank-{rank}")
    again = federation(kind, RING, rounds=5, out=tmp_path, resume=True)
    transport, said = again.transports[1], {}
    send = transport.send

    def listening(link, frames):
        said.setdefault(link, []).append(msgpack.unpackb(bytes(frames[0]))["kind"])
        return send(link, frames)

    transport.send = listening
    outcomes(await again.run())
    # A word on a later round before the body would mean that the body cannot come.
    assert all(kinds.index("body") < kinds.index("heartbeat") for kinds in said.values())
    assert 2 not in again.learners[1].released
    assert 2 in again.learners[0].released
    np.testing.assert_allclose(again.bodies(), expected(RING, 5), rtol=1e-12)


@pytest.mark.slow
async def test_when_a_peer_falls_silent_the_others_finish_and_say_whom_they_lost(federation, tmp_path, until, silence):
    ours = federation("tcp", RING, rounds=6, out=tmp_path)
    ours.learners[3].hold = 2
    addresses = await ours.listen()
    silent = asyncio.create_task(ours.peers[3].serve(addresses))
    others = asyncio.create_task(ours.serve(addresses, [0, 1, 2]))
    await until(ours.learners[3].held.is_set)
    silence(ours.peers[3])
    found = outcomes(await others)
    assert "silent" in found[0].lost[3]
    assert "silent" in found[2].lost[3]
    assert found[1].lost == {}
    lines = [json.loads(line) for line in (tmp_path / "rank-0" / "metrics.jsonl").read_text().splitlines()]
    assert [line["missed"] for line in lines] == [[], [], [3], [3], [3], [3]]
    assert any("lost rank 3" in line for line in ours.logs[0])
    assert json.loads((tmp_path / "rank-0" / "summary.json").read_text())["lost"].keys() == {"3"}
    silent.cancel()
    await asyncio.gather(silent, return_exceptions=True)


async def test_the_weight_of_one_that_left_goes_to_the_diagonal(federation, kind, until):
    ours = federation(kind, RING, rounds=4)
    ours.learners[3].hold = 1
    running = asyncio.create_task(ours.run())
    await until(ours.learners[3].held.is_set)
    ours.peers[3].stop()
    found = await running
    assert found[3].completed_rounds == 1
    third = 1 / 3
    w = np.array([[2 / 3, third, 0], [third, third, third], [0, third, 2 / 3]])
    drift = np.array([[1.0], [2], [3]])
    x = np.array([[(1 + 2 + 4) / 3], [2.0], [3.0]])  # round 0 was with everybody: rank 3 had trained to 4
    for _ in range(3):
        x = w @ (0.9 * x + drift)
    np.testing.assert_allclose(ours.bodies()[:3, :1], x, rtol=1e-12)
    assert found[0].lost == found[2].lost == {3: "stopped"}, ours.logs


async def test_a_peer_whose_learner_fails_says_goodbye_and_the_others_finish(federation, kind):
    ours = federation(kind, RING, rounds=4)
    ours.learners[2].fail = 1
    found = await ours.run()
    assert str(found.pop(2)) == "the data went away"
    outcomes(found)
    assert found[1].lost == found[3].lost == {2: "failed"}


async def test_a_body_that_is_not_finite_is_left_out(federation, kind, tmp_path):
    ours = federation(kind, RING, rounds=3, out=tmp_path)
    ours.learners[1].poison = 1
    outcomes(await ours.run())
    for rank in (0, 2):
        lines = [json.loads(x) for x in (tmp_path / f"rank-{rank}" / "metrics.jsonl").read_text().splitlines()]
        assert lines[1]["missed"] == [1]
        summary = json.loads((tmp_path / f"rank-{rank}" / "summary.json").read_text())
        assert summary["dropped"]["not-finite"] >= 1
        assert np.isfinite(ours.learners[rank].body).all()
        assert sum("not-finite" in line for line in ours.logs[rank]) == 1


async def test_a_new_run_leaves_nothing_of_an_older_one_but_the_users_files(federation, kind, tmp_path):
    topology = build("ring", 2)
    outcomes(await federation(kind, topology, rounds=3, out=tmp_path).run())
    folder = tmp_path / "rank-0"
    (folder / "notes.txt").write_text("mine")
    (folder / "model.html").write_text("a page about the older model")
    again = federation(kind, topology, rounds=2, out=tmp_path)
    again.learners[1].hold = 0
    running = asyncio.create_task(again.run())
    while not again.learners[1].held.is_set():  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    assert not (folder / "model.safetensors").exists()
    assert not (folder / "model.json").exists()
    assert not (folder / "model.html").exists()
    assert not (folder / "summary.json").exists()
    again.learners[1].go.set()
    outcomes(await running)
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 2
    assert [path.name for path in (folder / "checkpoint").iterdir()] == ["round-00000001"]
    assert (folder / "notes.txt").read_text() == "mine"


async def test_two_peers_with_different_settings_both_say_so(federation, kind):
    ours = federation(kind, build("ring", 2), wait=10, change={1: {"fingerprint": {"body_lr": 0.1}}})
    found = await ours.run()
    assert isinstance(found[0], Refused)
    assert isinstance(found[1], Refused)
    assert "body_lr: 0.05 here, 0.1 at rank 1" in str(found[0])
    assert "body_lr: 0.1 here, 0.05 at rank 0" in str(found[1])


async def test_the_other_neighbors_are_told_with_whom_a_peer_cannot_train(federation, kind, until):
    ours = federation(kind, RING, change={1: {"fingerprint": {"body_lr": 0.1234}}})
    addresses = await ours.listen()
    said, third = [], ours.peers[3]
    for rank in (0, 2):

        def listening(link, frames, send=ours.transports[rank].send):
            said.append(msgpack.unpackb(frames[0]))
            return send(link, frames)

        ours.transports[rank].send = listening
    running = asyncio.create_task(ours.serve(addresses, [0, 2, 3]))
    await until(lambda: third.core.members.missing() == [])
    refused = (await ours.serve(addresses, [1]))[1]
    await until(lambda: has_failed(ours, 0) and has_failed(ours, 2))
    assert third.core.members.missing() == [0, 2]
    third.stop()
    found = await running
    assert "body_lr: 0.1234 here, 0.05 at rank" in str(refused)
    for rank in (0, 2):
        assert "body_lr: 0.05 here, 0.1234 at rank 1" in str(found[rank])
        told = f"rank {rank} says that it cannot train with rank 1: body_lr differs; " + AGAIN
        assert ours.logs[3].count(told) == 1
        assert ours.logs[3].index(told) < ours.logs[3].index(has_failed(ours, rank))
    apart = [message for message in said if message.get("apart_from") is not None]
    assert {(message["apart_from"], message["apart_because"]) for message in apart} == {(1, "body_lr differs")}


async def test_who_still_waits_says_why_and_trains_when_the_other_is_back(federation, kind, until, expected):
    topology = build("ring", 5)
    ours = federation(kind, topology, rounds=3, change={0: {"farewell": 0.01}, 1: {"fingerprint": {"body_lr": 0.1}}})
    addresses = await ours.listen()
    running = asyncio.create_task(ours.serve(addresses, [2, 3]))
    third = ours.peers[3]
    await until(lambda: third.core.members.missing() == [4])
    refused = asyncio.create_task(ours.serve(addresses, [0, 1]))
    await until(lambda: "waiting for ranks 2 (it cannot train with rank 1: body_lr differs), 4" in ours.logs[3])
    found = await refused
    assert all(isinstance(found[rank], Refused) for rank in (0, 1))
    await until(lambda: has_failed(ours, 2))
    for rank in (0, 1, 2):  # with settings put right
        ours.add(rank, listen=addresses[rank] if kind == "tcp" else None)
        await ours.peers[rank].listen()
    again = await ours.serve(addresses, [0, 1, 2, 4])
    outcomes(again)
    np.testing.assert_allclose(ours.bodies(), expected(topology, 3), rtol=1e-12)
    assert isinstance((await running)[2], Refused)
    assert third.core.members.lost == {}


async def test_who_is_refused_by_one_neighbor_stays_until_the_others_have_met_it(federation, kind, until):
    """Rank 0 comes when rank 2 has already turned rank 1 away."""
    gone_soon = {"farewell": 0.01}  # those whom nobody else will come to meet
    ours = federation(kind, build("ring", 5), change={0: gone_soon, 1: {"fingerprint": {"body_lr": 0.1}}, 2: gone_soon})
    addresses = await ours.listen()
    running = asyncio.create_task(ours.serve(addresses, [1, 2]))
    await until(lambda: ours.peers[1].core.handshake.apart)
    late = (await ours.serve(addresses, [0]))[0]
    assert "body_lr: 0.05 here, 0.1 at rank 1" in str(late)
    found = await running
    assert isinstance(found[1], Refused)
    assert isinstance(found[2], Refused)


async def test_a_kind_of_message_of_a_later_version_does_no_harm(federation, kind, expected):
    topology = build("ring", 3)
    ours = federation(kind, topology, rounds=3)
    send = ours.transports[0].send
    later = msgpack.packb({"kind": "dance", "rank": 0, "federation": b"f" * 16})
    ours.transports[0].send = lambda link, frames: send(link, [later]) and send(link, frames)
    outcomes(await ours.run())
    np.testing.assert_allclose(ours.bodies(), expected(topology, 3), rtol=1e-12)
    for rank in (1, 2):
        assert ours.peers[rank].core.drops.counts.keys() == {"malformed"}


async def test_a_strangers_setting_does_not_reach_the_terminal_as_it_is(federation, kind):
    ours = federation(kind, build("ring", 2), change={1: {"fingerprint": {"\x1b[2J": 1}}})
    found = await ours.run()
    assert str(found[0]).startswith("?[2J: 'not set' here, 1 at rank 1")


async def test_another_initial_body_is_refused_with_advice(federation, kind, vector_learner):
    ours = federation(kind, build("ring", 2), change={1: {"learner": vector_learner(1, digest="other")}})
    found = await ours.run()
    for rank in (0, 1):
        assert isinstance(found[rank], Refused)
        assert "before touching data" in str(found[rank])


async def test_a_second_process_with_a_rank_that_is_taken_is_refused(federation, kind, expected, until):
    topology = build("ring", 3)
    ours = federation(kind, topology, rounds=4)
    ours.learners[1].hold = 1
    addresses = await ours.listen()
    running = asyncio.create_task(ours.serve(addresses, [0, 1, 2]))
    await until(ours.learners[1].held.is_set)
    first = ours.learners[0]
    ours.add(0, listen="tcp://127.0.0.1:0" if kind == "tcp" else "inproc://second")
    await ours.peers[0].listen()
    with pytest.raises(Refused, match="another process already takes part as rank 0"):
        await ours.peers[0].serve(addresses)
    ours.learners[0] = first
    ours.learners[1].go.set()
    outcomes(await running)
    np.testing.assert_allclose(ours.bodies(), expected(topology, 4), rtol=1e-12)


async def test_who_does_not_come_is_named(federation, kind):
    ours = federation(kind, RING, wait=0.3)
    found = await ours.serve(await ours.listen(), [0, 1])
    assert isinstance(found[0], PeersMissing)
    assert str(found[0]).startswith("rank 3 did not appear within 0.3 s")
    # Rank 0 may have given up, and left, a moment earlier.
    assert str(found[1]).startswith(("rank 2 did not appear", "ranks 0, 2 did not appear"))
    assert any(line == "waiting for rank 3" for line in ours.logs[0])


async def test_a_peer_that_restarts_quickly_takes_its_place_again(federation, tmp_path, expected, until, kill):
    ours = federation("tcp", RING, rounds=6, out=tmp_path)
    ours.learners[3].hold = 3
    addresses = await ours.listen()
    others = asyncio.create_task(ours.serve(addresses, [0, 1, 2]))
    crashed = asyncio.create_task(ours.peers[3].serve(addresses))
    await until(ours.learners[3].held.is_set)
    await kill(ours.peers[3], ours.transports[3], crashed)
    ours.made[3].interrupt()
    ours.add(3, out=tmp_path, resume=True, listen=addresses[3])
    await ours.peers[3].listen()
    outcome = await ours.peers[3].serve(addresses)
    assert outcome.completed_rounds == 6
    outcomes(await others)
    np.testing.assert_allclose(ours.bodies(), expected(RING, 6), rtol=1e-12)


async def test_a_checkpoint_of_another_run_is_refused(federation, kind, tmp_path):
    first = federation(kind, RING, rounds=2, out=tmp_path)
    outcomes(await first.run())
    change = {rank: {"fingerprint": {"body_lr": 0.2}} for rank in range(4)}
    again = federation(kind, RING, rounds=4, out=tmp_path, resume=True, change=change)
    for peer in again.peers.values():
        with pytest.raises(CheckpointError, match=r"body_lr is 0\.05 there and 0\.2 here"):
            await peer.listen()
    assert len((tmp_path / "rank-0" / "metrics.jsonl").read_text().splitlines()) == 2


async def test_fewer_rounds_than_completed_and_a_missing_checkpoint_are_refused(federation, kind, tmp_path):
    outcomes(await federation(kind, RING, rounds=3, out=tmp_path).run())
    fewer = federation(kind, RING, rounds=2, out=tmp_path, resume=True)
    with pytest.raises(CheckpointError, match="completed 3 rounds, more than --rounds 2"):
        await fewer.peers[0].listen()
    shutil.rmtree(tmp_path / "rank-1" / "checkpoint")
    with pytest.raises(CheckpointError, match="no checkpoint exists"):
        await fewer.peers[1].listen()
    assert len((tmp_path / "rank-1" / "metrics.jsonl").read_text().splitlines()) == 3


@pytest.mark.slow
async def test_a_silence_that_both_ends_survive_does_not_hang(federation, tmp_path, until):
    """Two neighbors take each other for dead in the middle of a round, then hear each other again."""
    topology = build("ring", 2)
    ours = federation("inprocess", topology, rounds=5, out=tmp_path)
    for learner in ours.learners.values():
        learner.hold = 2
    transports = ours.transports.values()
    running = asyncio.create_task(ours.run())
    await until(lambda: all(learner.held.is_set() for learner in ours.learners.values()))
    real = {transport: transport.send for transport in transports}
    for transport in transports:
        transport.send = lambda link, frames: True  # swallowed by the network
    await until(lambda: not any(ours.peers[rank].core.members.reachable(1 - rank) for rank in (0, 1)))
    # Both release while each counts the other as dead; both hear each other again before either has collected.
    evaluate = ours.learners[0].evaluate
    gates: list[None] = []
    heard = threading.Event()

    def slow_evaluate():
        gates.append(None)
        assert heard.wait(100)
        return evaluate()

    for learner in ours.learners.values():
        learner.evaluate = slow_evaluate
        learner.go.set()
    await until(lambda: len(gates) >= 2)
    for transport in transports:
        transport.send = real[transport]
    await until(lambda: all(ours.peers[rank].core.members.reachable(1 - rank) for rank in (0, 1)))
    heard.set()
    outcomes(await running)


@pytest.mark.slow
async def test_one_that_slept_far_too_long_sits_out_what_it_missed_and_goes_on_with_the_others(
    federation, tmp_path, until
):
    ours = federation("inprocess", RING, rounds=120, out=tmp_path)
    sleeper = ours.learners[3]
    sleeper.hold = 2
    running = asyncio.create_task(ours.run())
    await until(lambda: sleeper.held.is_set())
    transport = ours.transports[3]
    send, transport.send = transport.send, lambda link, frames: Sent.TAKEN
    others = [ours.peers[rank] for rank in (0, 2)]
    await until(lambda: not any(peer.core.members.current_round < 10 for peer in others))
    at_wake = ours.peers[0].core.members.current_round
    transport.send = send
    sleeper.go.set()
    outcomes(await running)
    first = sleeper.sat_out[0]
    assert first <= 4
    # (Such short rounds can get away from it once more, before the others know that it is back.)
    assert {*range(first, at_wake - 1)} <= {*sleeper.sat_out}
    assert [*sleeper.released] == [number for number in range(120) if number not in sleeper.sat_out]
    lines = [json.loads(line) for line in (tmp_path / "rank-3" / "metrics.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines if not line["active"]] == sleeper.sat_out
    assert any(line["heard"] for line in lines[sleeper.sat_out[-1] + 1 :]) or sleeper.sat_out[-1] == 119
    assert json.loads((tmp_path / "rank-3" / "summary.json").read_text())["left_behind"] == len(sleeper.sat_out)
    assert any("went on without this peer" in line for line in ours.logs[3])
    assert any(line.startswith("sat out rounds") for line in ours.logs[3])


async def test_strangers_on_the_port_have_no_effect(federation, expected, tmp_path, until):
    ours = federation("tcp", RING, rounds=5, out=tmp_path)
    ours.learners[1].hold = 2
    addresses = await ours.listen()
    running = asyncio.create_task(ours.serve(addresses))
    await until(ours.learners[1].held.is_set)
    context = zmq.Context()
    federation_id = wire.federation_id({"size": 4, "body_lr": 0.05})
    poison = np.full(5, 1e6).tobytes()
    nonsense = [
        [b"GET / HTTP/1.1\r\n"],
        [b"\xc1" * 50, b"x" * 30],
        [msgpack.packb({"kind": "hello"})],
        wire.encode(wire.body(federation_id, 0, 2, [poison])),
        wire.encode(wire.Goodbye(rank=0, federation=federation_id, reason="stopped")),
        wire.encode(wire.Hello(rank=0, next_round=2, fingerprint={"size": 5}, manifest={}, digest="")),
        [b"h", b"x" * 10_000],
        [b"z"] * 6000,
    ]
    strangers = []
    for message in nonsense:
        stranger = context.socket(zmq.DEALER)
        stranger.connect(addresses[2])
        stranger.send_multipart(message)
        strangers.append(stranger)
    _raw_reader, raw = await asyncio.open_connection("127.0.0.1", int(addresses[2].rpartition(":")[2]))
    raw.write(b"\x00\xff" * 5000)
    await until(lambda: sum(ours.peers[2].core.drops.counts.values()) >= len(nonsense))
    ours.learners[1].go.set()
    outcomes(await running)
    np.testing.assert_allclose(ours.bodies(), expected(RING, 5), rtol=1e-12)
    dropped = json.loads((tmp_path / "rank-2" / "summary.json").read_text())["dropped"]
    assert dropped.keys() >= {"malformed", "stranger", "oversized", "mismatch"}
    raw.close()
    for stranger in strangers:
        stranger.close(linger=0)
    context.term()


async def test_local_peers_need_nobody(federation, kind):
    from dpeer.topology import Isolated

    ours = federation(kind, Isolated(3), rounds=2)
    for learner in ours.learners.values():
        learner.release = lambda number: None
    outcomes(await ours.run())
    np.testing.assert_allclose(ours.bodies()[:, 0], [1.9, 3.8, 5.7])


async def test_without_heartbeats_everything_works_in_process(federation, expected):
    ours = federation("inprocess", RING, rounds=4, liveness=LivenessConfig(heartbeat=0))
    outcomes(await ours.run())
    np.testing.assert_allclose(ours.bodies(), expected(RING, 4), rtol=1e-12)
