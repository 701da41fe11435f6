"""Member list 0, which is the federation file, and the graphs of the lists that follow it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from dpeer.exceptions import ConfigurationError
from dpeer.federation import addresses, keys
from dpeer.federation.run_settings import NetworkPart
from dpeer.peer.core.member_list import Member, MemberList, MemberListError
from dpeer.topology import Topology, shared_name
from dpeer.topology.declared import DECLARED, spelled
from dpeer.topology.settings import GraphSettings, build_graph

_CHANGES = ("size", "topology", "weights", "edges", "rounds")
"""Fields of the fingerprint that a list may change; so do those that begin as `_OF_LISTS`."""
_OF_LISTS = ("topology ", "weight of ")


def federation_of(fingerprint: Mapping[str, Any]) -> str:
    """What the lists of a federation name it by: a hash of its fingerprint without what lists change, hexadecimal."""
    lasting = {
        name: value for name, value in fingerprint.items() if name not in _CHANGES and not name.startswith(_OF_LISTS)
    }
    return hashlib.sha256(json.dumps(lasting, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def list_zero(graph: GraphSettings, network: NetworkPart, rounds: int, fingerprint: Mapping[str, Any]) -> MemberList:
    """The federation file as the list that all others follow.

    Args:
        graph: The settings of the graph.
        network: The ranks' tables.
        rounds: How many the run has.
        fingerprint: The federation's, as peers compare it.

    Raises:
        ConfigurationError: No such graph exists, or an address or a key is none.
    """
    listed, known = addresses.addresses(network, graph.size), keys.public_keys(network, graph.size)
    drawn = build_graph(graph)
    brought = dict(enumerate(drawn.declared))
    return MemberList(
        federation=federation_of(fingerprint),
        version=0,
        previous=b"",
        members={
            rank: Member(listed.get(rank), tuple(key.hex() for key in known.get(rank, ())), brought.get(rank))
            for rank in range(graph.size)
        },
        former={},
        rounds=rounds,
        graph=shared_name(graph.topology),
        edges=edges_of(drawn),
    )


def edges_of(graph: Topology) -> str:
    """The digest of a graph's edges and weights, as a list has it."""
    return hashlib.sha256(f"{graph.digest} {graph.weights_rule}".encode()).hexdigest()[:32]


def graph_of_list(graph: GraphSettings, one: MemberList) -> Topology:
    """The graph of a list, over its members in the order of their ranks.

    Args:
        graph: The settings of the graph in the federation file.
        one: The list.

    Raises:
        MemberListError: No such graph exists, it is another one on this host, or a member cannot be dialled.
    """
    keyed = all(member.keys for member in one.members.values())
    try:
        for rank, member in one.members.items():
            if member.address is not None:
                addresses.check_address(member.address, f"rank {rank}'s address", keyed=keyed)
    except ConfigurationError as error:
        raise MemberListError(f"member list {one.version}: {error}") from error
    try:
        found = named_graph(graph, one.graph, one.members)
    except ConfigurationError as error:
        raise MemberListError(f"member list {one.version}: graph {one.graph!r}: {error}") from error
    if edges_of(found) != one.edges:
        raise MemberListError(
            f"member list {one.version}: graph {one.graph!r} has other edges here than where the list was made: use "
            "the same graph_seed, file, function and release of dpeer on both"
        )
    return found


def named_graph(graph: GraphSettings, name: str, members: Mapping[int, Member]) -> Topology:
    """The graph that a list of these members would name so.

    Raises:
        ConfigurationError: No such graph exists, or a member has a weight and should have none, or none and needs one.
    """
    topology = graph.topology if name == shared_name(graph.topology) else name
    if topology != graph.topology and shared_name(name) != name:
        raise ConfigurationError(f"{name!r}: a list names no file: each site has its own in the federation file")
    changed: dict[str, Any] = {"size": len(members), "topology": topology}
    declared = graph.weights.partition(":")[0] == DECLARED
    if strange := [rank for rank, one in members.items() if (one.weight is not None) != declared]:
        has = "no weight, and all others have" if declared else "a weight, which this federation does not use"
        raise ConfigurationError(f"rank {strange[0]} has {has}")
    if declared:
        changed["weights"] = spelled([one.weight for one in members.values() if one.weight is not None])
    return build_graph(graph.model_copy(update=changed))
