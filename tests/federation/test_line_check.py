"""Lines of `dpeer check --connect`, over real sockets of loopback: how far each comes, and where it ends."""

import asyncio
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from line_emulator import free_ports

from dpeer.federation import line_check
from dpeer.federation.findings import Findings, Level
from dpeer.federation.line_check import Line, Lines, check_lines
from dpeer.federation.settings import Settings
from dpeer.federation.starting import Starting
from dpeer.peer.core import wire
from dpeer.peer.transport import Arrival, Broken, Opened, Sent
from dpeer.peer.transports.curve import new_secret, public_of
from tests.peer.intermediaries import Running, listed

Found = dict[str, tuple[Level, str]]

SHORT = 0.5
"""Seconds for what does not come."""

ENOUGH = 30.0
"""Seconds for what comes; nothing waits for their end."""


class Sites:
    """Some ranks of a ring, each with a secret of its own; beyond two they only dial out."""

    def __init__(self, folder: Path, size: int = 3, *, keys: bool = True) -> None:
        self.size = size
        self.secrets = [new_secret() for _ in range(size)]
        self.ports = free_ports(2)
        self.ranks: dict[int, dict[str, Any]] = {
            rank: {"address": f"tcp://127.0.0.1:{self.ports[rank]}"} if rank < 2 else {} for rank in range(size)
        }
        self.files = [folder / f"{rank}.secret" for rank in range(size)]
        for rank, file in enumerate(self.files):
            file.write_text(self.secrets[rank].hex())
            file.chmod(0o600)
            if keys:
                self.ranks[rank]["key"] = public_of(self.secrets[rank]).hex()
        self.keys = keys

    def starting(self, rank: int, changed: Mapping[int, Mapping[str, Any]] | None = None, **more: Any) -> Starting:
        """A rank with its own file, in which other ranks may have other values."""
        ranks = {one: {**own, **(changed or {}).get(one, {})} for one, own in self.ranks.items()}
        given = {"secret": self.files[rank]} if self.keys else {}
        settings = Settings.model_validate({"size": self.size, "rank": ranks, **given, **more})
        return Starting(settings, rank)


@pytest.fixture
def sites(tmp_path: Path) -> Sites:
    return Sites(tmp_path)


async def looked(starting: Starting, within: float) -> Found:
    findings = Findings()
    await check_lines(findings, starting, within)
    assert len({one.check for one in findings.all}) == len(findings.all)
    return {one.check: (one.level, one.text) for one in findings.all}


def levels(found: Found) -> dict[str, str]:
    return {check: level.value for check, (level, _) in found.items()}


def test_all_that_check_at_once_see_each_other_in_both_directions(sites: Sites) -> None:
    async def all_three() -> list[Found]:
        return await asyncio.gather(*(looked(sites.starting(rank), ENOUGH) for rank in range(3)))

    found = asyncio.run(all_three())
    assert [levels(one) for one in found] == [
        {"port": "PASS", "rank 1": "PASS", "rank 2": "PASS"},
        {"port": "PASS", "rank 0": "PASS", "rank 2": "PASS"},
        {"port": "PASS", "rank 0": "PASS", "rank 1": "PASS"},
    ]
    assert "both keys are accepted, and long messages pass in both directions" in found[0]["rank 1"][1]
    assert "proved its key, and long messages pass in both directions" in found[0]["rank 2"][1]


def test_a_site_that_is_alone_is_warned_and_has_failed_at_nothing(sites: Sites) -> None:
    found = asyncio.run(looked(sites.starting(0), SHORT))
    assert levels(found) == {"port": "PASS", "rank 1": "WARN", "rank 2": "WARN"}
    assert "no TCP connection: port" in found["rank 1"][1]
    assert "(Connection refused)" in found["rank 1"][1]
    assert "it dials this peer at tcp://127.0.0.1:" in found["rank 2"][1]


@pytest.fixture
def pair(tmp_path: Path) -> Sites:
    """Two ranks, of which rank 0 dials."""
    return Sites(tmp_path, 2)


def two(here: Starting, there: Starting) -> tuple[Found, Found]:
    """What rank 0 finds in which something is wrong, and rank 1 that it dials."""

    async def both() -> tuple[Found, Found]:
        return await asyncio.gather(looked(here, ENOUGH), looked(there, 2.0))

    return asyncio.run(both())


def test_another_key_at_the_neighbor_fails(pair: Sites) -> None:
    wrong = {1: {"key": public_of(new_secret()).hex()}}
    here, _ = two(pair.starting(0, wrong), pair.starting(1))
    level, text = here["rank 1"]
    assert level is Level.FAIL
    assert "TCP is there, and no key is accepted: the listener there does not prove the key" in text


def test_a_neighbor_that_does_not_list_this_key_fails_and_sees_a_stranger(pair: Sites) -> None:
    wrong = {0: {"key": public_of(new_secret()).hex()}}
    here, there = two(pair.starting(0), pair.starting(1, wrong))
    assert here["rank 1"][0] is Level.FAIL
    assert "it does not take the key of this peer" in here["rank 1"][1]
    assert there["rank 0"][0] is Level.WARN
    assert "from 127.0.0.1 showed a key that is not listed here" in there["strangers"][1]


def test_a_listener_that_is_no_dpeer_fails(sites: Sites) -> None:
    with socket.create_server(("127.0.0.1", sites.ports[1])):  # accepts, and stays silent
        found = asyncio.run(looked(sites.starting(0), SHORT))
    level, text = found["rank 1"]
    assert level is Level.FAIL
    assert "TCP is there, and no key is accepted: what listens there has not shown to be dpeer" in text


def test_a_port_that_is_taken_ends_the_check_of_lines(sites: Sites) -> None:
    with socket.create_server(("127.0.0.1", sites.ports[0])):
        found = asyncio.run(looked(sites.starting(0), ENOUGH))
    assert levels(found) == {"port": "FAIL"}


def test_a_proxy_that_is_not_there_is_named(sites: Sites) -> None:
    (port,) = free_ports(1)
    changed = {1: {"address": "tcp://192.0.2.1:7700"}}  # loopback needs no proxy
    found = asyncio.run(looked(sites.starting(2, changed, proxy=f"http://127.0.0.1:{port}"), SHORT))
    assert found["rank 1"][0] is Level.WARN
    assert f"proxy http://127.0.0.1:{port}: port {port} of 127.0.0.1 cannot be reached" in found["rank 1"][1]


def test_without_keys_an_answer_is_all_that_a_line_shows(tmp_path: Path) -> None:
    sites = Sites(tmp_path, 2, keys=False)
    here, there = two(sites.starting(0), sites.starting(1))
    assert here["rank 1"][0] is Level.PASS
    assert "it answers, without keys, and long messages pass in both directions" in here["rank 1"][1]
    assert there["rank 0"][0] is Level.WARN
    assert there["rank 0"][1].endswith(
        "a connection does not show whose it is, and long messages pass in both directions"
    )


class SmallPath:
    """A path to a port that loses packets of more than `MOST` bytes: in one direction nothing comes behind one.

    Args:
        port: Where it leads.
        way: 0 to lose what the end sends that dials, 1 what the other one does.
    """

    MOST = 1200

    def __init__(self, port: int, way: int) -> None:
        self._port, self._way = port, way
        self._tasks, self._ends = list[asyncio.Task[None]](), list[asyncio.StreamWriter]()

    async def __aenter__(self) -> int:
        self._server = await asyncio.start_server(self._joined, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        for end in self._ends:
            end.close()
        await asyncio.gather(*self._tasks, *(end.wait_closed() for end in self._ends), return_exceptions=True)
        await self._server.wait_closed()

    async def _joined(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        far, there = await asyncio.open_connection("127.0.0.1", self._port)
        self._ends += [back, there]
        for way, (source, target) in enumerate(((near, there), (far, back))):
            self._tasks.append(asyncio.create_task(self._carry(source, target, way)))

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, way: int) -> None:
        while (part := await source.read(2**16)) and (way != self._way or len(part) <= self.MOST):
            target.write(part)
        if not part:
            target.close()


@pytest.mark.parametrize("way", [0, 1])
def test_a_path_that_loses_long_packets_fails_at_both_ends(
    pair: Sites, monkeypatch: pytest.MonkeyPatch, way: int
) -> None:
    monkeypatch.setattr(line_check, "SILENT", 1.5)

    async def both() -> tuple[Found, Found]:
        async with SmallPath(pair.ports[1], way) as port:
            starting = pair.starting(0, {1: {"address": f"tcp://127.0.0.1:{port}"}})
            return await asyncio.gather(looked(starting, ENOUGH), looked(pair.starting(1), ENOUGH))

    here, there = asyncio.run(both())
    for level, text in (here["rank 1"], there["rank 0"]):
        assert level is Level.FAIL
        assert text.endswith(
            "; short messages pass, and those of 16.4 kB do not pass both ways: its path loses long packets: look at "
            "the MTU of the VPN, or of a tunnel"
        )


class Wires:
    """A transport that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def dial(self, address: str, rank: int) -> str:
        return "link"

    def send(self, link: Any, frames: Any) -> Sent:
        self.sent.append(frames)
        return Sent.TAKEN


def lines(wires: Wires, *, dials: bool) -> tuple[Lines, Line]:
    """The lines of rank 0, whose neighbor is rank 1."""
    made = Lines(wires, 0, {1: "tcp://there"} if dials else {}, () if dials else (1,))
    made.dial()
    return made, made.of[1]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(line_check.time, "monotonic", lambda: now[0])
    return now


HELLO = wire.encode(wire.Hello(rank=1, next_round=0, fingerprint={"size": 2}, manifest={}, digest=""))


@pytest.mark.parametrize("dials", [True, False])
@pytest.mark.parametrize("proved", [1, None], ids=["keys", "no keys"])
def test_a_running_peer_sends_back_what_it_is_sent(dials: bool, proved: int | None) -> None:
    wires = Wires()
    made, line = lines(wires, dials=dials)
    made.take(Opened("link") if dials else Arrival("link", HELLO, proved))
    (ping,) = wires.sent
    assert not line.settled
    made.take(Arrival("link", wire.pong(wire.ping(0, b"of another check")), proved))
    assert not line.passed
    made.take(Arrival("link", wire.pong(ping), proved))
    assert line.settled
    assert line.verdict("there") == (Level.PASS, "there, and long messages pass in both directions")
    made.take(Opened("link") if dials else Arrival("again", HELLO, proved))
    assert len(wires.sent) == 1, "it is asked no more"


@pytest.mark.parametrize(("after", "early"), [(1.0, True), (13.9, False)])
def test_a_connection_that_breaks_early_has_lost_no_long_packets(clock: list[float], after: float, early: bool) -> None:
    """Late it breaks because the neighbor has given up, for the same reason."""
    made, line = lines(Wires(), dials=False)
    made.proves(1)
    made.take(Arrival("link", wire.ping(1, b""), 1))
    clock[0] += after
    made.take(Broken("link"))
    level, words = line.verdict("there")
    assert (level is Level.WARN) is early
    assert ("the connection broke meanwhile" in words) is early


def test_what_no_check_sends_changes_nothing() -> None:
    wires = Wires()
    made, line = lines(wires, dials=False)
    start = wire.ping(1, b"")[0]
    for frames in (
        [start], [b"\0P", b""], [b"\0Px", b""], [b"\0P-1", b""], [b"\0P" + b"1" * 5000, b""], [start, bytes(2**15)],
        [start, b"", b""], wire.ping(2, b""), wire.pong(wire.ping(1, b"")), [b"x"],
    ):  # fmt: skip
        made.take(Arrival("link", frames))
    made.take(Arrival("link", wire.ping(1, b""), 2))  # the key shows another rank
    assert (wires.sent, line) == ([], Line(None))
    made.take(Arrival("link", wire.ping(1, b"1"), 1))
    assert wires.sent[1:] == [wire.pong(wire.ping(1, b"1"))], "behind a ping of its own"


def behind_a_relay(sites: Sites, check: Callable[[Mapping[int, Mapping[str, Any]]], Any], *, ranks: int = 3) -> Any:
    """Run a check with a relay that lists so many ranks, by which ranks 0 and 1 are reached."""

    async def run() -> Any:
        keys = {rank: (public_of(one),) for rank, one in enumerate(sites.secrets[:ranks])}
        async with Running(listed(keys)) as relay:
            return await check({rank: {"address": f"relay://127.0.0.1:{relay.port}"} for rank in range(2)})

    return asyncio.run(run())


def test_ranks_meet_through_a_relay(sites: Sites) -> None:
    async def all_three(changed: Mapping[int, Mapping[str, Any]]) -> list[Found]:
        return await asyncio.gather(*(looked(sites.starting(rank, changed), ENOUGH) for rank in range(3)))

    for found in behind_a_relay(sites, all_three):
        assert {level for level, _ in found.values()} == {Level.PASS}


def test_a_called_rank_that_is_not_at_the_relay_is_a_warning(sites: Sites) -> None:
    found = behind_a_relay(sites, lambda changed: looked(sites.starting(2, changed), 2.0))
    assert levels(found) == {"port": "PASS", "rank 0": "WARN", "rank 1": "WARN"}
    assert "TCP is there, and then: relay" in found["rank 0"][1]
    assert found["rank 0"][1].endswith("the peer of that rank is not connected to it")


def test_a_relay_that_does_not_list_the_key_fails_in_both_directions(sites: Sites) -> None:
    found = behind_a_relay(sites, lambda changed: looked(sites.starting(1, changed), 2.0), ranks=1)
    assert levels(found)["rank 0"] == "FAIL", "rank 0 dials it through the relay, which this peer cannot use"
    assert "which this peer cannot use: relay" in found["rank 0"][1]
    assert "it does not take the key of this peer" in found["rank 0"][1]
