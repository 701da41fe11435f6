"""LedgerGuard: ends a private peer if neighbors know of releases that its folder's ledger lacks; no I/O."""

from __future__ import annotations

from collections.abc import Callable

from dpeer.peer.config import PeerConfig
from dpeer.peer.core.exchange import Exchange
from dpeer.peer.core.membership import Membership
from dpeer.peer.core.round_clock import RoundClock


class LedgerGuard:
    """Compares what neighbors know of this peer's releases with what its folder knows.

    Args:
        log: Logs an event; arguments as those of `LogEvent`, fields as keywords.
    """

    def __init__(
        self,
        config: PeerConfig,
        members: Membership,
        exchange: Exchange,
        round_clock: RoundClock,
        log: Callable[..., None],
    ) -> None:
        self._config = config
        self._members = members
        self._exchange = exchange
        self._round_clock = round_clock
        self._log = log
        self._warned = False

    def why_no_release(self) -> str | None:
        """The reason why no release may be made; None if one may."""
        return self._lost_ledger() or self._older_folder()

    def _lost_ledger(self) -> str | None:
        """Why no release may be made: neighbors know of releases of this peer, and its disk has no ledger of them.

        Before its first release what they hold is of an earlier process, also in a round that none has completed.
        Rounds that they remember may be news that comes late, of neighbors whose disks were lost, too. After a release
        it is a warning: any member may write such news into its tables, and so would end a peer that trains.
        """
        if not self._config.unrecorded:
            return None
        remedy = "put its folder 'privacy' back as it was last, or give --new-data if it trains on other data now"
        held = {} if self._exchange.has_released else self._exchange.outbox.held
        if (holder := next((rank for rank, bodies in held.items() if bodies), None)) is not None:
            held_of = f"rank {holder} holds a body of rank {self._config.rank}"
            return f"{held_of}, and its folder has no ledger of that: {remedy}"
        remembered, own = self._round_clock.remembered, self._round_clock[self._config.rank]
        if remembered <= own:
            return None
        found = (
            f"the others know {remembered} rounds of rank {self._config.rank}, and its folder has no ledger of them: "
            f"{remedy}"
        )
        if not self._exchange.has_released:
            return found
        if not self._warned:
            self._warned = True
            self._log("warning", "ledger", f"{found}; until then epsilon counts what this folder's ledger has alone")
        return None

    def _older_folder(self) -> str | None:
        """Why no release may be made: neighbors remember a later incarnation of this peer than its disk has.

        Each is on disk before a neighbor hears of it, so another disk has taken part since: a backup was put back, and
        what was released from it is not in this one's ledger.
        """
        config, own = self._config, self._exchange.entry.incarnation
        if not config.protects or not config.resume or config.restored or self._exchange.has_released:
            return None
        known = max((one.remembers for one in self._members.all()), default=0)
        if known <= own or not self._round_clock[config.rank]:
            return None
        return (
            f"another folder of rank {config.rank} has taken part since (a backup that was put back?): the others know "
            f"its return number {known}, and this folder {own}; go on with that one, for what it released is not in "
            "this one's ledger"
        )
