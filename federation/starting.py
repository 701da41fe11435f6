"""Starting peer: keys, addresses, proxy and neighbors to dial, of its settings or an epoch, each checked when asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from dpeer.exceptions import ConfigurationError
from dpeer.federation import addresses, keys
from dpeer.federation.epoch_graph import built_graph
from dpeer.federation.operators import CANNOT_CHANGE, check_operators
from dpeer.federation.settings import Settings
from dpeer.peer.core.epoch import Epoch
from dpeer.peer.peer import dialled
from dpeer.peer.transports import Keyring
from dpeer.peer.transports.proxies import Proxies, proxies
from dpeer.topology import Graphs, Relabeled, take_part
from dpeer.topology.settings import build_graph


class Starting:
    """One peer of a federation on several hosts, as `dpeer start` starts it and `dpeer check` looks at it.

    Args:
        settings: The federation's.
        rank: The peer.
        joins: Whether it joins a running federation.

    Attributes:
        own: The settings as this rank uses them.
        operators: The public keys of those who may change the federation.
        size: The number of ranks that have an address: a joiner has one like the others.

    Raises:
        ConfigurationError: The rank does not exist, or may not join.
    """

    def __init__(self, settings: Settings, rank: int, *, joins: bool) -> None:
        self.settings, self.rank, self.joins = settings, rank, joins
        self.operators = check_operators(settings)
        if joins and not self.operators:
            raise ConfigurationError(f"--join: {CANNOT_CHANGE}")
        own = settings.of_rank(rank, joins=joins)
        self.own = own if own.deadline is not None else own.model_copy(update={"deadline": "auto"})
        self.size = max(settings.size, rank + 1)

    def follow(self, epoch: Epoch) -> None:
        """Take neighbors, addresses and keys of an epoch in place of those of the start.

        Args:
            epoch: One in which the rank is a member.

        Raises:
            ConfigurationError: Its graph cannot be built here.
        """
        if self.own.algorithm != "local":
            self.graph = Relabeled(self._meeting(built_graph(epoch.graph, epoch.ranks)), epoch.ranks)
            self.neighbors = self.graph.connections(self.rank, epoch.rounds)
        moved = {rank: one.address for rank, one in epoch.members.items() if one.address is not None}
        self.everyone = {rank: at for rank, at in self.everyone.items() if rank in epoch.members} | moved
        if self.keyring is not None:
            given = self.keyring.listed
            new = {rank: tuple(map(bytes.fromhex, one.keys)) for rank, one in epoch.members.items()}
            listed = {rank: keys or given.get(rank, ()) for rank, keys in new.items()}
            self.keyring = replace(self.keyring, listed=listed)

    @cached_property
    def keyring(self) -> Keyring | None:
        """See `keys.keyring`."""
        return keys.keyring(self.own, self.own.size, self.rank)

    @cached_property
    def listen(self) -> str | None:
        """See `addresses.listen_address`."""
        return addresses.listen_address(self.settings, self.size, self.rank, encrypted=self.keyring is not None)

    @cached_property
    def through(self) -> Proxies:
        """See `proxies`."""
        return proxies(self.own.proxy)

    @cached_property
    def everyone(self) -> Mapping[int, str]:
        """See `addresses.addresses`."""
        return addresses.addresses(self.settings, self.size)

    @cached_property
    def graph(self) -> Graphs | None:
        """The graph of the start; None for a peer that sends nothing, and for a joiner, whose graph is an epoch's.

        Raises:
            ConfigurationError: No such graph exists.
        """
        return None if self.own.algorithm == "local" or self.joins else self._meeting(build_graph(self.settings))

    def _meeting(self, graph: Graphs) -> Graphs:
        """The graph with those alone that take part in a round."""
        own = self.own
        return take_part(graph, own.participation, own.participation_mode, own.seed)

    @cached_property
    def neighbors(self) -> tuple[int, ...]:
        """The ranks that it exchanges bodies with in some round, in the graph of the start; a joiner's are not known.

        Raises:
            ConfigurationError: No such graph exists.
        """
        return () if self.graph is None else self.graph.connections(self.rank, self.settings.rounds)

    @cached_property
    def to_dial(self) -> Mapping[int, str]:
        """The neighbors that it dials, and their addresses.

        Raises:
            AddressError: Neither it nor a neighbor has an address.
        """
        return dialled(self.rank, self.neighbors, self.everyone)

    def unresolvable(self) -> dict[int, str]:
        """The hosts of neighbors to dial that no name server knows (yet), by rank; a proxy resolves names itself."""
        if self.through.proxy is not None:
            return {}
        found = {rank: addresses.unresolvable(address) for rank, address in self.to_dial.items()}
        return {rank: host for rank, host in found.items() if host is not None}
