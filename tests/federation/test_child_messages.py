"""Messages between a launcher and its peers: whole, in order, and waited for by nobody."""

import asyncio
import socket

import pytest

from dpeer.federation import child_messages as module
from dpeer.federation.child_messages import Channel
from dpeer.federation.cluster_child import Reports
from dpeer.federation.launcher import Launcher, Member
from dpeer.federation.settings import Settings
from dpeer.federation.view import View
from dpeer.results.files import METRICS


@pytest.fixture
async def pair():
    ours, theirs = socket.socketpair()
    made = [Channel(ours), Channel(theirs)]
    yield made
    for one in made:
        one.close()


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(module, "MOST", 2000)


@pytest.mark.slow
async def test_messages_of_any_size_come_whole_and_in_order(pair):
    one, other = pair
    sent = [{"kind": "x", "text": "é\n" * size} for size in (0, 1, 10**6, 3)]
    for message in sent:
        one.send(message)
    assert [await other.receive() for _ in sent] == sent
    await one.sent()


async def test_an_end_that_is_not_read_is_not_waited_for_and_gets_what_matters_when_it_reads_again():
    ours, theirs = socket.socketpair()
    one = Channel(ours)
    offered = 0
    while one.offer({"kind": "record", "number": offered, "text": "x" * 10_000}):
        offered += 1
    one.send({"kind": "end"})
    unsent = asyncio.ensure_future(one.sent())
    await asyncio.sleep(0)
    assert not unsent.done()
    other = Channel(theirs)  # somebody reads
    came = [await other.receive() for _ in range(offered + 1)]
    assert [message["number"] for message in came[:-1]] == [*range(offered)]
    assert came[-1] == {"kind": "end"}
    await unsent
    one.close()
    assert await other.receive() is None
    assert await other.receive() is None
    other.close()


async def test_who_has_gone_is_heard_to_the_end_and_told_nothing_more(pair):
    one, other = pair
    other.send({"kind": "error", "message": "why"})
    other.close()
    one.send({"kind": "stop"})
    await one.sent()
    assert await one.receive() == {"kind": "error", "message": "why"}
    assert await one.receive() is None


async def test_a_launcher_that_did_not_read_takes_the_rounds_it_lacks_from_the_peers_file(tmp_path, small):
    rounds, shown = 200, []

    class Shown(View):
        def record(self, rank, entry):
            shown.append((rank, entry["round"]))

    class Ended:
        exitcode = 0

        def join(self):
            pass

    folder = tmp_path / "rank-1"
    folder.mkdir()
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # as little as the system allows
    child = Channel(theirs)
    reports = Reports(child)
    reports.tell({"kind": "connected"})
    offers, offer = [], child.offer

    def noted(message):
        offers.append(offer(message))
        return offers[-1]

    child.offer = noted
    with (folder / METRICS).open("w") as file:
        for number in range(rounds):
            file.write(f'{{"round": {number}}}\n')
            reports.tell({"kind": "record", "entry": {"round": number, "text": "x" * 500}})
    assert offers[0]
    assert not offers[-1]
    reports.end({"kind": "end", "status": "done"})

    launcher = Launcher(Settings(size=2, out=tmp_path), Shown(), resume=False)
    member = Member(1, Ended(), Channel(ours), asyncio.get_running_loop().create_future())
    relay = asyncio.create_task(launcher.relay(member))
    await child.sent()
    child.close()
    await relay
    assert shown == [(1, number) for number in range(rounds)]
    assert member.status == "done"
