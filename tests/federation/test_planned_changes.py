"""Planned changes of a cluster: the file, and how they are carried out one after the other."""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dpeer.exceptions import ConfigurationError, PeerFailed
from dpeer.federation.epoch_graph import epoch_graph
from dpeer.federation.next_epoch import Situation
from dpeer.federation.planned_changes import Growth, PlannedChange, Processes, read_changes, with_operator, with_shares
from dpeer.federation.settings import Settings
from dpeer.peer.control import ControlSocket
from dpeer.peer.core.epoch import Epoch, Member, SignedEpoch, check_successor, first_epoch, operator_of

SECRET = bytes([1] * 32)

FILE = """
[[change]]
round = 5
join = [3, 4]

[[change]]
round = 9
leave = [0]
topology = "full"
"""


def start(edges: Any = (), topology: str = "ring") -> Epoch:
    graph = epoch_graph({"topology": topology}, range(3), edges)
    return first_epoch("1" * 64, size=3, operators=[operator_of(SECRET)], signers=1, graph=graph, rounds=20)


@dataclass
class Running:
    """What stands for a running peer, whose round is that of the last epoch at every question.

    Attributes:
        quick: How many hand-overs come too late, because a round went by since the question.
    """

    there: Situation
    quick: int = 0
    handed: list[Epoch] = field(default_factory=list)

    def membership(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.handed:
            self.there = Situation(self.handed[-1], self.handed[-1].begins, 1)
        return self.there.answer()

    def epoch(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        signed = SignedEpoch.decode(base64.b64decode(request["document"]))
        check_successor(signed, self.there.epoch)
        if self.quick:
            self.quick -= 1
            self.there = replace(self.there, round=self.there.round + 1)
        if signed.epoch.begins < self.there.earliest:
            raise ConfigurationError(f"expected round {self.there.earliest + 1} or a later one")
        self.handed.append(signed.epoch)
        return {}


async def carried_out(
    folder: Path, planned: list[PlannedChange], first: Epoch, fails: int = -1, quick: int = 0
) -> tuple[Any, ...]:
    (folder / "rank-0").mkdir(parents=True)
    peer = Running(Situation(first, 0, 1), quick)
    lines: list[str] = []
    calls: list[tuple[str, int]] = []
    members: list[tuple[int, tuple[int, ...], int]] = []

    async def enter(rank: int) -> Member:
        if rank == fails:
            raise PeerFailed(f"rank {rank} could not start: no share", 2)
        return Member(address=f"tcp://127.0.0.1:{7000 + rank}")

    async with ControlSocket(folder / "rank-0", {"membership": peer.membership, "epoch": peer.epoch}, print):
        growth = Growth(
            planned, SECRET, Processes(folder), enter, lambda rank: calls.append(("admit", rank)),
            lambda rank: calls.append(("dismiss", rank)), lambda *piece: members.append(piece), lines.append,
        )  # fmt: skip
        await asyncio.wait_for(growth.carry_out(), 60)
    return peer.handed, lines, calls, members


async def test_changes_are_made_one_after_the_other_in_their_rounds(tmp_path: Path) -> None:
    (tmp_path / "grow.toml").write_text(FILE)
    planned = read_changes(tmp_path / "grow.toml", 3, 20)
    handed, lines, calls, members = await carried_out(tmp_path / "run", planned, start())
    assert [(epoch.begins, epoch.ranks) for epoch in handed] == [(5, (0, 1, 2, 3, 4)), (9, (1, 2, 3, 4))]
    assert handed[0].members[4].address == "tcp://127.0.0.1:7004"
    assert lines == [
        "epoch 1, from round 6 on: ranks 3, 4 join, members 0..4, ring of 5, spectral gap 0.4607 (before: ring of 3, "
        "spectral gap 1.0000)",
        "epoch 2, from round 10 on: rank 0 leaves, members 1..4, full of 4, spectral gap 1.0000 (before: ring of 5, "
        "spectral gap 0.4607)",
    ]
    assert members == [(5, (0, 1, 2, 3, 4), 20), (9, (1, 2, 3, 4), 20)]
    assert calls == [("admit", 3), ("admit", 4)], "they dial once all know their epoch"


async def test_a_change_for_which_it_is_too_late_comes_as_soon_as_it_can(tmp_path: Path) -> None:
    handed, lines, *_ = await carried_out(tmp_path / "run", [PlannedChange(round=1, join=[3])], start())
    assert handed[0].begins == 4
    assert lines[0].endswith(" (planned for round 2)")


async def test_a_change_is_made_anew_where_a_round_went_by_before_it_was_handed_over(tmp_path: Path) -> None:
    handed, lines, *_ = await carried_out(tmp_path / "run", [PlannedChange(round=1, join=[3])], start(), quick=2)
    assert [epoch.begins for epoch in handed] == [6]
    assert len(lines) == 1
    handed, lines, *_ = await carried_out(tmp_path / "slow", [PlannedChange(round=1, join=[3])], start(), quick=9)
    assert not handed
    assert lines[0].startswith("change of round 2 refused: the peer in ")
    assert lines[0].endswith("expected round 10 or a later one")


async def test_a_change_that_disconnects_is_refused_and_the_others_are_made(tmp_path: Path) -> None:
    planned = [PlannedChange(round=5, leave=[1]), PlannedChange(round=9, extend=40)]
    line = start([(0, 1), (1, 2)], "file")
    handed, lines, *_ = await carried_out(tmp_path / "run", planned, line)
    assert [epoch.rounds for epoch in handed] == [40]
    assert lines[0] == (
        "change of round 6 refused: this leave would disconnect the graph: rank 0 and rank 2 would never agree: add "
        "edges with --edge A:B, or name another graph with --topology"
    )
    assert lines[1].startswith("epoch 1, from round 10 on: 40 rounds instead of 20, members 0..2, 2 listed edges of 3")


async def test_processes_of_a_refused_change_are_ended(tmp_path: Path) -> None:
    planned = [PlannedChange(round=5, join=[3, 4]), PlannedChange(round=9, join=[5], leave=[7])]
    handed, lines, calls, _ = await carried_out(tmp_path / "run", planned, start(), fails=4)
    assert not handed
    assert lines == [
        "change of round 6 refused: rank 4 could not start: no share",
        "change of round 10 refused: --rank 7: it is no member; members are 0..2",
    ]
    assert calls == [("dismiss", 3), ("dismiss", 4), ("dismiss", 5)]


def test_a_common_pool_has_a_share_for_everyone_who_joins() -> None:
    planned = [PlannedChange(round=2, join=[8, 4]), PlannedChange(round=3, leave=[0])]
    assert with_shares(Settings(size=3), planned).shares == 9
    assert with_shares(Settings(size=3, shares=12), planned).shares == 12
    assert with_shares(Settings(size=3, partition="own", task="csv"), planned).shares is None
    assert with_shares(Settings(size=3), []).shares is None


def test_the_launcher_is_the_only_operator() -> None:
    assert with_operator(Settings(), SECRET) == {
        "operators": [operator_of(SECRET)], "signers": 1, "name": "planned changes",
    }  # fmt: skip
