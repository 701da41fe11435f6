"""Changes of a running federation: the next epoch, and what is refused."""

from typing import Any

import pytest

from dpeer.exceptions import ConfigurationError, DpeerError
from dpeer.federation.epoch_graph import epoch_graph
from dpeer.federation.epoch_words import described, differences, gap_of
from dpeer.federation.next_epoch import Change, Situation, next_epoch
from dpeer.peer.core.epoch import Epoch, Member, SignedEpoch, Void, check_successor, first_epoch, operator_of
from dpeer.topology import build, spectral_gap

SECRET, OTHER = bytes([1] * 32), bytes([2] * 32)
GENESIS, KEY = "1" * 64, "ab" * 32


def start(size: int = 8, rounds: int = 20, edges: Any = (), **graph: Any) -> Epoch:
    named = epoch_graph({"topology": "ring", **graph}, range(size), edges)
    return first_epoch(GENESIS, size=size, operators=[operator_of(SECRET)], signers=1, graph=named, rounds=rounds)


def there(epoch: Epoch | None = None, **more: Any) -> Situation:
    return Situation(epoch or start(), **{"round": 2, "diameter": 4, **more})


def joins(*ranks: int, address: str | None = None, **more: Any) -> Change:
    return Change({rank: Member(address=address) for rank in ranks}, word="join", **more)


def leaves(*ranks: int, **more: Any) -> Change:
    return Change(leave=ranks, word="leave", **more)


def test_a_change_begins_when_all_know_it_and_have_dialled() -> None:
    epoch = next_epoch(there(), joins(8))
    assert epoch.begins == 2 + 4 + 3
    assert epoch.ranks == tuple(range(9))
    assert epoch.members[8].since == 9
    assert epoch.graph.edges == build("ring", 9).digest
    check_successor(SignedEpoch(epoch=epoch).signed_with(SECRET), there().epoch)


def test_a_change_after_one_that_has_not_begun_begins_later() -> None:
    first = next_epoch(there(), joins(8))
    second = next_epoch(there(first), leaves(0))
    assert (second.number, second.begins, second.previous) == (2, 10, first.digest)
    assert next_epoch(there(), joins(8), begins=14).begins == 14


def test_void_epochs_are_named() -> None:
    void = (Void(1, KEY), Void(1, "cd" * 32))
    epoch = next_epoch(there(void=void), leaves(3))
    assert (epoch.number, epoch.void) == (2, void)
    check_successor(SignedEpoch(epoch=epoch).signed_with(SECRET), there().epoch)


def test_ranks_are_named_by_a_graph_over_the_members_in_order() -> None:
    epoch = next_epoch(there(start(4, topology="star")), leaves(0))
    assert epoch.ranks == (1, 2, 3)
    assert epoch.former == (0,)
    assert epoch.graph.edges == build("star", 3).digest


def test_another_graph_comes_with_a_change() -> None:
    epoch = next_epoch(there(start(4)), joins(4, graph={"topology": "random-regular", "degree": 2, "graph_seed": 7}))
    assert epoch.graph.edges == build("random-regular", 5, degree=2, graph_seed=7).digest
    fresh = next_epoch(there(epoch), leaves(0, graph={"fresh_neighbors": "directed:2"}))
    assert fresh.graph.settings["topology"] == "fresh-directed"
    ring = next_epoch(there(fresh), joins(9, graph={"topology": "ring"}))
    assert ring.graph.edges == build("ring", 5).digest


LINE = [(0, 1), (1, 2), (2, 3)]


def line(**more: Any) -> Situation:
    return there(start(4, edges=LINE, topology="file"), **more)


def test_a_listed_graph_grows_and_shrinks_by_its_edges() -> None:
    epoch = next_epoch(line(), joins(4, edges=((3, 4), (0, 4))))
    assert epoch.graph.listed == ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4))
    smaller = next_epoch(there(epoch), leaves(1))
    assert smaller.graph.listed == ((0, 4), (2, 3), (3, 4))
    check_successor(SignedEpoch(epoch=smaller).signed_with(SECRET), epoch)


def test_a_leave_that_disconnects_is_refused_and_mended_by_an_edge() -> None:
    with pytest.raises(ConfigurationError) as refused:
        next_epoch(line(), leaves(1))
    assert str(refused.value) == (
        "this leave would disconnect the graph: rank 0 and ranks 2, 3 would never agree: add edges with --edge A:B, or "
        "name another graph with --topology"
    )
    assert next_epoch(line(), leaves(1, edges=((0, 2),))).graph.listed == ((0, 2), (2, 3))
    assert next_epoch(line(), leaves(1, graph={"topology": "ring"})).graph.edges == build("ring", 3).digest


def test_a_graph_from_a_file_may_follow(tmp_path: Any) -> None:
    (tmp_path / "edges.txt").write_text("0 7\n7 3\n0 3\n")
    change = joins(7, graph={"topology": f"file:{tmp_path / 'edges.txt'}"})
    with pytest.raises(ConfigurationError, match="would disconnect the graph: ranks 0, 3, 7 and rank 1 and rank 2"):
        next_epoch(there(start(4)), change)
    change = Change({7: Member()}, (1, 2), graph=change.graph, word="join")
    assert next_epoch(there(start(4)), change).graph.listed == ((0, 3), (0, 7), (3, 7))


def test_two_neighbors_that_only_dial_out_are_refused() -> None:
    silent = there(start(4), addresses={0: "tcp://a:1", 1: "tcp://b:1", 2: "tcp://c:1"})
    with pytest.raises(ConfigurationError, match="ranks 3 and 4 would be neighbors, and neither has an address"):
        next_epoch(silent, joins(4))
    assert next_epoch(silent, joins(4, address="tcp://e:1")).members[4].address == "tcp://e:1"
    assert next_epoch(there(start(4)), joins(4)), "without addresses in the file all are on one host"


def test_the_operators_are_replaced() -> None:
    new = (operator_of(OTHER), operator_of(SECRET))
    epoch = next_epoch(there(), Change(operators=new, signers=2))
    assert (epoch.operators, epoch.signers, epoch.ranks) == (new, 2, tuple(range(8)))
    check_successor(SignedEpoch(epoch=epoch).signed_with(SECRET), there().epoch)


def test_an_extension_is_possible_until_all_can_know_it_before_the_end() -> None:
    last = there(start(8, rounds=20), round=20 - 4 - 3)
    assert next_epoch(last, Change(rounds=40, word="extension")).rounds == 40
    with pytest.raises(ConfigurationError, match="too late: this extension could begin with round 22"):
        next_epoch(there(start(8, rounds=20), round=20 - 4 - 2), Change(rounds=40, word="extension"))
    with pytest.raises(ConfigurationError, match="the run ends with round 20: dpeer extend it first"):
        next_epoch(last, leaves(0))


def test_an_answer_comes_back_as_it_was_sent() -> None:
    sent = there(void=(Void(1, KEY),), encrypted=True, addresses={3: "tcp://a:1"})
    assert Situation.of(sent.answer()) == sent
    for broken in ({}, {**sent.answer(), "document": "!"}, {**sent.answer(), "round": None}):
        with pytest.raises(DpeerError, match="of another version of dpeer"):
            Situation.of(broken)


def test_a_change_is_printed_with_the_gap_before_and_after() -> None:
    epoch = next_epoch(there(), joins(8, address="tcp://10.0.0.8:7708"))
    assert differences(there().epoch, epoch) == [
        "joins: rank 8 at tcp://10.0.0.8:7708",
        "members: 0..8 (9, before 8)",
        f"graph: ring of 9, spectral gap {spectral_gap(build('ring', 9)):.4f}; "
        f"before: ring of 8, spectral gap {spectral_gap(build('ring', 8)):.4f}",
        "epoch 1 begins with round 10 of 20",
    ]
    forced = next_epoch(there(start(4)), Change(evict=(1, 2), forced=True, rounds=30, word="eviction"))
    assert forced.evicted == (1, 2)
    assert [one for one in differences(start(4), forced) if "graph" not in one] == [
        "is evicted: rank 1", "is evicted: rank 2", "members: 0, 3 (2, before 4)", "rounds: 30, before 20",
        "forced: it begins without a quorum of the members so far", "epoch 1 begins with round 10 of 30",
    ]  # fmt: skip


def test_an_epoch_is_printed() -> None:
    change = Change({9: Member(keys=(KEY,))}, leave=(0,))
    epoch = next_epoch(there(void=(Void(1, KEY),), encrypted=True), change)
    lines = described(epoch)
    assert lines[0] == f"epoch 2 ({epoch.digest[:16]}) of the federation 1111111111111111"
    assert "rank 9: since round 10, dials out only, key abababababababab…" in lines
    assert f"operators: 1, of whom 1 must sign the next change: {operator_of(SECRET)[:16]}…" in lines
    assert "former members: 0" in lines
    assert "void: epoch 1 (abababababababab)" in lines
    assert lines[-1] == "begins with round 10 of 20"


def test_each_operator_that_is_added_or_removed_and_each_joiners_key_are_printed() -> None:
    hidden = Change({8: Member(address="tcp://h:7", keys=(KEY,))}, operators=(operator_of(OTHER),), rounds=30)
    epoch = next_epoch(there(encrypted=True), hidden)
    lines = differences(there().epoch, epoch)
    assert lines[0] == "joins: rank 8 at tcp://h:7, key abababababababab…"
    assert [one for one in lines if one.startswith("operator")] == [
        f"operator added: {operator_of(OTHER)[:16]}…", f"operator removed: {operator_of(SECRET)[:16]}…",
        "operators: 1, of whom 1 must sign the next change",
    ]  # fmt: skip
    later = next_epoch(there(epoch), leaves(0))
    assert "rank 8: since round 10 at tcp://h:7, key abababababababab…" in described(later), "of every member with one"


def test_the_gap_of_a_functions_graph_is_unknown_here() -> None:
    graph = start().graph.model_copy(update={"settings": {"topology": "function"}})
    assert gap_of(start().model_copy(update={"graph": graph})) is None
