"""Presence: takes in what each message says of completed rounds and member lists, and passes news on; no I/O."""

from __future__ import annotations

import math

from dpeer.peer.core import wire
from dpeer.peer.core.exchange import Exchange
from dpeer.peer.core.list_keeper import ListKeeper
from dpeer.peer.core.membership import Neighbor
from dpeer.peer.core.state import State
from dpeer.peer.core.waiting import Waiting
from dpeer.peer.transport import Link

_BATCH = 0.01
"""Seconds for each neighbor until arrivals before the first round are passed on: a hundred messages a second in all."""


class Presence:
    """The tables of other peers, as they come.

    Attributes:
        beat_at: Clock time of the next heartbeat; infinity for a peer that sends none.
        beaten_at: That of the last one.
    """

    def __init__(self, state: State, exchange: Exchange, keeper: ListKeeper, waiting: Waiting) -> None:
        self.beat_at, self.beaten_at = math.inf, 0.0
        self._state, self._members, self._round_clock = state, state.members, state.round_clock
        self._exchange, self._keeper, self._waiting = exchange, keeper, waiting

    def note(
        self, link: Link, neighbor: Neighbor, number: int, message: wire.Hello | wire.Body | wire.Heartbeat, now: float
    ) -> None:
        """Take in the rounds and lists that a neighbor and others have; pass news on to those that pause."""
        news = self._round_clock.merge(message.presence)
        news |= self._round_clock.reached(neighbor.rank, number)
        voted = self._keeper.take_stamps(message.stamps)
        if news or voted:  # all pass votes on: the sooner a list counts everywhere, the fewer rounds lack an edge
            self._waiting.news(now)
            every = self._members.every()
            self._exchange.send_heartbeats(one.rank for one in every if voted or one.paused)
            if not (self._state.began or self._round_clock.silent):  # the start waits for this news on each hop
                self.beat_at = min(self.beat_at, max(now, self.beaten_at + _BATCH * len(every)))
        if self._keeper.heard(link, neighbor.rank, message.stamps):
            self._exchange.send_heartbeat(link)
