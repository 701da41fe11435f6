"""Epochs in words for operators: an epoch, its changes and its graph in lines, and ranks in short form."""

from __future__ import annotations

from dpeer.exceptions import ConfigurationError
from dpeer.federation.epoch_graph import FUNCTION, LISTED, built_graph
from dpeer.peer.core.epoch import Epoch, Member, operator_lines
from dpeer.results.units import in_short
from dpeer.topology import spectral_gap


def differences(before: Epoch, after: Epoch) -> list[str]:
    """What an epoch changes, in lines for its operator; ends with the round in which it begins."""
    joined, left, evicted = _moves(before, after)
    lines = [f"joins: rank {rank}{_at(after.members[rank])}" for rank in joined]
    lines += [f"leaves: rank {rank}" for rank in left]
    lines += [f"is evicted: rank {rank}" for rank in evicted]
    lines.append(f"members: {in_short(after.ranks)} ({len(after.members)}, before {len(before.members)})")
    lines.append(f"graph: {graph_line(after)}; before: {graph_line(before)}")
    if after.rounds != before.rounds:
        lines.append(f"rounds: {after.rounds}, before {before.rounds}")
    lines += operator_lines(before, after)
    lines += [f"void: epoch {one.number} ({one.digest[:16]})" for one in after.void]
    if after.forced:
        lines.append("forced: it begins without a quorum of the members so far")
    lines.append(f"epoch {after.number} begins with round {after.begins + 1} of {after.rounds}")
    return lines


def described(epoch: Epoch) -> list[str]:
    """An epoch in lines."""
    lines = [
        f"epoch {epoch.number} ({epoch.digest[:16]}) of the federation {epoch.genesis[:16]}",
        f"members: {in_short(epoch.ranks)} ({len(epoch.members)})",
    ]
    lines += [
        f"rank {rank}: since round {member.since + 1}{_at(member)}"
        for rank, member in sorted(epoch.members.items())
        if member.since or member.address or member.keys
    ]
    if epoch.former:
        lines.append(f"former members: {in_short(epoch.former)}")
    if epoch.evicted:
        lines.append(f"evicted: {in_short(epoch.evicted)}")
    lines.append(f"graph: {graph_line(epoch)}")
    lines.append(
        f"operators: {len(epoch.operators)}, of whom {epoch.signers} must sign the next change: "
        f"{', '.join(f'{key[:16]}…' for key in epoch.operators)}"
    )
    lines += [f"void: epoch {one.number} ({one.digest[:16]})" for one in epoch.void]
    if epoch.forced:
        lines.append("forced: it begins without a quorum of the members before it")
    lines.append(f"begins with round {epoch.begins + 1} of {epoch.rounds}")
    return lines


def graph_line(epoch: Epoch) -> str:
    """The graph of an epoch and its spectral gap."""
    name = epoch.graph.settings.get("topology")
    what = {LISTED: f"{len(epoch.graph.listed)} listed edges", FUNCTION: "a function's"}.get(str(name), str(name))
    gap = gap_of(epoch)
    known = "" if gap is None else f", spectral gap {gap:.4f}"
    return f"{what} of {len(epoch.members)}{known}"


def gap_of(epoch: Epoch) -> float | None:
    """The spectral gap of an epoch's graph; None where only the hosts of its peers can make it, or it is too large."""
    try:
        return spectral_gap(built_graph(epoch.graph, epoch.ranks))
    except ConfigurationError:
        return None


def _moves(before: Epoch, after: Epoch) -> tuple[list[int], list[int], list[int]]:
    """The ranks that join, that leave, and that are evicted."""
    gone, evicted = set(after.former) - set(before.former), set(after.evicted) - set(before.evicted)
    return sorted(after.members.keys() - before.members.keys()), sorted(gone - evicted), sorted(evicted)


def _at(member: Member) -> str:
    where = ", dials out only" if member.address is None else f" at {member.address}"
    return where + "".join(f", key {key[:16]}…" for key in member.keys)
