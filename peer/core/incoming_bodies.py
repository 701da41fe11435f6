"""Incoming bodies: checks and times bodies and chunks, fills the inbox, tells senders their chunk length; no I/O."""

from __future__ import annotations

from dpeer.peer.core import limits, wire
from dpeer.peer.core.bodies import Received
from dpeer.peer.core.chunking import chunk_length
from dpeer.peer.core.connection_setup import ConnectionSetup
from dpeer.peer.core.effects import Throttle
from dpeer.peer.core.exchange import Exchange
from dpeer.peer.core.limits import sender_of
from dpeer.peer.core.membership import Neighbor
from dpeer.peer.core.round_budget import RoundBudget
from dpeer.peer.core.state import State
from dpeer.peer.core.wire import Frames
from dpeer.peer.transport import Link


class IncomingBodies:
    """Checks the messages that carry bodies, has chunks put together, and puts whole bodies into the inbox.

    A neighbor pays in tokens of a rate limiter for bytes that are of no use, and gets them back for a body that is
    used.
    """

    def __init__(
        self, state: State, exchange: Exchange, connection_setup: ConnectionSetup, round_budget: RoundBudget
    ) -> None:
        self._state, self._config, self._members = state, state.config, state.members
        self._inbox, self._reassembly, self._send_queues = state.inbox, state.reassembly, state.send_queues
        self._tokens, self._largest, self._most = state.tokens, state.largest, state.chunk_bytes
        self._exchange, self._connection_setup, self._round_budget = exchange, connection_setup, round_budget

    def take_body(self, link: Link, neighbor: Neighbor, message: wire.Body, frames: Frames, now: float) -> None:
        """A body came whole, or the header of one whose chunks follow."""
        self._connection_setup.heard(neighbor, message.round, now)
        if message.buffers is not None:
            self._put(message, Received(frames[1:], wire.size(frames), message.uses), now)
            return
        wanted = self._inbox.wants(message)
        earlier = self._reassembly.get(link)
        if wanted and earlier is not None and not self._inbox.knows(neighbor.rank, earlier.body.round):
            wanted = self._tokens.spend(sender_of(neighbor.rank), limits.USELESS_BODY, now)
        self._reassembly.begin(link, message, wire.size(frames) + message.payload_bytes, wanted=wanted, now=now)

    def take_chunk(self, link: Link, neighbor: Neighbor, chunk: wire.Chunk, now: float) -> None:
        """A chunk of a body came."""
        self._connection_setup.heard(neighbor, neighbor.mentioned, now)  # a slow line is not a dead neighbor
        arriving = self._reassembly.add(link, chunk, now)
        if (queue := self._send_queues.get(link)) is not None:
            queue.got = 0 if arriving.complete else arriving.got
        self._tokens.earn(sender_of(neighbor.rank), 1)
        useless = limits.USELESS_BODY * chunk.nbytes / self._largest.payload_bytes
        if not arriving.wanted and not self._tokens.spend(sender_of(neighbor.rank), useless, now):
            self._state.effects.append(Throttle())
        if not arriving.complete:
            return
        if arriving.wanted:
            self._put(arriving.body, Received(arriving.payload, arriving.wire_bytes, arriving.body.uses), now)
        self._measure(link, *arriving.pace)

    def _put(self, body: wire.Body, received: Received, now: float) -> None:
        if self._inbox.put(body, received):
            self._round_budget.arrived(body.rank, body.round, now)
            self._tokens.earn(sender_of(body.rank), limits.FOR_A_BODY)

    def _measure(self, link: Link, nbytes: int, seconds: float) -> None:
        """Tell the sender how long its chunks may be, if that has changed much."""
        if self._most is None:
            return
        found = chunk_length(nbytes, seconds, self._config.liveness.dead_after, self._most)
        queue = self._send_queues[link]
        before, queue.measured = queue.measured, found
        neighbor = self._members.by_link(link)
        if max(found, before) >= 2 * min(found, before) and neighbor is not None and neighbor.link == link:
            self._exchange.send_heartbeat(link)
