"""Next epoch: builds the unsigned epoch of an operator's change by what a running peer knows, or refuses it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from dpeer.exceptions import ConfigurationError, DpeerError, ProtocolError
from dpeer.federation.addresses import check_member_address
from dpeer.federation.epoch_graph import LISTED, built_graph, epoch_graph
from dpeer.federation.operators import check_keys
from dpeer.peer.core.epoch import Edge, Epoch, EpochGraph, Member, SignedEpoch, Void, successor
from dpeer.peer.core.epoch_follower import AHEAD
from dpeer.peer.core.limits import HIGHEST_RANK, MOST_MEMBERS
from dpeer.peer.transport import RELAY
from dpeer.results.units import in_short
from dpeer.topology import TimeVaryingTopology, Topology, parts
from dpeer.topology.settings import fresh_topology
from dpeer.topology.user_graphs import edges_of, is_function


@dataclass(frozen=True)
class Situation:
    """What a running peer answers to a request for its membership.

    Attributes:
        epoch: The newest epoch that it has accepted, which the next one follows.
        round: The round that it works on.
        diameter: In how many rounds a message from it reaches all members, counted from the next round on.
        void: The epochs after that one that have not begun, and never will.
        encrypted: Whether connections need keys.
        addresses: By rank, the addresses that its federation file has.
        keys: By rank, the public keys that it has, hexadecimal.
    """

    epoch: Epoch
    round: int
    diameter: int
    void: tuple[Void, ...] = ()
    encrypted: bool = False
    addresses: Mapping[int, str] = field(default_factory=dict)
    keys: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Situation:
        """The situation that an answer describes.

        Raises:
            DpeerError: The peer is of another version of dpeer.
        """
        try:
            return cls(
                SignedEpoch.decode(base64.b64decode(answer["document"], validate=True)).epoch,
                int(answer["round"]),
                int(answer["diameter"]),
                tuple(Void(int(number), str(digest)) for number, digest in answer.get("void", ())),
                bool(answer.get("encrypted")),
                {int(rank): str(address) for rank, address in answer.get("addresses", {}).items()},
                {int(rank): tuple(map(str, keys)) for rank, keys in answer.get("keys", {}).items()},
            )
        except (KeyError, TypeError, ValueError, binascii.Error, ProtocolError) as error:
            raise DpeerError(
                f"the peer's answer cannot be read ({error!r}): is it of another version of dpeer?"
            ) from error

    def answer(self, signatures: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The same as plain JSON values."""
        signed = SignedEpoch(epoch=self.epoch, signatures=dict(signatures or {}))
        return {
            "document": base64.b64encode(signed.encode()).decode(),
            "round": self.round,
            "diameter": self.diameter,
            "void": [list(one) for one in self.void],
            "encrypted": self.encrypted,
            "addresses": {str(rank): address for rank, address in self.addresses.items()},
            "keys": {str(rank): list(keys) for rank, keys in self.keys.items()},
        }

    @property
    def earliest(self) -> int:
        """The first round in which a change may begin that this peer is handed now."""
        return max(self.round + self.diameter + AHEAD, self.epoch.begins + 1)


@dataclass(frozen=True)
class Change:
    """What an operator asks for.

    Attributes:
        join: New members by rank.
        leave: Ranks that leave.
        evict: Ranks that are taken out.
        rounds: The number of rounds; None for the same.
        operators: Public keys of the operators from then on; None for the same.
        signers: How many of them must sign the next change; None for as many.
        forced: Whether it begins without a quorum of the members so far.
        graph: Settings of the graph that change, by name.
        edges: New edges, for a graph that is a list of edges.
        word: What the operator's command is called, for errors.
    """

    join: Mapping[int, Member] = field(default_factory=dict)
    leave: tuple[int, ...] = ()
    evict: tuple[int, ...] = ()
    rounds: int | None = None
    operators: tuple[str, ...] | None = None
    signers: int | None = None
    forced: bool = False
    graph: Mapping[str, Any] = field(default_factory=dict)
    edges: tuple[Edge, ...] = ()
    word: str = "change"

    @property
    def gone(self) -> tuple[int, ...]:
        """The ranks that are no members any more."""
        return (*self.leave, *self.evict)


def next_epoch(there: Situation, change: Change, *, begins: int = 0) -> Epoch:
    """The epoch that makes a change, not signed.

    Args:
        there: What the peer knows that will be handed it.
        change: The change.
        begins: The first round in it, if that is not too early.

    Raises:
        ConfigurationError: The change cannot be made; says why, and what would be right.
    """
    before, begins = there.epoch, max(there.earliest, begins)
    _check_join(there, change)
    _check_leave(before, change)
    if change.rounds is not None and change.rounds <= before.rounds:
        raise ConfigurationError(
            f"--rounds {change.rounds}: the federation has {before.rounds} already, and they only grow: give more"
        )
    check_keys(
        list(before.operators if change.operators is None else change.operators),
        before.signers if change.signers is None else change.signers, "--signers", "the federation has",
    )  # fmt: skip
    # All know an epoch before its first round, if every peer runs so long.
    if begins > before.rounds or (change.rounds is None and begins >= before.rounds):
        raise ConfigurationError(
            f"too late: this {change.word} could begin with round {begins + 1}, and the run ends with round "
            f"{before.rounds}{'' if change.rounds else ': dpeer extend it first'}"
        )
    ranks = sorted({*before.members, *change.join} - {*change.gone})
    graph = _next_graph(before, change, ranks)
    if ranks != list(before.ranks) or graph != before.graph:
        _check_reachable(there, change, graph, ranks)
    try:
        return successor(
            before, begins=begins, graph=graph, join=change.join, leave=change.leave, evict=change.evict,
            rounds=change.rounds,
            operators=change.operators, signers=change.signers, void=there.void, forced=change.forced,
        )  # fmt: skip
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise ConfigurationError(f"{change.word}: {first['msg'].removeprefix('Value error, ')}") from error


def _check_join(there: Situation, change: Change) -> None:
    before = there.epoch
    for rank, member in change.join.items():
        if rank in before.members:
            raise ConfigurationError(f"--rank {rank}: it is a member; the next free rank is {before.highest + 1}")
        if rank in before.former:
            raise ConfigurationError(
                f"--rank {rank}: it was a member once, and a rank is never used again; the next free one is "
                f"{before.highest + 1}"
            )
        if not 0 <= rank <= HIGHEST_RANK:
            raise ConfigurationError(f"--rank {rank}: expected a rank from 0 to {HIGHEST_RANK}")
        if member.address is not None:
            check_member_address(member.address, "--address", encrypted=there.encrypted)
            _check_free(member.address, there, rank)
        for other, keys in there.keys.items():
            if shared := {*keys} & {*member.keys}:
                raise ConfigurationError(
                    f"--key {min(shared)}: it is rank {other}'s: each rank has a key of its own (dpeer keygen --rank "
                    f"{rank}, at its site)"
                )
        if there.encrypted and not member.keys:
            raise ConfigurationError(
                f"--rank {rank}: this federation's connections need keys: give the new member's with --key (dpeer "
                f"keygen --rank {rank} prints it at its site)"
            )
        if member.keys and not there.encrypted:
            raise ConfigurationError(
                f"--key for rank {rank}: this federation lists no keys, so nothing would be encrypted: leave it out"
            )
    if len(before.members) + len(change.join) > MOST_MEMBERS:
        raise ConfigurationError(f"{len(before.members) + len(change.join)} members: at most {MOST_MEMBERS}")


def _check_free(address: str, there: Situation, joins: int) -> None:
    """Refuse the address of another member; of a relay many have the same."""
    owner = next((rank for rank in there.epoch.ranks if there.addresses.get(rank) == address), None)
    if owner is not None and not address.startswith(RELAY):
        raise ConfigurationError(f"--address {address!r}: it is rank {owner}'s: give that of rank {joins}")


def _check_leave(before: Epoch, change: Change) -> None:
    for rank in change.gone:
        if rank not in before.members:
            raise ConfigurationError(f"--rank {rank}: it is no member; members are {in_short(before.ranks)}")
    if len(before.members) - len({*change.gone}) + len(change.join) < 2:
        raise ConfigurationError(
            f"--rank {in_short(change.gone)}: fewer than 2 members would be left: stop the peers instead"
        )


def _next_graph(before: Epoch, change: Change, ranks: list[int]) -> EpochGraph:
    """The graph of the next epoch."""
    settings, listed = dict(before.graph.settings), list(before.graph.listed)
    given = dict(change.graph)
    if ranks == list(before.ranks) and not given and not change.edges:
        return before.graph
    if given.get("fresh_neighbors") is not None:
        given["topology"], _ = fresh_topology(str(given["fresh_neighbors"]), given.get("topology"))
    elif "topology" in given:
        settings.pop("fresh_neighbors", None)
    name = given.get("topology")
    if isinstance(name, str) and name.startswith("file:"):
        given["topology"], listed = LISTED, edges_of(name)
    elif isinstance(name, str) and is_function(name):
        raise ConfigurationError(
            f"--topology {name}: only this host has the function: write its edges to a file, and name it as file:PATH"
        )
    elif name is not None:
        listed = []
    settings |= given
    if settings.get("topology") != LISTED:
        if change.edges:
            raise ConfigurationError(
                f"--edge is for a graph that is a list of edges, and this is {settings.get('topology')}: leave it out, "
                "or give --topology file:PATH"
            )
        return epoch_graph(settings, ranks)
    edges = [edge for edge in (*listed, *change.edges) if set(edge).isdisjoint(change.gone)]
    _check_edges(change, ranks, edges)
    return epoch_graph({"topology": LISTED, "weights": settings.get("weights", "metropolis")}, ranks, edges)


def _check_edges(change: Change, ranks: list[int], edges: list[Edge]) -> None:
    """Refuse edges that do not join the members, with the ranks that they leave apart."""
    strange = sorted({rank for edge in edges for rank in edge} - {*ranks})
    if strange:
        raise ConfigurationError(f"an edge joins rank {strange[0]}, which is no member: members are {in_short(ranks)}")
    groups = parts(ranks, edges)
    if len(groups) > 1:
        apart = " and ".join(f"rank{'s' if len(group) > 1 else ''} {in_short(group)}" for group in groups)
        raise ConfigurationError(
            f"this {change.word} would disconnect the graph: {apart} would never agree: add edges with --edge A:B, or "
            "name another graph with --topology"
        )


def _check_reachable(there: Situation, change: Change, graph: EpochGraph, ranks: list[int]) -> None:
    """Refuse a graph in which two neighbors can only dial out; where no address is known, nothing is checked."""
    known = dict(there.addresses)
    known |= {rank: one.address for rank, one in there.epoch.members.items() if one.address is not None}
    known |= {rank: one.address for rank, one in change.join.items() if one.address is not None}
    silent = {rank for rank in ranks if rank not in known}
    if not there.addresses or len(silent) < 2:
        return
    for one, other in neighbors(built_graph(graph, ranks), ranks, there.epoch.rounds):
        if one in silent and other in silent:
            raise ConfigurationError(
                f"ranks {one} and {other} would be neighbors, and neither has an address: give one of them an address, "
                "or name another graph with --topology"
            )


def neighbors(graph: Topology | TimeVaryingTopology, ranks: list[int], rounds: int) -> list[Edge]:
    """The pairs of ranks that are neighbors in some round.

    Args:
        graph: Over the places of the ranks.
        ranks: The members, sorted.
        rounds: How many rounds the run has.
    """
    return [
        (rank, ranks[other])
        for place, rank in enumerate(ranks)
        for other in graph.connections(place, rounds)
        if other > place
    ]
