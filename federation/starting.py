"""Starting peer: rank, keys, addresses, proxy and neighbors to dial, of its settings or a member list."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path

from dpeer.exceptions import ConfigurationError
from dpeer.federation import addresses, keys
from dpeer.federation.folders import holds_files
from dpeer.federation.keys import signers_of
from dpeer.federation.member_changes import graph_of_list, in_short, read_list, with_ranks_of
from dpeer.federation.policy import Verdicts, find
from dpeer.federation.settings import Settings
from dpeer.peer.core.member_list import MemberList
from dpeer.peer.core.schedule import ListedGraph
from dpeer.peer.member_files import read_lists
from dpeer.peer.peer import dialled
from dpeer.peer.transports import Keyring
from dpeer.peer.transports.proxies import Proxies, proxies
from dpeer.results.files import rank_folder
from dpeer.topology import take_part
from dpeer.topology.settings import build_graph

ENVIRONMENT = "env"
"""Said in place of a number: the rank is that of Slurm, Open MPI or a pod's name."""

_VARIABLES = ("SLURM_ARRAY_TASK_ID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
"""The first that is set counts: each task of a Slurm array is a job of its own, in which SLURM_PROCID begins at 0."""


def own_rank(text: str) -> int:
    """The rank that `--rank` says: a number from 0, or that of the environment for `ENVIRONMENT`."""
    if text != ENVIRONMENT:
        return _number(text, "--rank")
    if (name := _variable()) is not None:
        return _number(os.environ[name], f"{name} =")
    ordinal = re.search(r"-(\d+)$", socket.gethostname())
    if ordinal:
        return int(ordinal[1])
    raise ConfigurationError(
        "--rank env: neither SLURM_PROCID nor OMPI_COMM_WORLD_RANK is set, and the host name does not end in -NUMBER"
    )


def source() -> str:
    """What `--rank env` takes the rank from: an environment variable, or the host name."""
    return _variable() or f"the host name {socket.gethostname()!r}"


def _variable() -> str | None:
    return next((name for name in _VARIABLES if name in os.environ), None)


def _number(text: str, source: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ConfigurationError(f"{source} {text!r}: expected a number from 0, or `--rank env`")
    return int(text)


class Starting:
    """One peer of a federation on several hosts, as `dpeer start` starts it and `dpeer check` looks at it.

    Args:
        settings: The federation's.
        rank: The peer.
        members: The file of a member list with which it starts; without one, on a resume, its folder's newest counts.
        resume: Whether it goes on in its folder.
        resume_or_start: Whether it goes on where its folder holds a run.

    Attributes:
        settings: As given, with the addresses and keys of the list.
        given: The list of the file; None without one.
        listed: The list that addresses, keys and graph are of; None for the federation file.
        own: The settings as this rank uses them.

    Raises:
        ConfigurationError: The rank does not exist.
    """

    def __init__(
        self,
        settings: Settings,
        rank: int,
        members: Path | None = None,
        *,
        resume: bool = False,
        resume_or_start: bool = False,
    ) -> None:
        self.rank = rank
        self.given: MemberList | None = None
        if members is not None:
            signers_of(settings)
            self.given = read_list(members)
            if rank not in self.given.members:
                ranks = in_short(self.given.members)
                raise ConfigurationError(f"--rank {rank}: {str(members)!r} has the members {ranks}, and not this one")
        folder = rank_folder(settings.of_rank(rank).out, rank)
        self.resume = resume or (resume_or_start and holds_files(folder))
        self.listed = _newest(folder, rank) if self.resume and members is None else self.given
        if self.listed is None and rank >= settings.size:
            raise ConfigurationError(
                f"--rank {rank}: the federation file has the ranks 0..{settings.size - 1}: start with --members FILE, "
                "the list with which an operator has added this one"
            )
        self.settings = settings if self.listed is None else with_ranks_of(self.listed, settings)
        own = self.settings.of_rank(rank)
        self.own = own if own.deadline is not None else own.model_copy(update={"deadline": "auto"})

    def verdicts(self) -> Verdicts:
        """What the site's policy says of this start."""
        if (policy := find(self.own.secret)) is None:
            return
        values = dict(self.own) if self.listed is None else {**dict(self.own), "rounds": self.listed.rounds}
        found = [*policy.verdicts(values, partial(self.own.origin, self.rank))]
        yield from found
        if policy.neighbors is not None and all(allowed for allowed, _ in found):  # a program may make the graph
            known = keys.public_keys(self.settings, range(self.settings.size))
            yield from policy.of_neighbors(
                {rank: [key.hex() for key in known.get(rank, ())] for rank in self.neighbors}
            )

    @cached_property
    def keyring(self) -> Keyring | None:
        """See `keys.keyring`."""
        return keys.keyring(self.own, self.own.size, self.rank)

    @cached_property
    def listen(self) -> str | None:
        """See `addresses.listen_address`."""
        return addresses.listen_address(
            self.settings, self.settings.size, self.rank, encrypted=self.keyring is not None
        )

    @cached_property
    def through(self) -> Proxies:
        """See `proxies`."""
        return proxies(self.own.proxy)

    @cached_property
    def everyone(self) -> Mapping[int, str]:
        """See `addresses.addresses`."""
        return addresses.addresses(self.settings, self.settings.size)

    @cached_property
    def graph(self) -> ListedGraph | None:
        """The graph, with those alone that take part in a round; None for a peer that sends nothing.

        Raises:
            ConfigurationError: No such graph exists.
            MemberListError: That of the list is another one here.
        """
        own, listed = self.own, self.listed
        if own.algorithm == "local":
            return None
        drawn = build_graph(self.settings) if listed is None else graph_of_list(self.settings, listed)
        members, rounds = (range(own.size), own.rounds) if listed is None else (listed.members, listed.rounds)
        return ListedGraph(take_part(drawn, own.participation, own.participation_mode, own.seed), members, rounds)

    @cached_property
    def neighbors(self) -> tuple[int, ...]:
        """The ranks that it exchanges bodies with in some round."""
        return () if self.graph is None else self.graph.connections(self.rank)

    @cached_property
    def to_dial(self) -> Mapping[int, str]:
        """The neighbors that it dials, and their addresses; one of two neighbors needs an address."""
        return dialled(self.rank, self.neighbors, self.everyone)

    def unresolvable(self) -> dict[int, str]:
        """The hosts of neighbors to dial that no name server knows (yet), by rank; a proxy resolves names itself."""
        if self.through.proxy is not None:
            return {}
        found = {rank: addresses.unresolvable(address) for rank, address in self.to_dial.items()}
        return {rank: host for rank, host in found.items() if host is not None}


def _newest(folder: Path, rank: int) -> MemberList | None:
    """The newest member list in a rank's folder that has the rank; None for the federation file."""
    counts, waits = read_lists(folder)
    return next((one for one in (waits, counts) if one is not None and rank in one.members), None)
