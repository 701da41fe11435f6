"""Member lists in their order: list 0 (the federation file), a change, the next list; asked for and handed over."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dpeer.atomic import replacing
from dpeer.exceptions import ConfigurationError, DpeerError, not_written
from dpeer.federation import addresses, config, keys
from dpeer.federation.control_client import NotRunning, ask, ranks_of
from dpeer.federation.policy import check_graph
from dpeer.federation.run_settings import NetworkPart
from dpeer.federation.settings import RankSettings, Settings
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
from dpeer.peer.core.schedule import ListedGraph
from dpeer.peer.peer import dialled
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
    listed, known = addresses.addresses(network, graph.size), keys.public_keys(network, range(graph.size))
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
    try:
        _check_addresses(one.members)
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


def _check_addresses(members: Mapping[int, Member]) -> None:
    keyed = all(member.keys for member in members.values())
    for rank, member in members.items():
        if member.address is not None:
            addresses.check_address(member.address, f"rank {rank}'s address", keyed=keyed)


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


def with_ranks_of(one: MemberList, settings: Settings) -> Settings:
    """The settings with the addresses and keys of a list; ranks that are out keep their keys, and get only the list."""
    places: dict[int, tuple[str | None, tuple[str, ...]]] = {
        **{rank: (member.address, member.keys) for rank, member in one.members.items()},
        **{rank: (None, former.keys) for rank, former in one.former.items()},
    }
    unset = RankSettings.model_validate({})
    ranks = {
        rank: settings.rank.get(rank, unset).model_copy(update={"address": address, "key": list(own) or None})
        for rank, (address, own) in places.items()
    }
    return settings.model_copy(update={"rank": ranks})


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
        folder: The folder of the peer that was asked; None where none was.
        plain: The peer's answer, or the list of the file, as plain JSON values.
    """

    counts: MemberList
    waits: MemberList | None = None
    living: frozenset[int] | None = None
    rank: int | None = None
    stamps: Mapping[int, Stamp] = field(default_factory=dict)
    round: int | None = None
    since: int | None = None
    folder: Path | None = None
    plain: Mapping[str, Any] = field(default_factory=dict)


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


def next_list(there: Situation, change: Change, settings: Settings) -> MemberList:
    """The list that makes a change, not signed.

    Raises:
        ConfigurationError: The change cannot be made; says why, and what would be right.
    """
    before = there.counts
    _check_asked(there, change)
    if taken := change.add.keys() - {*range(before.next_rank, before.next_rank + len(change.add))}:
        raise ConfigurationError(
            f"--rank {min(taken)}: ranks follow each other, and none is used twice: the next free one is "
            f"{before.next_rank}"
        )
    for rank in (*change.remove, *change.move):
        if rank not in before.members:
            raise ConfigurationError(f"--rank {rank}: it is no member; members are {in_short(before.members)}")
    moved = {rank: replace(before.members[rank], **fields) for rank, fields in change.move.items()}
    members = {**before.members, **moved, **change.add}
    members = {rank: one for rank, one in sorted(members.items()) if rank not in change.remove}
    answer = before.members if there.living is None else there.living
    gone = {rank: Former(before.members[rank].keys, "left" if rank in answer else "evicted") for rank in change.remove}
    asked = before.graph if change.graph is None else change.graph
    try:
        name, graph = shared_name(asked), named_graph(settings, asked, members)
    except ConfigurationError as error:
        raise ConfigurationError(f"graph {asked} of ranks {in_short(members)}: {error}") from error
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
    _check_addresses(members)
    _check_ranks(with_ranks_of(made, settings), ListedGraph(graph, members, made.rounds))
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


def _check_ranks(settings: Settings, graph: ListedGraph) -> None:
    """Refuse addresses and keys of a list's ranks as their starts would."""
    keys.public_keys(settings, settings.rank)
    if addresses.from_file(settings):  # else the launcher knows them
        everyone = addresses.addresses(settings, settings.size)
        for rank in graph.members:
            dialled(rank, graph.connections(rank), everyone)


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


def look(place: Path) -> Situation:
    """What the running peer of lowest rank in a run folder, or a file, says of member lists.

    Raises:
        NotRunning: No peer runs there.
        ConfigurationError: The file cannot be read, or is no list.
    """
    if not place.is_dir():
        one = read_list(place)
        return Situation(one, plain=one.document)
    reasons = []
    for folder in ranks_of(place):
        try:
            return _situation(folder, ask(folder, {"ask": "members", "members": "show"}))
        except NotRunning as error:
            reasons.append(error)
    raise reasons[0]


def settings_of(place: Path, there: Situation, federation: Path | None) -> Settings:
    """The settings of the federation of `look(place)`: those of the running peer, or of the federation file.

    Raises:
        ConfigurationError: The federation file is missing, or the site's policy forbids the graph's program.
    """
    if there.folder is not None:
        settings = Settings.model_validate_json(json.dumps(there.plain["settings"]))
    elif config.source(federation) is None:
        raise ConfigurationError(f"{str(place)!r}: name the federation file, too, with --federation FILE")
    else:
        settings = config.load(federation, {})
    check_graph(settings.topology, settings.secret)
    return settings


def hand(folder: Path, one: MemberList) -> None:
    """Hand a list to the peer that runs in a rank's folder; one that it does not take is an error."""
    answer = ask(folder, {"ask": "members", "members": "hand", "list": one.document})
    if not answer["taken"]:
        raise ConfigurationError(
            f"the peer in {str(folder)!r} does not take member list {one.version}: {answer['why']}"
        )


def _situation(folder: Path, answer: Mapping[str, Any]) -> Situation:
    try:
        return Situation(
            of_document(answer["list"]),
            None if answer["next"] is None else of_document(answer["next"]),
            frozenset(answer["living"]),
            answer["rank"],
            {int(rank): Stamp(_key(counts), _key(waits)) for rank, (counts, waits) in answer["stamps"].items()},
            answer["round"],
            answer["since"],
            folder,
            answer,
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
