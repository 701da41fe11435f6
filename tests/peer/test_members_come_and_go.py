"""Members come and go over real sockets: what an operator's epoch does to connections, keys, bodies and files."""

import asyncio

import numpy as np
import pytest

from dpeer.exceptions import PeersMissing, Refused
from dpeer.peer import Limits, ZeroMQTransport
from dpeer.peer.core import wire
from dpeer.peer.core.epoch import EpochGraph, EpochSetup, Member, SignedEpoch, Void, first_epoch, operator_of, successor
from dpeer.peer.transport import Unreachable
from dpeer.peer.transports import Keyring
from dpeer.peer.transports.curve import new_secret, public_of
from dpeer.topology import Relabeled, build
from tests.peer.conftest import done, lines

pytestmark = pytest.mark.slow

SECRET = bytes(range(32))
GRAPH = EpochGraph(settings={"topology": "ring"}, edges="0" * 16)
SIZE, ROUNDS, HANDED, BEGINS = 4, 14, 3, 9
"""An epoch that rank 0 is handed in round 3 may begin with round 8: the diameter is 2."""


def first(rounds=ROUNDS):
    return first_epoch("0" * 64, size=SIZE, operators=[operator_of(SECRET)], signers=1, graph=GRAPH, rounds=rounds)


def after(previous, begins=BEGINS, **changes):
    return successor(previous, begins=begins, graph=GRAPH, **changes)


def signed(epoch):
    return SignedEpoch(epoch=epoch).signed_with(SECRET).encode()


def ring_of(epoch):
    return Relabeled(build("ring", len(epoch.members)), epoch.ranks)


@pytest.fixture(params=["tcp", "keys"])
def kind(request):
    """Sockets without keys, and with them."""
    return request.param


@pytest.fixture
def changing(federation, kind):
    """Make a ring of four that an operator can change, and that stands still in a round."""

    def make(held=(HANDED,), **options):
        ours = federation(kind, build("ring", SIZE), rounds=ROUNDS, epochs=EpochSetup(first(), ring_of), **options)
        ours.learners[0].hold = held[0]
        return ours

    return make


def joiner(ours, rank=SIZE, **options):
    """A peer that no epoch lists yet, with a key that no member knows; gives its public key, if it has one."""
    keyring = None
    if ours.keyrings:
        secret = new_secret()
        keyring = Keyring(secret, {**ours.keyrings[0].listed, rank: (public_of(secret),)})
    ours.add(rank, keyring=keyring, **options)
    return () if keyring is None else (keyring.public.hex(),)


async def running(ours, until, ranks=range(SIZE)):
    """The first members run until rank 0 stands still; gives their task."""
    addresses = await ours.listen()
    task = asyncio.create_task(ours.serve(addresses, [*ranks]))
    await until(ours.learners[0].held.is_set)
    return task


def numbers(ours, ranks):
    """The epoch that each of these ranks is in."""
    return [ours.peers[rank].core.epochs.chain.current.number for rank in ranks]


def trained(rank, body):
    return 0.9 * body + rank + 1


def in_numbers(rounds, epochs, heard=()):
    """The bodies by rank after all rounds, by the recursion; epochs: (first round, members).

    A joiner takes the mean of the bodies that it has heard of those released in the round before its entry.
    """
    bodies = dict.fromkeys(epochs[0][1], 0.0)
    released = {}
    for number in range(rounds):
        members = next(ranks for begins, ranks in reversed(epochs) if begins <= number)
        weights = build("ring", len(members)).weights
        for rank in members:
            if rank not in bodies:
                bodies[rank] = sum(released[other] for other in heard) / len(heard)
        released = {rank: trained(rank, bodies[rank]) for rank in members}
        mixed = weights @ np.array([released[rank] for rank in members])
        bodies |= dict(zip(members, mixed, strict=True))
    return bodies


async def test_one_joins_and_another_leaves_in_the_same_round(changing, until, tmp_path):
    """The joiner is there before its epoch is handed over: until then it is a stranger."""
    ours = changing()
    keys = joiner(ours, out=tmp_path)
    task = await running(ours, until)
    late = asyncio.create_task(ours.serve(ours.addresses, [SIZE]))
    if keys:
        await until(lambda: any("does not take the key of this peer" in line for line in ours.logs[SIZE]))
    else:
        await until(lambda: sum(ours.peers[rank].core.drops.counts.total() for rank in range(SIZE)) >= SIZE)
    epoch = after(first(), join={SIZE: Member(keys=keys)}, leave=[1])
    assert ours.peers[0].driver.hand(signed(epoch)) is None
    near = [ours.peers[rank].core.members for rank in (0, 3)]
    await until(lambda: all(SIZE in members and members.is_there(SIZE) for members in near))
    ours.learners[0].go.set()
    found = {**await task, **await late}
    left = found.pop(1)
    done(found)
    assert (left.status, left.completed_rounds) == ("left", BEGINS)
    assert numbers(ours, range(SIZE + 1)) == [1] * 5
    assert (min(ours.learners[SIZE].released), ours.learners[SIZE].adopted) == (BEGINS, [BEGINS - 1])
    before = next(line for line in lines(tmp_path, SIZE) if line["round"] == BEGINS - 1)
    assert before["adopted"]
    assert {*before["heard"]} <= {0, 3}
    expected = in_numbers(ROUNDS, [(0, (0, 1, 2, 3)), (BEGINS, (0, 2, 3, 4))], before["heard"])
    for rank, body in expected.items():
        np.testing.assert_allclose(ours.learners[rank].body, body, rtol=1e-12)


async def test_what_speaks_for_an_evicted_member_is_a_stranger(changing, until, kind):
    ours = changing()
    ours.learners[2].hold = BEGINS + 1
    task = await running(ours, until)
    assert ours.peers[0].driver.hand(signed(after(first(), evict=[3]))) is None
    ours.learners[0].go.set()
    await until(ours.learners[2].held.is_set)
    core = ours.peers[0].core
    await until(lambda: 3 not in core.members)
    speaker = ZeroMQTransport(Limits(payload_bytes=1000), keyring=ours.keyring(3))
    link = speaker.dial(ours.addresses[0], 0)
    event = await speaker.receive()
    if kind == "keys":
        assert isinstance(event, Unreachable)
        assert "does not take the key of this peer" in event.reason
    else:
        learner = ours.learners[3]
        hello = wire.Hello(
            rank=3, next_round=BEGINS, fingerprint=ours.peers[0].config.fingerprint, manifest=learner.manifest,
            digest=learner.digest,
        )  # fmt: skip
        speaker.send(link, wire.encode(hello))
        await until(lambda: core.drops.counts["not-a-neighbor"])
    await speaker.close(0)
    ours.learners[2].go.set()
    found = await task
    assert (found[3].status, found.pop(3).completed_rounds) == ("evicted", BEGINS)
    done(found)
    assert numbers(ours, range(SIZE)) == [1] * SIZE
    for rank, body in in_numbers(ROUNDS, [(0, (0, 1, 2, 3)), (BEGINS, (0, 1, 2))]).items():
        np.testing.assert_allclose(ours.learners[rank].body, body, rtol=1e-12)


async def test_of_two_epochs_of_one_number_none_begins_and_the_next_one_goes_on(changing, until):
    """An operator's key was used twice, and each document is handed to a peer that has not heard of the other."""
    ours = changing()
    ours.learners[2].hold = HANDED
    task = await running(ours, until)
    await until(ours.learners[2].held.is_set)
    twins = [after(first(), leave=[rank]) for rank in (1, 3)]
    for rank, twin in zip((0, 2), twins, strict=True):
        assert ours.peers[rank].driver.hand(signed(twin)) is None
    said = "epoch 1 does not begin: two epochs of this number are signed"
    await until(lambda: all(any(said in line for line in ours.logs[rank]) for rank in range(SIZE)))
    for rank in range(SIZE):
        chain = ours.peers[rank].core.epochs.chain
        assert chain.pending is None
        assert chain.void == sorted(twins, key=lambda twin: twin.digest)
    healed = after(first(), leave=[3], void=[Void(1, twin.digest) for twin in twins])
    assert ours.peers[1].driver.hand(signed(healed)) is None
    for rank in (0, 2):
        ours.learners[rank].go.set()
    found = await task
    assert found.pop(3).status == "left"
    done(found)
    assert numbers(ours, range(SIZE)) == [2] * SIZE
    for rank, body in in_numbers(ROUNDS, [(0, (0, 1, 2, 3)), (BEGINS, (0, 1, 2))]).items():
        np.testing.assert_allclose(ours.learners[rank].body, body, rtol=1e-12)


async def test_stopped_after_a_change_and_resumed_all_have_the_bits_of_a_run_without_a_stop(changing, until, tmp_path):
    ours = changing(out=tmp_path)
    ours.learners[2].hold = BEGINS + 2
    task = await running(ours, until)
    assert ours.peers[0].driver.hand(signed(after(first(), leave=[1]))) is None
    ours.learners[0].go.set()
    await until(ours.learners[2].held.is_set)
    for rank in (0, 3, 2):
        ours.peers[rank].stop()
    found = await task
    assert found.pop(1).status == "left"
    done(found, "stopped")
    again = changing(held=(None,), out=tmp_path, resume=True)
    again.peers.pop(1)
    done(await again.run())
    assert numbers(again, (0, 2, 3)) == [1] * 3
    expected = in_numbers(ROUNDS, [(0, (0, 1, 2, 3)), (BEGINS, (0, 2, 3))])
    for rank in (0, 2, 3):
        np.testing.assert_allclose(again.learners[rank].body, expected[rank], rtol=1e-12)
        assert [line["round"] for line in lines(tmp_path, rank)] == [*range(ROUNDS)]
        assert all(line["missed"] == [] for line in lines(tmp_path, rank))


async def test_who_is_resumed_after_a_change_that_it_missed_gets_it_from_its_neighbors(changing, until, tmp_path):
    ours = changing(out=tmp_path)
    ours.learners[2].hold, ours.learners[3].hold = HANDED, BEGINS + 1
    addresses = await ours.listen()
    missing = asyncio.create_task(ours.peers[2].serve(addresses))
    task = asyncio.create_task(ours.serve(addresses, [0, 1, 3]))
    await until(lambda: all(ours.learners[rank].held.is_set() for rank in (0, 2)))
    ours.peers[2].stop()
    assert (await missing).status == "stopped"
    assert ours.peers[0].driver.hand(signed(after(first(), leave=[1]))) is None
    ours.learners[0].go.set()
    await until(ours.learners[3].held.is_set)
    ours.add(2, out=tmp_path, resume=True, listen=ours.addresses[2])
    await ours.peers[2].listen()
    assert numbers(ours, [2]) == [0]
    back = asyncio.create_task(ours.peers[2].serve(ours.addresses))
    near = [ours.peers[rank].core.members[2] for rank in (0, 3)]
    # It adopts before rank 3 goes on, or needs a body of that round, and has announced a later one.
    # Where the disk is slow, its entry may lie behind the end: it adopts in the last round then.
    await until(lambda: ours.learners[2].adopted or all(one.enters > BEGINS + 1 for one in near))
    ours.learners[3].go.set()
    found = {**await task, 2: await back}
    assert found.pop(1).status == "left"
    done(found)
    assert numbers(ours, (0, 2, 3)) == [1] * 3
    last = lines(tmp_path, 2)[-1]
    assert (last["active"] or last["adopted"], last["heard"]) == (True, [0, 3])
    assert (tmp_path / "rank-2" / "epochs" / "chain.json").exists()


async def test_a_joiner_with_another_key_than_its_epoch_lists_holds_nothing_up(federation, until):
    ours = federation("keys", build("ring", SIZE), rounds=ROUNDS, epochs=EpochSetup(first(), ring_of))
    ours.learners[0].hold = HANDED
    joiner(ours)
    task = await running(ours, until)
    late = asyncio.create_task(ours.serve(ours.addresses, [SIZE]))
    listed = public_of(new_secret()).hex()
    assert ours.peers[0].driver.hand(signed(after(first(), join={SIZE: Member(keys=(listed,))}))) is None
    ours.learners[0].go.set()
    done(await task)
    assert numbers(ours, range(SIZE)) == [1] * SIZE
    await until(lambda: any("does not take the key of this peer" in line for line in ours.logs[SIZE]))
    ours.peers[SIZE].stop()
    done(await late, "stopped")
    assert ours.learners[SIZE].released == {}


async def test_a_joiner_with_the_file_of_another_federation_is_refused_with_the_reason(changing, until):
    ours = changing()
    ours.epochs = EpochSetup(first(), ring_of)
    keys = joiner(ours, fingerprint={"body_lr": 0.1})
    task = await running(ours, until)
    late = asyncio.create_task(ours.serve(ours.addresses, [SIZE]))
    assert ours.peers[0].driver.hand(signed(after(first(), join={SIZE: Member(keys=keys)}))) is None
    (refused,) = (await late).values()
    assert isinstance(refused, Refused)
    assert "body_lr" in str(refused)
    ours.learners[0].go.set()
    done(await task)
    assert numbers(ours, range(SIZE)) == [1] * SIZE


async def test_a_joiner_that_no_epoch_lists_says_so(changing, until):
    ours = changing()
    joiner(ours, wait=0.2)
    task = await running(ours, until)
    (missing,) = (await ours.serve(ours.addresses, [SIZE])).values()
    assert isinstance(missing, PeersMissing)
    ours.learners[0].go.set()
    done(await task)
