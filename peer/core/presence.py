"""Presence: takes in what each message says of completed rounds and member lists, and passes news on; no I/O."""

from __future__ import annotations

import math

from dpeer.peer.core import wire
from dpeer.peer.core.exchange import Exchange
from dpeer.peer.core.list_keeper import ListKeeper
from dpeer.peer.core.membership import Membership, Neighbor
from dpeer.peer.core.round_clock import RoundClock
from dpeer.peer.core.waiting import Waiting
from dpeer.peer.transport import Link

_BATCH = 0.01
"""Seconds for each neighbor between two messages that pass on arrivals, before the first round: a hundred a second
in all."""


class Presence:
    """The tables of other peers, as they come.

    Args:
        beats: Whether peers send heartbeats.

    Attributes:
        spread_at: Clock time at which arrivals are passed on; infinity for never.
    """

    def __init__(
        self,
        members: Membership,
        exchange: Exchange,
        round_clock: RoundClock,
        keeper: ListKeeper,
        waiting: Waiting,
        *,
        beats: bool,
    ) -> None:
        self.spread_at, self._spread_again = math.inf, 0.0
        self._members = members
        self._exchange = exchange
        self._round_clock = round_clock
        self._keeper = keeper
        self._waiting = waiting
        self._beats = beats

    def note(
        self, link: Link, neighbor: Neighbor, number: int, message: wire.Hello | wire.Body | wire.Heartbeat, now: float
    ) -> None:
        """Take in the rounds and lists that a neighbor and others have; pass news on to those that pause."""
        news = self._round_clock.merge(message.presence)
        news |= self._round_clock.reached(neighbor.rank, number)
        voted = self._keeper.take_stamps(message.stamps)
        if news or voted:  # all pass votes on: the sooner a list counts everywhere, the fewer rounds lack an edge
            self._waiting.news(now)
            self._exchange.send_heartbeats(one.rank for one in self._members.every() if voted or one.paused)
            if not self._waiting.start.began and self._beats:
                self.spread_at = min(self.spread_at, max(now, self._spread_again))
        if self._keeper.heard(link, neighbor.rank, message.stamps):
            self._exchange.send_heartbeat(link)

    def spread(self, now: float) -> None:
        """Pass on arrivals, not with the next heartbeat only: the start waits for it on each hop."""
        if now < self.spread_at:
            return
        ranks = [one.rank for one in self._members.every()]
        self.spread_at, self._spread_again = math.inf, now + _BATCH * len(ranks)
        if not self._waiting.start.began:
            self._exchange.send_heartbeats(ranks)
