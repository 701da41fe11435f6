"""Release checks: no body leaves that the ledger may lack, nor one that comes too late for every neighbor; no I/O."""

from __future__ import annotations

from dpeer.peer.core.state import State

_LATE = 3
"""Bodies in a row that were too late for all neighbors, before a line of the log warns of it."""


class Lateness:
    """Sees whether the neighbors have gone past the round that this peer trains.

    Attributes:
        late_bodies: How many bodies this process has trained after all neighbors had completed their round.
        in_vain: Whether the body that is trained would be sent to no neighbor, as far as is known: all went on without
            this peer, which was suspended or is too slow. Then it is not released, and nothing is charged for it.
    """

    def __init__(self, state: State) -> None:
        self.late_bodies = self._in_a_row = 0
        self.in_vain = False
        self._schedule, self._members, self._log = state.schedule, state.members, state.log
        self._training: int | None = None

    def begin_training(self, number: int) -> None:
        """Round `number`'s local training begins."""
        self._training, self.in_vain = number, False

    def look(self) -> None:
        """See whether the body that is trained is of use to a neighbor."""
        if self._training is not None:
            self.in_vain = self._members.passed(self._training) and self._reaches_none(self._training)

    def note_release(self, number: int, *, released: bool, perhaps_released_before: bool) -> None:
        """Count the body of round `number` if it comes too late, and warn when several in a row do.

        Args:
            number: The round.
            released: Whether it has a body that is sent.
            perhaps_released_before: Whether an earlier process may have released it: then it counts as on time.
        """
        withheld, self.in_vain, self._training = self.in_vain and not released, False, None
        if perhaps_released_before or not (released or withheld):
            return
        if not self._too_late(number):
            self._in_a_row = 0
            return
        self.late_bodies += 1
        self._in_a_row += 1
        if self._in_a_row in (_LATE, 10 * _LATE, 100 * _LATE):
            self._log(
                "warning", "too-slow",
                f"the last {self._in_a_row} bodies that this peer has trained came after all its neighbors had "
                "completed the round, so no peer mixes them: its rounds take longer than the neighbors wait (their "
                "--deadline); let it train less in a round (--round-seconds auto, or a smaller --body-epochs) or on a "
                "faster device, or the neighbors wait longer",
                round=number,
            )  # fmt: skip

    def _too_late(self, number: int) -> bool:
        """Whether all out-neighbors have completed round `number` before its body is released: no peer mixes it."""
        receivers = self._schedule.at(number).out_neighbors
        return bool(receivers) and all(self._members[rank].current_round > number for rank in receivers)

    def _reaches_none(self, number: int) -> bool:
        """Whether a body of round `number` would be sent to no neighbor, because all went on without this peer."""
        receivers = self._schedule.at(number).out_neighbors
        there = {rank: self._members[rank].current_round for rank in receivers}
        return bool(there) and all(
            past > number and not self._schedule.fits(number, rank, past) for rank, past in there.items()
        )


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
