"""The list of a change, and changes that no list can make."""

from dataclasses import replace
from typing import Any

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.federation.member_changes import Change, Situation, differences, edges_of, list_zero, next_list
from dpeer.federation.settings import Settings
from dpeer.peer.core.member_list import Member, MemberList
from dpeer.topology import build


def settings(*, size: int = 4, keyed: bool = False, **more: Any) -> Settings:
    ranks = {
        rank: {"address": f"tcp://10.0.0.{rank}:7700"} | ({"key": f"{rank + 1:064x}"} if keyed else {})
        for rank in range(size)
    }
    return Settings.model_validate({"size": size, "rounds": 20, "rank": ranks} | more)


def there(given: Settings, **more: Any) -> Situation:
    zero = list_zero(given, given, given.rounds, {"seed": 0})
    return replace(Situation(zero, living=frozenset(zero.members), rank=0), **more)


def made(change: Change, given: Settings | None = None, **more: Any) -> MemberList:
    given = settings() if given is None else given
    return next_list(there(given, **more), change, given)


def refusal(change: Change, given: Settings | None = None, **more: Any) -> str:
    with pytest.raises(ConfigurationError) as raised:
        made(change, given, **more)
    return str(raised.value)


def test_a_list_follows_the_one_in_use() -> None:
    before = there(settings())
    one = made(Change(add={4: Member("tcp://10.0.0.4:7700")}, remove=[1]))
    assert one.why_not_after(before.counts) is None
    assert (one.version, one.previous, one.next_rank) == (1, before.counts.digest, 5)
    assert (list(one.members), one.former[1].gone) == ([0, 2, 3, 4], "left")
    assert one.edges == edges_of(build("ring", 4))
    assert differences(before.counts, one) == ["adds rank 4: tcp://10.0.0.4:7700", "rank 1 leaves"]


def test_whoever_is_silent_is_evicted_and_no_name_of_its_own_comes_back() -> None:
    one = made(Change(remove=[1], move={2: {"address": None}}), living=frozenset({0, 2, 3}))
    assert one.former[1].gone == "evicted"
    assert one.members[2].address is None
    again = Situation(one, living=frozenset({0, 2, 3}), rank=0)
    for rank in (1, 3, 5, 20000):
        with pytest.raises(ConfigurationError, match=f"--rank {rank}: .*the next free one is 4"):
            next_list(again, Change(add={rank: Member()}), settings())


def test_a_list_that_waits_is_replaced_only_by_order() -> None:
    waits = made(Change(rounds=30))
    assert refusal(Change(rounds=40), waits=waits) == (
        "member list 1 waits until a quorum has it: try again when it counts (dpeer members show), or replace it with "
        "--settle"
    )
    one = made(Change(rounds=40, settle=True), waits=waits)
    assert (one.version, one.rounds) == (2, 40)
    assert made(Change(settle=True), waits=waits).rounds == 20, "it takes the other one back"


def test_a_forced_list_needs_no_quorum() -> None:
    lost: dict[str, Any] = {"living": frozenset({3})}
    assert refusal(Change(remove=[0, 1, 2]), settings(), **lost).startswith("1 of 4 members answer")
    assert refusal(Change(rounds=30), rank=9) == "rank 9 is no member: name the folder of a member's peer"
    one = made(Change(remove=[0, 1], force=True), settings(), rank=9, **lost)
    assert (one.force, {gone.gone for gone in one.former.values()}) == (True, {"evicted"})
    assert differences(there(settings()).counts, one)[-1] == "forced: it counts at once, without a quorum"


REFUSED = {
    "rounds": (Change(rounds=10), {}, "member list 1: it has 10 rounds, fewer than 20"),
    "one alone": (
        Change(remove=[0, 1, 2]),
        {},
        "graph ring of ranks 3: size 1: a topology joins at least 2 peers",
    ),
    "a file": (
        Change(graph="file:x.csv"),
        {},
        "graph file:x.csv of ranks 0-3: 'file:x.csv': a list names no file: each site has its own in the federation "
        "file",
    ),
    "newcomers": (
        Change(add={rank: Member(f"tcp://10.0.0.{rank}:7700") for rank in range(4, 9)}),
        {},
        "member list 1: 5 newcomers outnumber the 4 members that stay",
    ),
    "no key": (
        Change(add={4: Member("tcp://10.0.0.4:7700", ("ab" * 32,))}),
        {},
        "rank 0, 1, 2, 3 have no `key`, and others have one: list the keys of all ranks (dpeer keygen), or of none",
    ),
    "relay": (
        Change(move={3: {"address": "relay://relay.example:7790"}}),
        {},
        "rank 3's address 'relay://relay.example:7790': a relay needs the key of every rank",
    ),
    "not dialled": (
        Change(move={2: {"address": None}, 3: {"address": None}}),
        {},
        "ranks 2 and 3 are neighbors and neither has an address: give one of them an address "
        "(relay://HOST:PORT where none can be dialled)",
    ),
    "hypercube": (
        Change(remove=[3]),
        {"topology": "hypercube"},
        "graph hypercube of ranks 0-2: hypercube: size 3 is not a power of two: choose 2 or 4",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_change_that_no_list_can_make_is_refused(name: str) -> None:
    change, more, text = REFUSED[name]
    assert refusal(change, settings(**more)) == text


def test_a_key_belongs_to_one_rank_for_ever() -> None:
    given = settings(keyed=True)
    key = f"{4:064x}"
    gone = replace(there(given), counts=made(Change(remove=[3]), given))
    with pytest.raises(ConfigurationError, match=f"rank.4.key = '{key}' is rank 3's, too"):
        next_list(gone, Change(add={4: Member("tcp://10.0.0.4:7700", (key,))}), given)
    one = made(Change(move={3: {"keys": (key, f"{9:064x}")}}), given)
    assert one.members[3].keys == (key, f"{9:064x}")


DECLARED = {"weights": "declared:400,20,30.5,7"}


def test_a_list_carries_weights_where_they_are_declared() -> None:
    given = settings(**DECLARED)
    one = made(Change(add={4: Member("tcp://10.0.0.4:7700", (), 55.0)}), given)
    assert [member.weight for member in one.members.values()] == [400, 20, 30.5, 7, 55]
    assert one.edges == edges_of(build("ring", 5, weights="declared:400,20,30.5,7,55"))
    moved = made(Change(move={1: {"weight": 21.0}}), given)
    assert moved.edges == edges_of(build("ring", 4, weights="declared:400,21,30.5,7"))
    assert differences(there(given).counts, moved) == [
        "changes rank 1: tcp://10.0.0.1:7700, weight 21; before: tcp://10.0.0.1:7700, weight 20"
    ]
    assert moved.digest != made(Change(move={1: {"weight": 22.0}}), given).digest
    lines = differences(there(given).counts, made(Change(move={1: {"weight": 21.0}}, graph="full"), given))
    assert lines[1] == "graph: full of 4; before: ring of 4"
    assert made(Change(rounds=30), given).members == there(given).counts.members


@pytest.mark.parametrize(
    ("change", "declared", "message"),
    [
        (
            Change(add={4: Member("tcp://10.0.0.4:7700")}),
            True,
            "graph ring of ranks 0-4: rank 4 has no weight, and all others have",
        ),
        (
            Change(move={1: {"weight": 3.0}}),
            False,
            "graph ring of ranks 0-3: rank 1 has a weight, which this federation does not use",
        ),
        *(
            (
                Change(move={1: {"weight": weight}}),
                True,
                f"graph ring of ranks 0-3: weights declared: {weight:g}: expected a number above 0 for each rank, such "
                "as declared:400,20,30",
            )
            for weight in (0.0, -1.0, float("nan"), float("inf"))
        ),
        (
            Change(graph="exponential-directed"),
            True,
            "graph exponential-directed of ranks 0-3: weights declared: peers of a directed graph hear others than "
            "hear them, and these weights need edges both ways: choose another graph, such as exponential, or weights "
            "uniform",
        ),
    ],
)
def test_weights_that_a_list_cannot_have_are_refused(change: Change, declared: bool, message: str) -> None:
    assert refusal(change, settings(**(DECLARED if declared else {}))) == message
