"""Commands that change who takes part, with a control socket that answers as a running peer's does."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from dpeer.cli import members
from dpeer.federation.keys import signers_of, write_operator
from dpeer.federation.member_changes import list_zero, read_list, write_list
from dpeer.federation.settings import Settings
from dpeer.peer.control import ControlSocket
from dpeer.peer.core.member_list import Key, MemberList, MemberListError, MemberLists, Word, decode
from dpeer.peer.member_files import write_lists
from tests.conftest import Ended

Run = Callable[..., Ended]
SIGNED = ("--operator", "k0/operator.secret")
FINGERPRINT = {"size": 8, "seed": 0}
NEW = ("--rank", 8, "--address", "tcp://127.0.0.1:9", "--key", f"{9:064x}")


@dataclass
class Answering:
    """What stands for a running peer of rank 2: with each look at it one member more has its newest list."""

    settings: Settings
    lists: MemberLists
    living: set[int]
    others: list[int] = field(default_factory=lambda: [0, 1, 3, 4, 5, 6, 7])
    """The members that get the list, in this order."""
    voters: set[int] = field(default_factory=set)
    handed: list[MemberList] = field(default_factory=list)

    def answer(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        if request["members"] == "hand":
            return self._hand(decode(packed(request["list"])))
        return self._show()

    def _hand(self, one: MemberList) -> Mapping[str, Any]:
        try:
            one.verify(self.lists.counts.federation, signers_of(self.settings))
        except MemberListError as error:
            return {"taken": False, "why": str(error)}
        if not self.lists.take(Word(self.lists.counts, one)):
            return {"taken": False, "why": one.why_not_after(self.lists.counts)}
        self.handed.append(one)
        self.voters = {2}
        return {"taken": True, "why": ""}

    def _show(self) -> Mapping[str, Any]:
        counts, waits = self.lists.counts, self.lists.waits
        if waits is not None and self.voters and self.others and len(self.voters) > 4:
            self.lists = MemberLists(waits)
        found = {
            "list": self.lists.counts.document,
            "next": None if self.lists.waits is None else self.lists.waits.document,
            "stamps": {
                str(rank): [plain((self.handed[-1] if rank in self.voters else counts).key), None] for rank in range(8)
            },
            "round": 11,
            "rank": 2,
            "living": sorted(self.living),
            "since": 3,
            "settings": self.settings.model_dump(mode="json", exclude_unset=True, exclude={"rank"}),
        }
        if self.voters and self.others:
            self.voters.add(self.others.pop(0))
        return found


def plain(key: Key) -> list[Any]:
    return [key.version, key.digest.hex()]


def packed(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


@contextmanager
def running(folder: Path, peer: Answering) -> Iterator[Answering]:
    """The peer's control socket in a folder, on a thread of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    ready, over = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def answer() -> None:
        async with ControlSocket(folder, {"members": peer.answer}, print):
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


def federation(keys: list[str], **more: Any) -> Settings:
    ranks = {rank: {"address": f"tcp://127.0.0.1:{rank + 1}", "key": f"{rank + 1:064x}"} for rank in range(8)}
    given = {"size": 8, "topology": "ring", "rounds": 20, "operators": keys[:2], "name": "one", "rank": ranks}
    return Settings.model_validate(given | more)


def zero(settings: Settings) -> MemberList:
    return list_zero(settings, settings, settings.rounds, FINGERPRINT)


def a_peer(settings: Settings) -> Answering:
    return Answering(settings, MemberLists(zero(settings)), set(range(8)))


@pytest.fixture
def keys(in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Public keys of three operators, whose secrets are in k0, k1 and k2."""
    monkeypatch.setattr(members, "_EVERY", 0.0)
    return [write_operator(in_tmp_path / f"k{number}")[1] for number in range(3)]


@pytest.fixture
def peer(in_tmp_path: Path, keys: list[str]) -> Iterator[Answering]:
    """A peer of eight on a ring, in round 12 of 20, with two operators of whom one signs."""
    with running(in_tmp_path / "run" / "rank-2", a_peer(federation(keys))) as found:
        yield found


def test_a_member_is_added_and_its_list_waited_for_until_it_counts(
    dpeer: Run, peer: Answering, keys: list[str]
) -> None:
    ended = dpeer("members", "add", "run", *NEW, *SIGNED)
    kept = "as in the federation file there: rank 7: tcp://127.0.0.1:8, key 0000000000000000…"
    assert kept in ended.out.splitlines(), "the first list prints all members"
    assert (ended.code, [line for line in ended.out.splitlines() if not line.startswith("as in the")]) == (
        0,
        [
            "adds rank 8: tcp://127.0.0.1:9, key 0000000000000000…",
            "graph: ring of 9; before: ring of 8",
            "member list 1 counts: 5 of 8 members have it (0-4); missing: rank 5-7",
        ],
    )
    assert ended.err.splitlines() == [
        "dpeer: wrote members-1.json: the new site types dpeer start --rank 8 --members members-1.json",
        "dpeer: member list 1 is at rank-2, which tells the others; dpeer members show run/rank-2 shows who has it",
    ]
    (one,) = peer.handed
    assert one.signatures.keys() == {keys[0]}
    assert read_list(Path("members-1.json")) == one


def test_members_go_move_and_run_more_rounds_on_another_graph(dpeer: Run, peer: Answering) -> None:
    peer.living -= {5}
    made = []
    for arguments in (
        ("remove", "run", "--rank", 3, "--rank", 5),
        ("change", "run", "--rank", 0, "--address", "-", "--key", f"{1:064x}", "--key", f"{77:064x}"),
        ("change", "run/rank-2", "--topology", "exponential"),
        ("extend", "run", "--rounds", 40),
        ("remove", "run", "--rank", 7, "--force"),
    ):
        peer.others, peer.voters = [0, 1, 3, 4, 5, 6, 7], set()
        ended = dpeer("members", *arguments, *SIGNED)
        assert ended.code == 0, ended.err
        made.append(peer.handed[-1])
    removed, moved, graph, extended, forced = made
    assert {rank: one.gone for rank, one in removed.former.items()} == {3: "left", 5: "evicted"}
    assert moved.members[0].address is None
    assert moved.members[0].keys == (f"{1:064x}", f"{77:064x}")
    assert (graph.graph, extended.rounds, extended.graph) == ("exponential", 40, "exponential")
    assert forced.force
    assert [one.version for one in made] == [1, 2, 3, 4, 5]


def test_a_dry_run_changes_nothing_and_needs_no_key(dpeer: Run, peer: Answering) -> None:
    ended = dpeer("members", "remove", "run", "--rank", 0, "--dry-run")
    assert (ended.code, ended.out.splitlines()[0]) == (0, "rank 0 leaves")
    assert ended.err == "dpeer: --dry-run: this would be member list 1; nothing is changed\n"
    assert not peer.handed


def test_two_operators_sign_one_after_the_other(dpeer: Run, in_tmp_path: Path, keys: list[str]) -> None:
    with running(in_tmp_path / "run" / "rank-2", a_peer(federation(keys, signers=2))) as peer:
        (line,) = dpeer("members", "remove", "run", "--rank", 3, *SIGNED).complaints
        assert line == (
            "dpeer: 2 operators must sign a list of this federation: give --out FILE, which the others sign (dpeer "
            "members sign) and one hands over (dpeer members hand)"
        )
        ended = dpeer("members", "remove", "run", "--rank", 3, *SIGNED, "--out", "3.json")
        assert ended.err == (
            "dpeer: wrote member list 1 to 3.json: 1 more must sign it (dpeer members sign 3.json), then dpeer members "
            "hand RUN 3.json\n"
        )
        (line,) = dpeer("members", "hand", "run", "3.json").complaints
        assert line == (
            "dpeer: member list 1: 1 operators have signed it, expected 2: sign it with `dpeer members sign`"
        )
        ended = dpeer("members", "sign", "3.json", "--operator", "k1/operator.secret")
        assert ended.err == "dpeer: 3.json has 2 signatures; dpeer members hand RUN 3.json hands it over\n"
        assert "left: rank 3" in ended.out
        ended = dpeer("members", "hand", "run", "3.json")
        assert (ended.code, ended.out.splitlines()[0]) == (0, "rank 3 leaves")
        assert peer.handed[0].signatures.keys() == set(keys[:2])


def test_a_list_follows_one_in_a_file(dpeer: Run, in_tmp_path: Path, keys: list[str]) -> None:
    write_list(in_tmp_path / "0.json", zero(federation(keys)))
    (line,) = dpeer("members", "extend", "0.json", "--rounds", 40, "--out", "1.json").complaints
    assert line == "dpeer: '0.json': name the federation file, too, with --federation FILE"
    Path("dpeer.toml").write_text(f'size = 8\noperators = ["{keys[1]}"]\nname = "one"\n')
    (line,) = dpeer("members", "extend", "0.json", "--rounds", 40).complaints
    assert line == "dpeer: '0.json' is a list: give --out FILE for the next one, or the folder of a running peer"
    (line,) = dpeer("members", "extend", "0.json", "--rounds", 40, "--out", "1.json", *SIGNED).complaints
    assert line.startswith("dpeer: --operator 'k0/operator.secret': the federation file does not list its public key ")
    signed = ("--operator", "k1/operator.secret")
    assert dpeer("members", "extend", "0.json", "--rounds", 40, "--out", "1.json", *signed).code == 0
    assert (read_list(Path("1.json")).rounds, read_list(Path("1.json")).signatures.keys()) == (40, {keys[1]})


def test_the_lists_of_a_running_peer_are_shown(dpeer: Run, peer: Answering) -> None:
    peer.living -= {6}
    lines = dpeer("members", "show", "run").out.splitlines()
    assert [line.split() for line in lines[3:5]] == [
        ["0", "tcp://127.0.0.1:1", "0000000000000000…", "list", "0"],
        ["1", "tcp://127.0.0.1:2", "0000000000000000…", "list", "0"],
    ]
    assert lines[9].endswith("list 0 (silent)")
    assert lines[-2:] == ["graph: ring of 8; 20 rounds", "in use here since round 4; rank 2 works on round 12"]
    assert dpeer("members", "remove", "run", "--rank", 3, *SIGNED, "--out", "3.json").code == 0
    peer.answer({"members": "hand", "list": read_list(Path("3.json")).document})
    lines = dpeer("members", "show", "run").out.splitlines()
    assert lines[-3:] == [
        "member list 1 waits until a quorum has it: 1 of 8 members have it (2); missing: rank 0-1, 3-5, 7, rank 6 "
        "(silent)",
        "  rank 3 leaves",
        "  graph: ring of 7; before: ring of 8",
    ]
    found = json.loads(dpeer("members", "show", "run", "--json").out)
    assert (found["list"]["version"], found["next"]["version"], found["round"]) == (0, 1, 11)


def test_the_lists_of_a_peer_that_does_not_run_are_those_of_its_folder(
    dpeer: Run, in_tmp_path: Path, keys: list[str]
) -> None:
    folder = in_tmp_path / "run" / "rank-2"
    folder.mkdir(parents=True)
    write_lists(folder, zero(federation(keys)), None)
    assert dpeer("members", "show", "run").out == "member list 0, the federation file, is in use\n"
    peer = a_peer(federation(keys))
    with running(folder, peer):
        assert dpeer("members", "extend", "run", "--rounds", 40, *SIGNED).code == 0
    write_lists(folder, peer.handed[0], peer.handed[0])
    shown = dpeer("members", "show", "run").out.splitlines()
    assert shown[0].startswith("member list 1 (")
    assert shown[11:13] == ["graph: ring of 8; 40 rounds", f"signed by {keys[0][:16]}…"]
    assert json.loads(dpeer("members", "show", "run", "--json").out)["next"]["rounds"] == 40
    (folder / "members.json").write_text("{")
    (line,) = dpeer("members", "show", "run").complaints
    assert line.startswith("dpeer: 'run/rank-2/members.json' is damaged (")


def test_another_list_in_the_place_of_the_one_that_waits_ends_the_view(dpeer: Run, peer: Answering) -> None:
    other = replace(zero(peer.settings), version=7, rounds=30, previous=zero(peer.settings).digest)
    answer = peer.answer

    def replaced(request: Mapping[str, Any]) -> Mapping[str, Any]:
        found = answer(request)
        if len(peer.voters) == 4:
            peer.lists = MemberLists(other)
        return found

    peer.answer = replaced
    with running(Path("again") / "rank-2", peer):
        ended = dpeer("members", "remove", "again", "--rank", 3, *SIGNED)
    assert ended.code == 1
    assert ended.complaints[-1].startswith("dpeer: member list 1 does not count: rank-2 has list 7 (")


NO_LIST = "'k0/operator.secret': member list of 174 bytes: the document is damaged, or not a list"

REFUSED = {
    "add run --rank 3 --address -": "--rank 3: ranks follow each other, and none is used twice: the next free one is 8",
    "add run --rank 8 --address - --key ab": (
        "rank.8.key = 'ab': expected 64 hexadecimal digits, as `dpeer keygen` prints them"
    ),
    "add run --rank 8 --address tcp://10.0.0.8:77": (
        "rank 8 has no `key`, and others have one: list the keys of all ranks (dpeer keygen), or of none"
    ),
    f"add run --rank 8 --address tcp://127.0.0.1:9 --key {4:064x}": (
        f"rank.8.key = '{4:064x}' is rank 3's, too: each rank has keys of its own (dpeer keygen)"
    ),
    f"add run --rank 8 --address tcp://127.0.0.1:2 --key {9:064x}": (
        "rank.1 and rank.8 have the same address 'tcp://127.0.0.1:2'"
    ),
    f"add run --rank 8 --address 10.0.0.8 --key {9:064x}": (
        "rank 8's address = '10.0.0.8': expected tcp://HOST:PORT, for example tcp://10.0.0.3:7700, or, where all its "
        "neighbors are on its host, ipc:///PATH"
    ),
    "remove run --rank 8": "--rank 8: it is no member; members are 0-7",
    "remove run --rank 0 --rank 1 --rank 2 --rank 3 --rank 4 --rank 5 --rank 6": (
        "graph ring of ranks 7: size 1: a topology joins at least 2 peers"
    ),
    "change run": "nothing changes: member list 0 has all of this already",
    "change run --rank 3": ("--rank, and --address, --key or --weight go together: name the member and what changes"),
    "change run --weight 3": ("--rank, and --address, --key or --weight go together: name the member and what changes"),
    f"add run --rank 8 --address tcp://127.0.0.1:9 --key {9:064x} --weight 3": (
        "graph ring of ranks 0-8: rank 8 has a weight, which this federation does not use"
    ),
    "change run --rank 3 --weight much": "Invalid value for '--weight': 'much' is not a valid float.",
    f"change run --rank 3 --key {9:064x} --key {9:064x}": (
        f"rank.3.key = '{9:064x}' stands twice: give the old key and the new one"
    ),
    "change run --topology file:/somewhere/edges.txt": (
        "graph file:/somewhere/edges.txt of ranks 0-7: 'file:/somewhere/edges.txt': a list names no file: each site "
        "has its own in the federation file"
    ),
    "extend run --rounds 3000000000": (
        "Invalid value for '--rounds': 3000000000 is not in the range 1<=x<=2147483646."
    ),
    "change run --topology hypercubic": "graph hypercubic of ranks 0-7: unknown topology 'hypercubic': did you mean …",
    "remove run --rank 7 --settle --dry-run --operator k2/operator.secret": (
        "--operator 'k2/operator.secret': the federation file does not list its public key …"
    ),
    "extend run --rounds 10": ("member list 1: it has 10 rounds, fewer than 20"),
    "extend run --rounds 20": "nothing changes: member list 0 has all of this already",
    "extend nowhere --rounds 40": "'nowhere': No such file or directory",
    "hand run k0/operator.secret": NO_LIST,
    "show k0/operator.secret": NO_LIST,
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_a_refusal_is_one_line_and_hands_nothing_over(arguments: str, dpeer: Run, peer: Answering) -> None:
    words = arguments.split()
    signed = () if words[0] in ("show", "hand") or "--operator" in words else SIGNED
    ended = dpeer("members", *words, *signed)
    expected = f"dpeer: {REFUSED[arguments]}"
    (line,) = ended.complaints
    assert line == expected or (expected.endswith("…") and line.startswith(expected.removesuffix("…")))
    assert ended.code in (1, 2)
    assert not peer.handed


def test_a_list_of_another_federation_is_refused(dpeer: Run, peer: Answering) -> None:
    before = zero(peer.settings)
    write_list(Path("other.json"), replace(before, federation="cd" * 32, version=1, previous=before.digest))
    (line,) = dpeer("members", "hand", "run", "other.json").complaints
    assert line.startswith("dpeer: member list 1: it is of federation cdcdcdcdcdcdcdcd, and this run is ")
    assert not peer.handed


def test_too_few_members_answer(dpeer: Run, peer: Answering) -> None:
    peer.living = {1, 2, 3}
    (line,) = dpeer("members", "remove", "run", "--rank", 0, *SIGNED).complaints
    assert line == (
        "dpeer: 3 of 8 members answer, which is no quorum: wait for rank 0, 4-7, or --force a list without them if you "
        "can vouch that they do not run on"
    )
    assert not peer.handed


def test_a_federation_without_operators_cannot_change(dpeer: Run, in_tmp_path: Path, keys: list[str]) -> None:
    with running(in_tmp_path / "run" / "rank-2", a_peer(federation(keys, operators=None, name=None))):
        (line,) = dpeer("members", "extend", "run", "--rounds", 40, *SIGNED).complaints
    assert line.startswith("dpeer: no `operators` stand in the federation file")


@pytest.mark.parametrize("fixed", [{"lr_schedule": "cosine"}, {"algorithm": "dis-pfl"}])
def test_a_run_that_trains_for_its_number_of_rounds_is_not_extended(
    fixed: dict[str, str], dpeer: Run, in_tmp_path: Path, keys: list[str]
) -> None:
    with running(in_tmp_path / "run" / "rank-2", a_peer(federation(keys, **fixed))) as peer:
        (line,) = dpeer("members", "extend", "run", "--rounds", 40, *SIGNED).complaints
        assert line.endswith("so this run cannot be extended: begin another one with --init-from")
        assert not peer.handed
