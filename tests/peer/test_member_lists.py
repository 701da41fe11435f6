"""Member lists over real sockets, on disk, and at the control socket."""

import asyncio
import json
import time
from dataclasses import replace

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.peer.config import ListsConfig
from dpeer.peer.core.member_list import Former, Member, MemberList, MemberListError, Signers
from dpeer.peer.member_files import read_lists, write_lists
from dpeer.peer.transports import Keyring
from dpeer.peer.transports.curve import new_secret, public_of
from dpeer.results.files import MEMBERS
from dpeer.topology import build
from tests.peer.conftest import VectorLearner, done
from tests.peer.core.test_member_list import OPERATORS

ROUNDS = 60
SIGNERS = Signers((OPERATORS[0].public_key().public_bytes_raw().hex(),))


def zero(size):
    return MemberList("ab" * 32, 0, b"", {rank: Member() for rank in range(size)}, {}, ROUNDS, "full", "")


def config_of(first, given=None):
    return ListsConfig(first, SIGNERS, lambda one: build(one.graph, len(one.members)), given)


def slow(rank):
    """A learner whose rounds take a while."""
    learner = VectorLearner(rank)
    learner.on_train = lambda number: time.sleep(0.02)
    return learner


def signed(before, **changes):
    how = {"version": before.version + 1, "previous": before.digest}
    return replace(before, signatures={}, **(how | changes)).signed(OPERATORS[0])


async def ask(peer, **request):
    return dict(peer.requests["members"](request))


async def test_a_newcomer_joins_and_a_member_leaves_while_rounds_run(federation, tmp_path, until):
    first = zero(3)
    ours = federation(
        "keys",
        build("full", 3),
        rounds=ROUNDS,
        out=tmp_path,
        change={rank: {"lists": config_of(first), "learner": slow(rank)} for rank in range(3)},
    )
    addresses = await ours.listen()
    running = asyncio.ensure_future(ours.serve(addresses))
    await until(lambda: ours.peers[0].core.members.current_round >= 3)

    secret = new_secret()
    keys = {rank: tuple(key.hex() for key in ours.keyrings[0].listed[rank]) for rank in range(3)}
    members = {rank: Member(addresses[rank], keys[rank]) for rank in range(3)}
    one = signed(first, members={**members, 3: Member(None, (public_of(secret).hex(),))}, graph="ring")
    answer = await ask(ours.peers[0], members="hand", list=one.document)
    assert answer == {"taken": True, "why": ""}
    assert (await ask(ours.peers[0], members="hand", list=one.document))["taken"] is False
    listed = Keyring(secret, {**ours.keyrings[0].listed, 3: (public_of(secret),)})
    ours.add(3, out=tmp_path, lists=config_of(first, one), learner=slow(3), keyring=listed)
    await ours.peers[3].listen()
    joins = asyncio.ensure_future(ours.peers[3].serve(addresses))
    await until(lambda: ours.learners[3].released)
    shown = await ask(ours.peers[1], members="show")
    assert (shown["list"]["version"], shown["next"], shown["rank"]) == (1, None, 1)
    assert shown["stamps"]["3"] == [[1, one.digest.hex()], None]
    assert shown["living"] == [0, 1, 2, 3]

    gone = {2: Former(one.members[2].keys, "left")}
    two = signed(one, members={rank: one.members[rank] for rank in (0, 1, 3)}, former=gone)
    assert (await ask(ours.peers[1], members="hand", list=two.document))["taken"]
    found = await running
    done({rank: found[rank] for rank in (0, 1)})
    assert found[2].status == "left"
    done({3: await joins})
    said = [line.rpartition("; ")[2] for line in ours.logs[3] if line.startswith("member list ")]
    # It has dialled all members; its neighbors are those that the graph gives it.
    assert "members 0, 1, 2, 3, 60 rounds, ring (neighbors 0, 2)" in said
    assert not any(line.startswith("connected to ") for line in ours.logs[3])
    for rank in (0, 1, 3):
        assert read_lists(tmp_path / f"rank-{rank}") == (two, None)
    assert json.loads((tmp_path / "rank-2" / "summary.json").read_text())["status"] == "left"


async def test_a_peer_takes_up_the_lists_on_its_disk(federation, tmp_path):
    first = zero(2)
    one = signed(first, rounds=4)
    for rank in range(2):
        (tmp_path / f"rank-{rank}").mkdir()
        write_lists(tmp_path / f"rank-{rank}", one, None)
    change = {rank: {"lists": config_of(replace(first, rounds=3))} for rank in range(2)}
    ours = federation("inprocess", build("full", 2), rounds=3, out=tmp_path, resume=True, change=change)
    assert {rank: outcome.completed_rounds for rank, outcome in done(await ours.run()).items()} == {0: 4, 1: 4}


async def test_a_peer_that_has_lost_its_lists_goes_on_past_the_rounds_of_list_0(federation, tmp_path):
    first = zero(2)
    one = signed(first, rounds=5)
    two = signed(one, rounds=7)
    change = {rank: {"lists": config_of(replace(first, rounds=3))} for rank in range(2)}
    for lists, rounds in ((one, 5), (two, 7)):
        for rank in range(2):
            (tmp_path / f"rank-{rank}").mkdir(exist_ok=True)
            write_lists(tmp_path / f"rank-{rank}", lists, None)
        if lists is two:
            (tmp_path / "rank-1" / MEMBERS).unlink()
        ours = federation("inprocess", build("full", 2), rounds=3, out=tmp_path, resume=True, change=change)
        found = done(await ours.run())
        assert {rank: outcome.completed_rounds for rank, outcome in found.items()} == {0: rounds, 1: rounds}


def test_a_file_of_lists_is_read_as_it_was_written(tmp_path):
    assert read_lists(tmp_path) == (None, None)
    first = zero(3)
    one = signed(first)
    write_lists(tmp_path, first, one)
    counts, waits = read_lists(tmp_path)
    assert (counts, waits, waits.signatures) == (None, one, one.signatures)
    write_lists(tmp_path, one, None)
    assert read_lists(tmp_path) == (one, None)


def test_a_file_of_lists_that_the_system_does_not_give_is_not_damaged(tmp_path):
    (tmp_path / MEMBERS).mkdir()
    with pytest.raises(MemberListError, match=r"members\.json' cannot be read: Is a directory$"):
        read_lists(tmp_path)


@pytest.mark.parametrize(
    "content", ["", "{}", '{"list": 3, "next": null}', '{"list": {"version": 1}, "next": null}', "[" * 9999]
)
def test_a_damaged_file_of_lists_is_named(tmp_path, content):
    (tmp_path / MEMBERS).write_text(content)
    with pytest.raises(MemberListError, match=r"members\.json' is damaged .* put back a copy, or remove it"):
        read_lists(tmp_path)


async def test_a_request_that_is_none_and_a_run_without_lists_are_refused(federation):
    ours = federation("inprocess", build("full", 2), change={0: {"lists": config_of(zero(2))}})
    with pytest.raises(ConfigurationError, match="members = 'steal': expected show, or hand"):
        await ask(ours.peers[0], members="steal")
    assert "damaged" in (await ask(ours.peers[0], members="hand", list=3))["why"]
    with pytest.raises(ConfigurationError, match="rank 1: the federation file lists no operators"):
        await ask(ours.peers[1], members="show")
