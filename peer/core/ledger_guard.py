"""Ledger guard: forbids releases when neighbors know of more than the ledger counts; later only warns; no I/O."""

from __future__ import annotations

from dpeer.peer.core.state import State


class LedgerGuard:
    """Compares what others know of this peer's releases with what its folder counts.

    Before the first body of this process has left, a difference ends the peer: its folder is an older copy, or new.
    Afterwards it is a warning, since any member may write rounds into its tables, and so would end a peer that trains.

    Attributes:
        has_sent: Whether a body that this process has released has left.
    """

    def __init__(self, state: State) -> None:
        self.has_sent = False
        self._config, self._round_clock, self._log = state.config, state.round_clock, state.log
        self._released = 0
        self._own = 0 if self._config.counted is None else self._config.counted.releases
        self._warned = False

    def note(self, released: int) -> None:
        """Note that a neighbor has had bodies of so many of this peer's rounds."""
        self._released = max(self._released, released)

    def releases(self, number: int) -> None:
        """Note that this process releases a round's body."""
        self._own = max(self._own, number + 1)

    def why_no_release(self) -> str | None:
        """The reason why no release may leave; None if one may.

        A claim counts as far as a quorum lets a peer come, for any member may make one. A peer that has completed n
        rounds may have released the next one, too. Rounds that this peer has sat out count beside the rounds that
        others know it to have completed, and not beside those whose bodies they have.
        """
        counted, clock = self._config.counted, self._round_clock
        if counted is None:
            return None
        own = max(counted.rounds, clock[self._config.rank])
        claimed = max(clock.remembered, self._released)
        most = min(clock.quorum_with(claimed) + clock.slack + 1, clock.rounds)
        completed = min(clock.remembered, most) > own
        if not completed and min(self._released, most) <= self._own:
            return None
        perhaps, own = (clock.remembered + 1, own) if completed else (self._released, self._own)
        perhaps = min(max(perhaps, self._released), most)
        rounds = "1 round" if perhaps == own + 1 else f"{perhaps - own} rounds"
        found = (
            f"{rounds} may have been released that this folder does not know (it counts {own} of rank "
            f"{self._config.rank}): put back a newer copy, or state --rounds-released {perhaps}, which charges them at "
            "this run's settings"
        )
        if not self.has_sent:
            return found
        if not self._warned:
            self._warned = True
            self._log("warning", "ledger", f"{found}; until then epsilon counts what this folder's ledger has alone")
        return None
