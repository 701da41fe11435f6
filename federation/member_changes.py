"""Member lists in their order: list 0 (the federation file), a change, the next list; asked for and handed over."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from dpeer.atomic import replacing
from dpeer.exceptions import ConfigurationError, DpeerError, not_written
from dpeer.federation import addresses, config, keys
from dpeer.federation.addresses import check_address, is_relay
from dpeer.federation.control_client import NotRunning, ask, ranks_of
from dpeer.federation.policy import check_graph
from dpeer.federation.run_settings import NetworkPart
from dpeer.federation.settings import Settings
from dpeer.peer.core.member_list import (
    MOST_BYTES,
    NO_KEY,
    Former,
    Key,
    Member,
    MemberList,
    MemberListError,
    Stamp,
    decode,
    is_quorum,
    of_document,
)
from dpeer.topology import Topology, shared_name
from dpeer.topology.mixing_matrix import DECLARED, spelled
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
    """The federation file as the list that all others follow."""
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
    """The graph of a list, over its members in the order of their ranks; `graph` is the federation file's.

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


BuildGraph = Callable[[str, Mapping[int, Member]], Topology]
"""Builds the graph of a name and of these members (`named_graph`)."""


@dataclass(frozen=True)
class Situation:
    """What a running peer knows of the member lists of its run, or what files say.

    Attributes:
        counts: The list in use.
        waits: The list that waits for votes; None without one.
        living: The members that answer; None where no peer was asked.
        rank: The peer that was asked; None where none was.
        stamps: By rank, which lists it has on disk, as far as is known.
        round: The round that the peer works on, from 0.
        since: The first round that it worked on by the list in use.
    """

    counts: MemberList
    waits: MemberList | None = None
    living: frozenset[int] | None = None
    rank: int | None = None
    stamps: Mapping[int, Stamp] = field(default_factory=dict)
    round: int | None = None
    since: int | None = None


@dataclass(frozen=True)
class Change:
    """What an operator asks for.

    Attributes:
        add: New members, by rank.
        remove: Members that go.
        move: By rank, the fields of `Member` that change.
        rounds: The number of rounds; None for the same.
        graph: The graph's name; None for the same.
        force: Whether the list counts at once: the operator vouches that removed members do not run on.
        settle: Whether the list takes the place of one that waits.
    """

    add: Mapping[int, Member] = field(default_factory=dict)
    remove: Collection[int] = ()
    move: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    rounds: int | None = None
    graph: str | None = None
    force: bool = False
    settle: bool = False


def next_list(there: Situation, change: Change, build: BuildGraph) -> MemberList:
    """The list that makes a change, not signed.

    Raises:
        ConfigurationError: The change cannot be made; says why, and what would be right.
    """
    before = there.counts
    _check_asked(there, change)
    free = range(before.next_rank, before.next_rank + len(change.add))
    if taken := change.add.keys() - {*free}:
        raise ConfigurationError(
            f"--rank {min(taken)}: ranks follow each other, and none is used twice: the next free one is "
            f"{before.next_rank}"
        )
    for rank in (*change.remove, *change.move):
        if rank not in before.members:
            raise ConfigurationError(f"--rank {rank}: it is no member; members are {in_short(before.members)}")
    moved = {rank: replace(before.members[rank], **fields) for rank, fields in change.move.items()}
    for rank, one in {**moved, **change.add}.items():
        _check_member(rank, one, before)
    members = {**before.members, **moved, **change.add}
    members = {rank: one for rank, one in sorted(members.items()) if rank not in change.remove}
    answer = before.members if there.living is None else there.living
    gone = {rank: Former(before.members[rank].keys, "left" if rank in answer else "evicted") for rank in change.remove}
    asked = before.graph if change.graph is None else change.graph
    try:
        name, graph = shared_name(asked), build(asked, members)
    except ConfigurationError as error:
        raise ConfigurationError(f"graph {asked} of ranks {in_short(members)}: {error}") from error
    if members != before.members or name != before.graph:
        _check_dialled(members, graph, before.rounds)
    made = replace(
        before,
        version=(there.waits or before).version + 1,
        previous=before.digest,
        members=members,
        former={**before.former, **gone},
        rounds=change.rounds or before.rounds,
        graph=name,
        edges=edges_of(graph),
        force=change.force,
        signatures={},
    )
    if not change.settle and not differences(before, made):
        raise ConfigurationError(f"nothing changes: member list {before.version} has all of this already")
    if (why := made.why_not_after(before)) is not None:
        raise ConfigurationError(f"member list {made.version}: {why}")
    return made


def _check_asked(there: Situation, change: Change) -> None:
    """Refuse a change where another list waits, or where too few members answer for its list to count."""
    members = there.counts.members
    if there.waits is not None and not change.settle:
        raise ConfigurationError(
            f"member list {there.waits.version} waits until a quorum has it: try again when it counts (dpeer members "
            "show), or replace it with --settle"
        )
    if change.force or there.living is None:
        return
    if there.rank not in members:
        raise ConfigurationError(f"rank {there.rank} is no member: name the folder of a member's peer")
    if not is_quorum(members, there.living):
        silent = sorted(members.keys() - there.living)
        raise ConfigurationError(
            f"{len(members) - len(silent)} of {len(members)} members answer, which is no quorum: wait for rank "
            f"{in_short(silent)}, or --force a list without them if you can vouch that they do not run on"
        )


def _check_member(rank: int, one: Member, before: MemberList) -> None:
    """Refuse an address or keys that the list cannot have for this rank."""
    keyed = any(other.keys for other in before.members.values())
    if keyed and not one.keys:
        raise ConfigurationError(
            f"--key is missing: each rank of this federation has one (dpeer keygen --rank {rank} prints it at its site)"
        )
    if one.keys and not keyed:
        raise ConfigurationError("--key: this federation has no keys, so nothing would be encrypted: leave it out")
    taken = {owner: other.keys for table in (before.former, before.members) for owner, other in table.items()}
    for owner, known in taken.items():
        if owner != rank and (both := {*one.keys} & {*known}):
            raise ConfigurationError(
                f"--key {min(both)}: it is rank {owner}'s: each rank has a key of its own (dpeer keygen --rank {rank})"
            )
    if one.address is None:
        return
    check_address(one.address, "--address", keyed=keyed)
    if is_relay(one.address):
        return
    for owner, member in before.members.items():
        if owner != rank and member.address == one.address:
            raise ConfigurationError(f"--address {one.address!r}: it is rank {owner}'s: give that of rank {rank}")


def _check_dialled(members: Mapping[int, Member], graph: Topology, rounds: int) -> None:
    """Refuse neighbors of whom neither can be dialled; where no address is known, the launcher knows them."""
    ranks = list(members)
    if all(one.address is None for one in members.values()):
        return
    for place, rank in enumerate(ranks):
        for other in graph.connections(place, rounds):
            if members[rank].address is None and members[ranks[other]].address is None:
                raise ConfigurationError(
                    f"ranks {rank} and {ranks[other]} would be neighbors, and neither has an address: give one of them "
                    "--address, or name another graph with --topology"
                )


def differences(before: MemberList, after: MemberList) -> list[str]:
    """What a list changes, a line for each change; none for the same content."""
    lines = [f"adds rank {rank}: {described(one)}" for rank, one in after.members.items() if rank not in before.members]
    lines += [
        f"rank {rank} {'leaves' if one.gone == 'left' else 'is evicted'}"
        f"{'' if rank in before.members and before.members[rank].keys == one.keys else _keys(one.keys)}"
        for rank, one in after.former.items()
        if rank not in before.former
    ]
    for rank, one in after.members.items():
        was = before.members.get(rank, one)
        if was != one:
            lines.append(f"changes rank {rank}: {described(one)}; before: {described(was)}")
    old, new = ((one.graph, len(one.members)) for one in (before, after))
    # The digest of the edges has the weights, too, which have lines of their own above.
    weights = [[member.weight for member in one.members.values()] for one in (before, after)]
    if old != new or (before.edges != after.edges and weights[0] == weights[1]):
        lines.append(f"graph: {after.graph} of {len(after.members)}; before: {before.graph} of {len(before.members)}")
    if before.rounds != after.rounds:
        lines.append(f"rounds: {after.rounds}; before: {before.rounds}")
    if after.force:
        lines.append("forced: it counts at once, without a quorum")
    return lines


def described(one: Member) -> str:
    """A member's address, weight and keys."""
    where = "dials out only" if one.address is None else one.address
    return f"{where}{'' if one.weight is None else f', weight {one.weight:g}'}{_keys(one.keys)}"


def _keys(keys: Collection[str]) -> str:
    return "".join(f", key {key[:16]}…" for key in keys)


def in_short(ranks: Collection[int]) -> str:
    """Ranks in a row, neighbors in value together: "0-3, 5"."""
    parts: list[list[int]] = []
    for rank in sorted(ranks):
        if parts and rank == parts[-1][-1] + 1:
            parts[-1].append(rank)
        else:
            parts.append([rank])
    return ", ".join(str(one[0]) if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in parts)


class Asked(NamedTuple):
    """Where a change goes, and what is known there; the folder is that of a running peer, None for a list in a file."""

    folder: Path | None
    there: Situation
    settings: Settings


def asked(place: Path, federation: Path | None) -> Asked:
    """What a change of a run, or of the list in a file, follows.

    Args:
        place: The folder of a run of which a peer runs here, or a file with a list.
        federation: The federation file; None for ./dpeer.toml. A running peer has settings of its own.

    Raises:
        ConfigurationError: No peer runs there, its federation has no operators, the file cannot be read, or the
            site's policy forbids the graph's program.
    """
    if not place.is_dir():
        one = read_list(place)
        if config.source(federation) is None:
            raise ConfigurationError(f"{str(place)!r}: name the federation file, too, with --federation FILE")
        found = Asked(None, Situation(one), config.load(federation, {}))
    else:
        folder, answer = _ask(place)
        found = Asked(folder, _situation(answer), Settings.model_validate_json(json.dumps(answer["settings"])))
    check_graph(found.settings.topology, found.settings.secret)
    return found


def look(place: Path) -> tuple[Situation, Mapping[str, Any]]:
    """What a running peer, or a file, says of member lists, and the same as plain JSON values.

    Raises:
        NotRunning: No peer runs there.
        ConfigurationError: The file cannot be read, or is no list.
    """
    if place.is_dir():
        _, answer = _ask(place)
        return _situation(answer), answer
    one = read_list(place)
    return Situation(one), one.document


def hand(folder: Path, one: MemberList) -> None:
    """Hand a list to the peer that runs in a rank's folder; one that it does not take is an error."""
    answer = ask(folder, {"ask": "members", "members": "hand", "list": one.document})
    if not answer["taken"]:
        raise ConfigurationError(
            f"the peer in {str(folder)!r} does not take member list {one.version}: {answer['why']}"
        )


def ask_again(folder: Path) -> Situation:
    """What the peer in a rank's folder knows now."""
    return _situation(ask(folder, {"ask": "members", "members": "show"}))


def _ask(run: Path) -> tuple[Path, Mapping[str, Any]]:
    """The lowest rank of a run folder whose peer runs, and its answer."""
    reasons = []
    for folder in ranks_of(run):
        try:
            return folder, ask(folder, {"ask": "members", "members": "show"})
        except NotRunning as error:
            reasons.append(error)
    raise reasons[0]


def _situation(answer: Mapping[str, Any]) -> Situation:
    try:
        stamps = {int(rank): Stamp(_key(counts), _key(waits)) for rank, (counts, waits) in answer["stamps"].items()}
        waits = answer["next"]
        return Situation(
            of_document(answer["list"]),
            None if waits is None else of_document(waits),
            frozenset(answer["living"]),
            answer["rank"],
            stamps,
            answer["round"],
            answer["since"],
        )
    except (KeyError, TypeError, ValueError, MemberListError) as error:
        raise DpeerError(f"the peer's answer cannot be read ({error!r}): is it of another version of dpeer?") from error


def _key(pair: Any) -> Key:
    return NO_KEY if pair is None else Key(int(pair[0]), bytes.fromhex(pair[1]))


def read_list(file: Path) -> MemberList:
    """The list in a file; its signatures are not verified."""
    try:
        with file.open("rb") as opened:
            return decode(opened.read(MOST_BYTES + 2).removesuffix(b"\n"))
    except OSError as error:
        raise ConfigurationError(f"{str(file)!r}: {error.strerror}") from error
    except MemberListError as error:
        raise ConfigurationError(f"{str(file)!r}: {error}") from error


def write_list(file: Path, one: MemberList) -> None:
    """Write a list to a file, whole or not at all; an earlier one is replaced."""
    try:
        with replacing(file) as draft:
            draft.write_bytes(one.encode() + b"\n")
    except OSError as error:
        raise not_written(repr(str(file)), error) from error
