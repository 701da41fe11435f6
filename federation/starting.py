"""Starting peer: keys, addresses, proxy and neighbors to dial, of its settings, each checked when asked."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from dpeer.federation import addresses, keys
from dpeer.federation.operators import check_operators
from dpeer.federation.settings import Settings
from dpeer.peer.peer import dialled
from dpeer.peer.transports import Keyring
from dpeer.peer.transports.proxies import Proxies, proxies
from dpeer.topology import Graphs, take_part
from dpeer.topology.settings import build_graph


class Starting:
    """One peer of a federation on several hosts, as `dpeer start` starts it and `dpeer check` looks at it.

    Args:
        settings: The federation's.
        rank: The peer.

    Attributes:
        own: The settings as this rank uses them.

    Raises:
        ConfigurationError: The rank does not exist, or operators are listed as they cannot be.
    """

    def __init__(self, settings: Settings, rank: int) -> None:
        check_operators(settings)
        self.settings, self.rank = settings, rank
        own = settings.of_rank(rank)
        self.own = own if own.deadline is not None else own.model_copy(update={"deadline": "auto"})

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
    def graph(self) -> Graphs | None:
        """The graph, with those alone that take part in a round; None for a peer that sends nothing.

        Raises:
            ConfigurationError: No such graph exists.
        """
        own = self.own
        if own.algorithm == "local":
            return None
        return take_part(build_graph(self.settings), own.participation, own.participation_mode, own.seed)

    @cached_property
    def neighbors(self) -> tuple[int, ...]:
        """The ranks that it exchanges bodies with in some round.

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
