"""Epochs of a federation: what follows from its settings, and the graphs that peers build of later ones."""

import re
from typing import Any

import pytest

from dpeer.exceptions import AddressError, ConfigurationError, ProtocolError, TopologyError
from dpeer.federation.config import resolve
from dpeer.federation.epoch_graph import built_graph, epoch_graph, first_graph
from dpeer.federation.epoch_setup import FollowedGraphs, epoch_setup
from dpeer.federation.fingerprint import fingerprint
from dpeer.federation.settings import Settings
from dpeer.peer.core.epoch import (
    EpochGraph,
    EpochSetup,
    Member,
    SignedEpoch,
    check_successor,
    operator_of,
    successor,
)
from dpeer.topology import Relabeled, build
from dpeer.topology.settings import build_graph

KEY = "ab" * 32


def setup_of(**values: Any) -> EpochSetup:
    config = resolve(Settings.model_validate({"operators": [KEY], "name": "one", "size": 4, "rounds": 9, **values}), 0)
    graph = build_graph(config.graph)
    compared = fingerprint(config.values(), config.algorithm, graph, config.options)
    found = epoch_setup(config, graph, compared)
    assert found is not None
    return found


def grown(setup: EpochSetup, *joins: int, leave: tuple[int, ...] = (), **more: Any) -> Any:
    ranks = sorted({*setup.first.ranks, *joins} - {*leave})
    graph = more.pop("graph", None) or epoch_graph(setup.first.graph.settings, ranks)
    join = {rank: Member() for rank in joins}
    return successor(setup.first, begins=3, graph=graph, join=join, leave=leave, **more)


def test_without_operators_a_federation_has_no_epochs() -> None:
    config = resolve(Settings(size=4), 0)
    graph = build_graph(config.graph)
    compared = fingerprint(config.values(), config.algorithm, graph, config.options)
    assert epoch_setup(config, graph, compared) is None
    assert {"operators", "signers", "shares", "name"}.isdisjoint(compared)
    assert (
        epoch_setup(resolve(Settings(size=4, operators=[KEY], name="one", algorithm="local"), 0), graph, compared)
        is None
    )


def test_the_first_epoch_is_equal_on_all_peers_and_differs_with_what_they_compare() -> None:
    assert setup_of().first == setup_of(wait=5.0).first
    for other in ({"rounds": 10}, {"size": 5}, {"topology": "full"}, {"body_lr": 0.2}, {"operators": ["cd" * 32]},
                  {"operators": [KEY, "cd" * 32]}, {"name": "two"}):  # fmt: skip
        assert setup_of().first.digest != setup_of(**other).first.digest, other
    assert setup_of(operators=[KEY, "cd" * 32], signers=2).first.signers == 2


def test_an_epoch_of_an_earlier_run_with_the_same_file_is_refused_in_one_of_another_name() -> None:
    secret = bytes([1] * 32)
    earlier, later = (setup_of(operators=[operator_of(secret)], name=f"ward-study-{run}") for run in (1, 2))
    evicts = SignedEpoch(epoch=grown(earlier, leave=(3,))).signed_with(secret)
    check_successor(evicts, earlier.first)
    with pytest.raises(ProtocolError, match="is of another federation"):
        check_successor(evicts, later.first)


REACHED = {
    "tcp://10.0.0.8:7700": (True, True), "tcp://[2001:db8::8]:7700": (True, True), "relay://relay.example:7790":
    (True, False), "ipc:///run/other.sock": (False, True), "inproc://rank-8": (False, True), "x": (False, False),
    "inproc://zeromq.zap.01": (False, True), "tcp://*:7700": (False, False), "tcp://10.0.0.8:0": (False, False),
    "tcp://10.0.0.8": (False, False), "relay://relay.example:0": (False, False), "http://10.0.0.8:7700": (False, False),
}  # fmt: skip


@pytest.mark.parametrize("address", REACHED)
def test_an_epoch_names_no_address_at_which_no_member_could_be_dialled(address: str) -> None:
    tables = {rank: {"key": f"{rank + 1:02x}" * 32} for rank in range(4)}
    for encrypted, accepted in zip((True, False), REACHED[address], strict=True):
        check = setup_of(**({"rank": tables} if encrypted else {})).check_address
        assert check is not None
        if accepted:
            check(address, "members.8.address")
        else:
            with pytest.raises(AddressError, match=re.escape(f"members.8.address = {address!r}: ")):
                check(address, "members.8.address")


def test_the_graph_of_the_first_epoch_is_that_of_the_settings() -> None:
    setup = setup_of()
    graphs = setup.graphs_of(setup.first)
    assert [graphs.at(0, rank) for rank in range(4)] == [build("ring", 4).at(0, rank) for rank in range(4)]


@pytest.mark.parametrize("topology", ["ring", "exponential", "random-matching", "star", "exponential-directed"])
def test_the_graph_of_a_later_epoch_is_that_of_so_many_peers_by_their_ranks(topology: str) -> None:
    setup = setup_of(topology=topology)
    graphs = setup.graphs_of(grown(setup, 4, 9, leave=(1, 2)))
    expected = Relabeled(build(topology, 4), (0, 3, 4, 9))
    for number in range(3):
        assert [graphs.at(number, rank) for rank in (0, 3, 4, 9)] == [
            expected.at(number, rank) for rank in (0, 3, 4, 9)
        ]


def test_participation_is_drawn_among_the_members() -> None:
    setup = setup_of(topology="full", participation=0.5)
    graphs = setup.graphs_of(grown(setup, 7, leave=(0,)))
    for number in range(6):
        assert sum(graphs.at(number, rank).active for rank in (1, 2, 3, 7)) == 2


def test_a_graph_with_other_edges_than_the_epoch_names_is_refused() -> None:
    setup = setup_of()
    epoch = grown(setup, 4)
    other = epoch.model_copy(update={"graph": epoch.graph.model_copy(update={"edges": "f" * 16})})
    with pytest.raises(TopologyError, match="its edges are ffffffffffffffff, and ring of 5 peers has"):
        setup.graphs_of(other)


HOSTILE = {
    "file:/etc/passwd": "unknown topology 'file:/etc/passwd' in an epoch",
    "mine.py:graph": "unknown topology 'mine.py:graph' in an epoch",
    "os:system": "unknown topology 'os:system' in an epoch",
    5: "unknown topology '5' in an epoch",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_epoch_names_no_file_and_no_code_of_a_peers_host(name: Any) -> None:
    setup = setup_of()
    named = EpochGraph(settings={**setup.first.graph.settings, "topology": name}, edges="0" * 16)
    with pytest.raises(TopologyError, match=HOSTILE[name]):
        setup.graphs_of(successor(setup.first, begins=3, graph=named, join={4: Member()}))


def test_a_setting_of_a_graph_that_is_none_is_named() -> None:
    setup = setup_of()
    wrong = EpochGraph(settings={**setup.first.graph.settings, "degree": "many"}, edges="0" * 16)
    with pytest.raises(TopologyError, match="the graph of an epoch, degree: Input should be a valid integer"):
        setup.graphs_of(successor(setup.first, begins=3, graph=wrong, join={4: Member()}))


def test_a_graph_from_a_file_has_its_edges_in_the_epoch(tmp_path: Any) -> None:
    (tmp_path / "line.txt").write_text("0 1\n1 2\n2 3\n")
    name = f"file:{tmp_path / 'line.txt'}"
    setup = setup_of(topology=name)
    assert setup.first.graph.listed == ((0, 1), (1, 2), (2, 3))
    assert setup.first.graph.edges == build(name, 4).digest
    edges = [(0, 1), (1, 3), (9, 3)]
    graph = epoch_graph(setup.first.graph.settings, (0, 1, 3, 9), edges)
    epoch = grown(setup, 9, leave=(2,), graph=graph)
    graphs = setup.graphs_of(epoch)
    line = Relabeled(build(name, 4), (0, 1, 3, 9))
    assert [graphs.at(0, rank) for rank in (0, 1, 3, 9)] == [line.at(0, rank) for rank in (0, 1, 3, 9)]
    with pytest.raises(TopologyError, match="not connected: 2 groups"):
        epoch_graph(setup.first.graph.settings, (0, 1, 3, 9), [(0, 1), (3, 9)])


def test_a_graph_of_a_function_follows_no_change_of_members() -> None:
    ring = build("ring", 4)
    graph = first_graph(Settings(topology="/elsewhere/mine.py:ring"), ring)
    assert graph.settings["topology"] == "function", "a function may have a built-in graph's name"
    with pytest.raises(TopologyError, match="made by a function of the peers"):
        built_graph(graph, (0, 1, 2))


REFUSED = {
    "participation-mode server": {"topology": "full", "weights": "uniform", "participation_mode": "server"},
    "dp-adversary aggregate": {
        "privacy": "client", "noise_multiplier": 2.0, "topology": "full", "weights": "uniform",
        "dp_adversary": "aggregate", "dp_min_honest": 2,
    },
    "participation 0.5 with --privacy": {"privacy": "client", "noise_multiplier": 2.0, "participation": 0.5},
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSED)
def test_what_holds_for_the_first_members_alone_is_refused_with_operators(words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        setup_of(**REFUSED[words])


@pytest.mark.parametrize(("values", "words"), [
    ({"lr_schedule": "cosine"}, "--lr-schedule cosine ends with round 9"),
    ({"algorithm": "dis-pfl"}, "dis-pfl plans its training for 9 rounds"),
])  # fmt: skip
def test_training_that_ends_with_the_planned_rounds_is_not_extended(values: dict[str, Any], words: str) -> None:
    setup = setup_of(**values)
    setup.graphs_of(grown(setup, 4))
    with pytest.raises(TopologyError, match=words):
        setup.graphs_of(grown(setup, 4, rounds=12))


def test_a_graph_that_does_not_suit_a_robust_rule_is_refused() -> None:
    setup = setup_of(topology="full", robust="trimmed-mean:1", size=3)
    with pytest.raises(TopologyError, match="rank 0 has 1 neighbor, of whom it withstands 0"):
        setup.graphs_of(grown(setup, leave=(1,)))


def test_a_graph_on_which_outer_steps_would_drive_peers_apart_is_refused() -> None:
    setup = setup_of(topology="ring", outer="nesterov:1.2:0.9", size=3)  # where every peer hears every other
    with pytest.raises(TopologyError, match="on ring, size 4: what peers disagree about would grow"):
        setup.graphs_of(grown(setup, 4))


def test_a_peer_that_joins_has_no_neighbors_at_the_start() -> None:
    ring = build("ring", 4)
    assert FollowedGraphs(ring, 2).at(0) == ring.at(0, 2)
    joiner = FollowedGraphs(ring, 6).at(0)
    assert (joiner.row, joiner.out_neighbors, joiner.active) == ({6: 1.0}, (), True)
