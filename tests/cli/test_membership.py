"""Commands that change a running federation, with a control socket that answers as a peer's does."""

import asyncio
import base64
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.federation.epoch_graph import epoch_graph
from dpeer.federation.next_epoch import Situation
from dpeer.federation.operators import read_operator, write_operator
from dpeer.peer.control import ControlSocket
from dpeer.peer.core.epoch import Epoch, SignedEpoch, check_successor, first_epoch
from tests.conftest import Ended

Run = Callable[..., Ended]
SIGNED = ("--operator", "k0/operator.secret")


@dataclass
class Answering:
    """What stands for a running peer: answers for a situation, and keeps what it is handed."""

    there: Situation
    handed: list[SignedEpoch] = field(default_factory=list)
    refuses: str = ""
    quick: int = 0
    """How many changes come when the next round has begun."""

    def membership(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.there.answer()

    def epoch(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.refuses:
            raise ConfigurationError(self.refuses)
        signed = SignedEpoch.decode(base64.b64decode(request["document"]))
        if self.quick:
            self.quick -= 1
            self.there = replace(self.there, round=self.there.round + 1)
            raise ConfigurationError(f"epoch 1 begins with round {signed.epoch.begins + 1}: expected a later one")
        check_successor(signed, self.there.epoch)
        self.handed.append(signed)
        return {}


@contextmanager
def running(folder: Path, peer: Answering) -> Iterator[Answering]:
    """The peer's control socket in a folder, on a thread of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    ready, over = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def answer() -> None:
        async with ControlSocket(folder, {"membership": peer.membership, "epoch": peer.epoch}, print):
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(answer(),))
    thread.start()
    try:
        assert ready.wait(30)
        yield peer
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()


@pytest.fixture
def keys(in_tmp_path: Path) -> list[str]:
    """Public keys of three operators, whose secrets are in k0, k1 and k2."""
    return [write_operator(in_tmp_path / f"k{number}")[1] for number in range(3)]


def start(keys: list[str], signers: int = 1, size: int = 8, edges: Any = (), topology: str = "ring") -> Epoch:
    graph = epoch_graph({"topology": topology}, range(size), edges)
    return first_epoch("1" * 64, size=size, operators=keys[:2], signers=signers, graph=graph, rounds=20)


@pytest.fixture
def peer(in_tmp_path: Path, keys: list[str]) -> Iterator[Answering]:
    """A peer of eight on a ring, in round 3 of 20, with two operators of whom one signs."""
    with running(in_tmp_path / "run" / "rank-2", Answering(Situation(start(keys), 2, 4))) as found:
        yield found


def test_a_member_joins(dpeer: Run, peer: Answering, keys: list[str]) -> None:
    ended = dpeer("join", "run", "--rank", 8, "--address", "tcp://10.0.0.8:7708", "--operator", "k0/operator.secret")
    assert (ended.code, ended.out.splitlines()) == (0, [
        "joins: rank 8 at tcp://10.0.0.8:7708",
        "members: 0..8 (9, before 8)",
        "graph: ring of 9, spectral gap 0.1560; before: ring of 8, spectral gap 0.1953",
        "epoch 1 begins with round 10 of 20",
    ])  # fmt: skip
    assert ended.err == (
        "dpeer: handed to the peer in run/rank-2, which sends it to all; it is signed, and cannot be taken back\n"
    )
    (signed,) = peer.handed
    assert signed.signatures.keys() == {keys[0]}
    assert (signed.epoch.ranks, signed.epoch.begins) == (tuple(range(9)), 9)


def test_members_leave_are_evicted_and_more_rounds_are_run(dpeer: Run, peer: Answering) -> None:
    operator = ("--operator", "k1/operator.secret")
    for arguments in (
        ("leave", "run", "--rank", 3, "--rank", 5, "--topology", "full", *operator),
        ("evict", "run/rank-2", "--rank", 0, "--force", *operator),
        ("extend", "run", "--rounds", 40, *operator),
        ("epoch", "operators", "run", "--operators", "ab" * 32, *operator),
    ):
        assert dpeer(*arguments).code == 0
    left, evicted, extended, replaced = (signed.epoch for signed in peer.handed)
    assert (left.ranks, left.graph.settings["topology"], left.forced) == ((0, 1, 2, 4, 6, 7), "full", False)
    assert (evicted.former, evicted.evicted, evicted.forced) == ((0,), (0,), True)
    assert not left.evicted
    assert (extended.rounds, extended.ranks) == (40, tuple(range(8)))
    assert replaced.operators == ("ab" * 32,)


def test_a_dry_run_changes_nothing_and_needs_no_key(dpeer: Run, peer: Answering) -> None:
    ended = dpeer("leave", "run", "--rank", 0, "--dry-run")
    assert ended.code == 0
    assert "members: 1..7 (7, before 8)" in ended.out
    assert not peer.handed


def test_two_operators_sign_one_after_the_other(dpeer: Run, in_tmp_path: Path, keys: list[str]) -> None:
    with running(in_tmp_path / "run", Answering(Situation(start(keys, signers=2), 2, 4))) as peer:
        ended = dpeer("join", "run", "--rank", 9, "--operator", "k0/operator.secret")
        assert (ended.code, ended.complaints) == (2, [
            "dpeer: 2 operators must sign a change of this federation: give --out FILE, which the others sign (dpeer "
            "epoch sign) and one hands over (dpeer epoch hand)"
        ])  # fmt: skip
        assert not peer.handed
        nine = ("--rank", 9, "--begin", 13, "--out", "nine.epoch")
        ended = dpeer("join", "run", "--operator", "k0/operator.secret", *nine)
        assert ended.err == (
            "dpeer: wrote nine.epoch: 1 more must sign it (dpeer epoch sign nine.epoch), then hand it over before "
            "round 7 (dpeer epoch hand nine.epoch run)\n"
        )
        assert dpeer("epoch", "hand", "nine.epoch", "run").complaints == [
            "dpeer: epoch 1 has 1 of the 2 signatures that it needs"
        ]
        assert not peer.handed
        ended = dpeer("epoch", "sign", "nine.epoch", "--operator", "k1/operator.secret")
        assert ended.err == "dpeer: nine.epoch has 2 signatures now\n"
        assert "rank 9: since round 13, dials out only" in ended.out
        assert all(f"{one[:16]}…" in ended.out for one in keys[:2]), "who signs reads who may sign the next one"
        assert "signatures: " in dpeer("epoch", "show", "nine.epoch").out
        assert dpeer("epoch", "hand", "nine.epoch", "run").code == 0
        (signed,) = peer.handed
        assert signed.signatures.keys() == set(keys[:2])
        peer.there = replace(peer.there, round=6)
        assert dpeer("epoch", "hand", "nine.epoch", "run").complaints == [
            "dpeer: epoch 1 begins with round 13, and a change that is handed over now cannot begin before round 14: "
            "make it anew"
        ]


def test_an_unsigned_change_goes_to_an_operator_elsewhere(dpeer: Run, peer: Answering) -> None:
    assert dpeer("leave", "run", "--rank", 3, "--begin", 10, "--out", "three.epoch").code == 0
    assert "signatures: none" in dpeer("epoch", "show", "three.epoch").out
    assert dpeer("epoch", "sign", "three.epoch", "--operator", "k1/operator.secret").code == 0
    assert dpeer("epoch", "hand", "three.epoch", "run").code == 0
    assert len(peer.handed) == 1


def test_the_newest_epoch_of_a_running_peer_is_shown(dpeer: Run, peer: Answering, keys: list[str]) -> None:
    lines = dpeer("epoch", "show", "run").out.splitlines()
    assert lines[1:] == [
        "members: 0..7 (8)",
        "graph: ring of 8, spectral gap 0.1953",
        f"operators: 2, of whom 1 must sign the next change: {', '.join(f'{one[:16]}…' for one in keys[:2])}",
        "begins with round 1 of 20",
        "the peer works on round 3; a change would begin with round 10",
    ]


REFUSED = {
    "join run --rank 3 --operator k0/operator.secret": "--rank 3: it is a member; the next free rank is 8",
    "join run --rank 70000 --operator k0/operator.secret": "--rank 70000: expected a rank from 0 to 2047",
    "join run --rank 8 --key ab --operator k0/operator.secret": (
        "--key 'ab': expected 64 hexadecimal digits, as `dpeer keygen` prints them"
    ),
    f"join run --rank 8 --key {'ab' * 32} --operator k0/operator.secret": (
        "--key for rank 8: this federation lists no keys, so nothing would be encrypted: leave it out"
    ),
    "join run --rank 8 --address 10.0.0.8 --operator k0/operator.secret": (
        "--address = '10.0.0.8': expected tcp://HOST:PORT, for example tcp://10.0.0.3:7700, or, where all its "
        "neighbors are on its host, ipc:///PATH"
    ),
    "join run --rank 8 --address tcp://\x1b[31mhost:77 --operator k0/operator.secret": (
        "--address 'tcp://\\x1b[31mhost:77': expected at most 300 printable characters"
    ),
    "join run --rank 8 --edge 8:2 --operator k0/operator.secret": (
        "--edge is for a graph that is a list of edges, and this is ring: leave it out, or give --topology file:PATH"
    ),
    "join run --rank 8 --edge 8-2 --operator k0/operator.secret": "--edge '8-2': write two ranks, for example 8:2",
    "join run --rank 8 --topology hypercube --operator k0/operator.secret": (
        "hypercube: size 9 is not a power of two: choose 8 or 16"
    ),
    "join run --rank 8 --topology mine.py:graph --operator k0/operator.secret": (
        "--topology mine.py:graph: only this host has the function: write its edges to a file, and name it as file:PATH"
    ),
    "join run --rank 8": (
        "--operator is missing: name the file of an operator's secret key, or give --out FILE, for an operator to "
        "sign elsewhere (dpeer epoch sign)"
    ),
    "join run --rank 8 --begin 9 --operator k0/operator.secret": (
        "--begin 9: all can know of a change from round 10 on: name that or a later one"
    ),
    "join run --rank 8 --out 8.epoch": (
        "--out '8.epoch': name the first round of the change with --begin, late enough for all who sign; round 10 "
        "or later"
    ),
    "join run --rank 8 --begin 21 --operator k0/operator.secret": (
        "too late: this join could begin with round 21, and the run ends with round 20: dpeer extend it first"
    ),
    "join run --rank 8 --operator none.secret": (
        "secret 'none.secret': No such file or directory; `dpeer keygen` makes one"
    ),
    "join elsewhere --rank 8": "no folder 'elsewhere' exists; name the --out of a run, or rank-R in it",
    "leave run --rank 8 --operator k0/operator.secret": "--rank 8: it is no member; members are 0..7",
    "leave run --rank 0 --rank 1 --rank 2 --rank 3 --rank 4 --rank 5 --rank 6": (
        "--rank 0..6: fewer than 2 members would be left: stop the peers instead"
    ),
    "extend run --rounds 20": "--rounds 20: the federation has 20 already, and they only grow: give more",
    "epoch operators run --operators ab": (
        "operators.0 = 'ab': expected 64 hexadecimal digits, as `dpeer keygen --operator` prints them"
    ),
    f"epoch operators run --operators {'ab' * 32} --signers 2": (
        "--signers 2: the federation has 1 operators: list as many keys, or ask for fewer signers"
    ),
    "epoch show gone.epoch": "'gone.epoch': No such file or directory",
    "epoch show k0/operator.secret": "'k0/operator.secret' holds no epoch, or was changed: malformed: …",
    "epoch hand k0/operator.secret run": "'k0/operator.secret' holds no epoch, or was changed: malformed: …",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_a_refusal_is_one_line_and_hands_nothing_over(arguments: str, dpeer: Run, peer: Answering) -> None:
    ended = dpeer(*arguments.split())
    expected = f"dpeer: {REFUSED[arguments]}"
    (line,) = ended.complaints
    assert line == expected or (expected.endswith("…") and line.startswith(expected.removesuffix("…")))
    assert ended.code == 2
    assert not peer.handed


def test_a_key_that_is_no_operators_is_refused(dpeer: Run, peer: Answering) -> None:
    (line,) = dpeer("leave", "run", "--rank", 3, "--operator", "k2/operator.secret").complaints
    assert line.startswith("dpeer: --operator 'k2/operator.secret': its public key ")
    assert "is not among the federation's operators: " in line
    assert dpeer("leave", "run", "--rank", 3, "--operator", "k2/operator.secret", "--dry-run").complaints == [line]
    assert not peer.handed


def test_a_file_that_a_stranger_signed_is_not_handed_over(dpeer: Run, peer: Answering, keys: list[str]) -> None:
    assert dpeer("leave", "run", "--rank", 3, "--begin", 10, "--out", "three.epoch").code == 0
    assert dpeer("epoch", "sign", "three.epoch", "--operator", "k2/operator.secret").code == 0
    (line,) = dpeer("epoch", "hand", "three.epoch", "run").complaints
    assert line == f"dpeer: epoch 1 is signed by {keys[2][:16]}, which is no operator of epoch 0"
    assert not peer.handed


def test_a_file_that_was_changed_is_not_handed_over(dpeer: Run, peer: Answering, in_tmp_path: Path) -> None:
    assert dpeer("leave", "run", "--rank", 3, *SIGNED, "--begin", 10, "--out", "three.epoch").code == 0
    file = in_tmp_path / "three.epoch"
    file.write_text(file.read_text().replace('"begins":9', '"begins":8'))
    (line,) = dpeer("epoch", "hand", "three.epoch", "run").complaints
    assert line.endswith("that is wrong")
    assert not peer.handed


def test_the_peers_own_refusal_is_printed(dpeer: Run, peer: Answering) -> None:
    peer.refuses = "epoch 1: the graph cannot be built here"
    ended = dpeer("leave", "run", "--rank", 3, "--operator", "k0/operator.secret")
    assert ended.complaints == ["dpeer: the peer in 'run/rank-2' refuses: epoch 1: the graph cannot be built here"]
    assert ended.code == 2


def test_a_change_is_made_anew_where_rounds_are_quicker_than_the_command(dpeer: Run, peer: Answering) -> None:
    peer.quick = 2
    ended = dpeer("leave", "run", "--rank", 3, "--operator", "k0/operator.secret")
    assert ended.code == 0
    first = peer.handed[0].epoch.begins - 2
    assert ended.out.splitlines()[-3:] == [
        f"epoch 1 begins with round {first + 1} of 20",
        f"epoch 1 begins with round {first + 2} instead: rounds have gone on",
        f"epoch 1 begins with round {first + 3} instead: rounds have gone on",
    ]
    assert len(peer.handed) == 1


def test_a_change_whose_begin_is_named_is_not_made_anew(dpeer: Run, peer: Answering) -> None:
    peer.quick = 1
    ended = dpeer("leave", "run", "--rank", 3, "--operator", "k0/operator.secret", "--begin", 10)
    assert ended.code == 2
    assert not peer.handed


def test_a_leave_that_disconnects_is_refused(dpeer: Run, in_tmp_path: Path, keys: list[str]) -> None:
    line = start(keys, size=4, edges=[(0, 1), (1, 2), (2, 3)], topology="file")
    with running(in_tmp_path / "run", Answering(Situation(line, 2, 3))) as peer:
        ended = dpeer("leave", "run", "--rank", 2, "--operator", "k0/operator.secret")
        assert ended.complaints == [
            "dpeer: this leave would disconnect the graph: ranks 0, 1 and rank 3 would never agree: add edges with "
            "--edge A:B, or name another graph with --topology"
        ]
        assert ended.code == 2
        assert dpeer("leave", "run", "--rank", 2, "--edge", "1:3", "--operator", "k0/operator.secret").code == 0
        assert peer.handed[0].epoch.graph.listed == ((0, 1), (1, 3))


def test_with_keys_a_new_member_needs_one(dpeer: Run, in_tmp_path: Path, keys: list[str]) -> None:
    with running(in_tmp_path / "run", Answering(Situation(start(keys), 2, 4, encrypted=True))) as peer:
        ended = dpeer("join", "run", "--rank", 8, "--operator", "k0/operator.secret")
        assert ended.complaints == [
            "dpeer: --rank 8: this federation's connections need keys: give the new member's with --key (dpeer keygen "
            "--rank 8 prints it at its site)"
        ]
        joined = dpeer("join", "run", "--rank", 8, "--key", "AB" * 32, "--operator", "k0/operator.secret")
        assert joined.code == 0
        assert peer.handed[0].epoch.members[8].keys == ("ab" * 32,)


def test_keygen_makes_the_key_of_an_operator(dpeer: Run, in_tmp_path: Path) -> None:
    ended = dpeer("keygen", "--operator", "--out", "mine")
    assert ended.code == 0
    key = ended.out.removeprefix('operators = ["').removesuffix('"]\n')
    assert read_operator(in_tmp_path / "mine" / "operator.secret", (key,))
