"""List 0 is the federation file, and a list's graph is built over as many members as it has."""

from dataclasses import replace

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.federation.member_changes import edges_of, federation_of, graph_of_list, list_zero, named_graph
from dpeer.federation.settings import Settings
from dpeer.peer.core.member_list import Member, MemberListError
from dpeer.topology import TOPOLOGIES, build
from tests.error_texts import refused

FINGERPRINT = {
    "size": 4,
    "topology": "ring",
    "topology degree": 4,
    "weights": "metropolis",
    "edges": "aa",
    "rounds": 60,
    "seed": 1,
}
KEYS = {rank: f"{rank + 1:064x}" for rank in range(4)}


def settings(**changes):
    ranks = {rank: {"address": f"tcp://10.8.0.{rank}:7700", "key": KEYS[rank]} for rank in range(4)}
    return Settings.model_validate({"size": 4, "topology": "ring", "rounds": 60, "rank": ranks, **changes})


def zero(**changes):
    given = settings(**changes)
    return list_zero(given, given, given.rounds, FINGERPRINT)


def members(size):
    return {rank: Member() for rank in range(size)}


def test_the_federation_file_is_list_0():
    one = zero()
    assert (one.version, one.previous, one.former, one.rounds, one.graph) == (0, b"", {}, 60, "ring")
    assert one.members == {rank: Member(f"tcp://10.8.0.{rank}:7700", (KEYS[rank],)) for rank in range(4)}
    assert one.edges == edges_of(build("ring", 4))
    assert one.federation == federation_of(FINGERPRINT)


@pytest.mark.parametrize(
    "name", ["size", "topology", "topology degree", "weights", "weight of rank 3", "edges", "rounds"]
)
def test_what_a_list_changes_is_not_of_the_federation_s_name(name):
    assert federation_of({**FINGERPRINT, name: "another"}) == federation_of(FINGERPRINT)
    assert federation_of({**FINGERPRINT, "seed": 2}) != federation_of(FINGERPRINT)


def test_a_list_s_graph_has_as_many_peers_as_members_and_keeps_the_parameters_of_the_file():
    file = settings(topology="random-regular:3")
    one = zero(topology="random-regular:3")
    assert graph_of_list(file, one) == build("random-regular:3", 4)
    six = replace(
        one, version=1, members={**one.members, 7: Member(), 9: Member()}, edges=edges_of(build("random-regular:3", 6))
    )
    assert graph_of_list(file, six) == build("random-regular:3", 6)
    assert named_graph(settings(topology="grid"), "grid", members(6)).parameters == {"grid_shape": [2, 3]}
    with pytest.raises(ConfigurationError, match="grid:2x2 does not hold 6 peers"):
        named_graph(settings(topology="grid:2x2"), "grid:2x2", members(6))


@pytest.mark.parametrize("name", sorted({*TOPOLOGIES, *(kind.example for kind in TOPOLOGIES.values())}))
def test_all_members_build_the_graph_that_an_operator_names_whatever_graph_their_files_name(name):
    size = 12 if name == "torus:3x4" else 8
    edges = edges_of(named_graph(settings(), name, members(size)))
    one = replace(zero(), version=1, members=members(size), graph=name, edges=edges)
    for topology in ("ring", "random-regular:3", name):
        assert graph_of_list(settings(topology=topology), one) == build(name, size)


def test_a_list_names_no_file_of_a_site(in_tmp_path):
    (in_tmp_path / "mine.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    (in_tmp_path / "edges.txt").write_text("0 1\n")
    for name in ("mine.py:graph", "file:edges.txt"):
        with refused(ConfigurationError, f"{name!r}: a list names no file"):
            named_graph(settings(), name, members(4))
    assert not (in_tmp_path / "ran").exists()
    given = settings(topology="file:edges.txt", size=2, rank={})
    assert named_graph(given, "file", members(2)).size == 2, "its own file goes by the name that all know"
    with pytest.raises(MemberListError, match=r"member list 1: graph 'ring' has other edges here"):
        graph_of_list(settings(), replace(zero(), version=1, edges="00" * 16))


@pytest.mark.parametrize("address", ["nonsense", "tcp://*:1", "tcp://10.0.0.1:0", "relay://relay.example:7790"])
def test_a_list_with_an_address_that_nobody_can_dial_is_refused(address: str) -> None:
    one = replace(zero(), version=1, members={**zero().members, 1: Member(address)})
    with pytest.raises(MemberListError, match="member list 1: rank 1's address"):
        graph_of_list(settings(), one)


DECLARED = {"weights": "declared:400,20,30.5,7"}


def test_list_0_has_the_declared_weights_of_the_federation_file():
    one = zero(**DECLARED)
    assert [member.weight for member in one.members.values()] == [400, 20, 30.5, 7]
    assert one.edges == edges_of(build("ring", 4, **DECLARED)) != zero().edges
    assert one.digest != zero(weights="declared:400,20,30.5,8").digest
    assert graph_of_list(settings(**DECLARED), one) == build("ring", 4, **DECLARED)


def test_a_list_with_weights_that_do_not_fit_is_refused():
    """Of a weight too few or too many: tests/federation/test_member_changes.py."""
    one = zero(**DECLARED)
    forged = replace(one, version=1, members={**one.members, 2: replace(one.members[2], weight=9.0)})
    with pytest.raises(MemberListError, match="graph 'ring' has other edges here"):
        graph_of_list(settings(**DECLARED), forged)
