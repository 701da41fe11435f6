"""Arrivals: charges the sender of a message, decodes it, passes it on by its kind, and puts bodies together; no I/O."""

from __future__ import annotations

from dpeer.exceptions import ProtocolError
from dpeer.peer.core import limits, wire
from dpeer.peer.core.bodies import Received
from dpeer.peer.core.connection_setup import ConnectionSetup
from dpeer.peer.core.deadline import TransferProgress
from dpeer.peer.core.effects import Throttle
from dpeer.peer.core.exchange import Exchange
from dpeer.peer.core.limits import sender_of
from dpeer.peer.core.list_keeper import ListKeeper
from dpeer.peer.core.membership import Neighbor, Status
from dpeer.peer.core.reports import NeighborReports
from dpeer.peer.core.round_budget import RoundBudget
from dpeer.peer.core.state import State
from dpeer.peer.core.wire import Frames, Goodbyes
from dpeer.peer.transport import Link


class Arrivals:
    """The messages that come. What does not belong here raises a `ProtocolError`.

    A sender pays for each message in tokens of a rate limiter. A neighbor pays more for bytes of bodies that are of no
    use, and gets tokens back for a body that is used.
    """

    def __init__(
        self,
        state: State,
        exchange: Exchange,
        keeper: ListKeeper,
        transfers: TransferProgress,
        connection_setup: ConnectionSetup,
        reports: NeighborReports,
        round_budget: RoundBudget,
    ) -> None:
        self._state, self._config, self._federation = state, state.config, state.federation
        self._limits, self._tokens = state.largest, state.tokens
        self._inbox, self._reassembly = state.inbox, state.reassembly
        self._members, self._round_clock, self._send_queues = state.members, state.round_clock, state.send_queues
        self._exchange, self._keeper, self._transfers = exchange, keeper, transfers
        self._connection_setup, self._reports = connection_setup, reports
        self._round_budget = round_budget

    def handle(self, link: Link, frames: Frames, now: float, identity: int | None) -> None:
        """A message came.

        Raises:
            ProtocolError: It does not belong here.
        """
        if self._config.authenticated and identity is None:
            raise ProtocolError("stranger", "it has not proved its rank")
        neighbor = self._members.by_link(link)
        self._charge(link, neighbor, frames, now, identity)
        if neighbor is not None:
            neighbor.bytes_received += wire.size(frames)
        if wire.is_probe(frames):
            self._connection_setup.on_probe(link, now)
            return
        message = wire.decode(frames, self._limits)
        match message:
            case wire.Chunk():
                if neighbor is None:
                    raise self._connection_setup.stranger(link, "a chunk of a body", now)
                if self._connection_setup.admits(neighbor.rank):
                    self._take_chunk(link, neighbor, message, now)
            case wire.Hello():
                if neighbor is not None and not self._tokens.spend(sender_of(neighbor.rank), limits.HELLO_AGAIN, now):
                    raise self._too_many(neighbor, now)
                self._connection_setup.take(link, message, now, identity)
            case wire.Unknown():
                self._connection_setup.on_unknown(link, neighbor, message, now)
            case wire.Lists():
                proved = identity if neighbor is None else neighbor.rank
                if proved is not None and proved != message.rank:
                    raise ProtocolError("wrong-rank", f"lists of rank {message.rank} on another's link")
                if self._connection_setup.admits(message.rank):
                    self._keeper.on_lists(message)
                    self._keeper.review()
                elif not self._keeper.knows(message.rank):
                    raise ProtocolError("no-member", f"rank {message.rank} is no member by the lists known here")
            case _:
                if neighbor is None:
                    raise self._connection_setup.stranger(link, f"a {message.kind}", now)
                if message.rank != neighbor.rank:
                    raise ProtocolError("wrong-rank", f"rank {neighbor.rank} speaks for rank {message.rank}")
                if message.federation != self._federation:
                    raise ProtocolError("other-federation", "its messages are of another federation")
                if isinstance(message, wire.Body | wire.Heartbeat) and message.round > self._round_clock.rounds:
                    raise ProtocolError("malformed", f"round {message.round} of {self._round_clock.rounds}")
                self._on_message(link, neighbor, message, frames, now)

    def _charge(self, link: Link, neighbor: Neighbor | None, frames: Frames, now: float, identity: int | None) -> None:
        """Let the sender pay for a message. A small one that it cannot pay is late, and a large one is dropped."""
        rank = identity if neighbor is None else neighbor.rank
        if not self._tokens.spend(link if rank is None else sender_of(rank), wire.cost(frames), now):
            self._state.effects.append(Throttle())
            if wire.cost(frames) > 1:
                raise self._too_many(neighbor, now)

    def _too_many(self, neighbor: Neighbor | None, now: float) -> ProtocolError:
        if neighbor is not None:
            self._connection_setup.heard(neighbor, neighbor.mentioned, now)  # any message is a sign of life
        return ProtocolError("too-many", "the sender has sent more than a peer ever needs to")

    def _on_message(
        self,
        link: Link,
        neighbor: Neighbor,
        message: wire.Body | wire.Heartbeat | wire.Goodbye,
        frames: Frames,
        now: float,
    ) -> None:
        if isinstance(message, wire.Body | wire.Heartbeat):
            if not self._connection_setup.admits(neighbor.rank):
                neighbor.heard_at = now
                self._keeper.heard(link, neighbor.rank, message.stamps)
                return
            self._connection_setup.note(link, neighbor, message.round, message, now)
            neighbor.paused, neighbor.enters = False, 0
            if message.round >= neighbor.current_round:
                neighbor.uses = message.uses
        match message:
            case wire.Body():
                neighbor.released = max(neighbor.released, message.round + 1)
                self._take_body(link, neighbor, message, frames, now)
            case wire.Heartbeat():
                if message.round > neighbor.mentioned:  # at most once a round
                    self._tokens.earn(sender_of(neighbor.rank), 1)
                self._connection_setup.heard(neighbor, message.round, now)
                self._transfers.acknowledged(neighbor.rank, message.got, now)
                neighbor.paused, neighbor.enters = message.paused, message.enters
                if neighbor.paused and self._round_clock.adds_to(message.presence):
                    self._exchange.send_heartbeats([neighbor.rank])
            case wire.Goodbye():
                self._on_goodbye(neighbor, message.reason, now, message.back_within)

    def _on_goodbye(self, neighbor: Neighbor, reason: Goodbyes, now: float, back_within: int) -> None:
        if neighbor.status is Status.GONE:
            return
        self._members.goodbye(neighbor, reason, now, back_within)
        self._reassembly.forget(neighbor.link)
        if reason == "done":
            neighbor.current_round = max(neighbor.current_round, self._round_clock.rounds)
            self._connection_setup.give_up_done()
        else:
            self._reports.left(neighbor.rank, reason, back_within)

    # -- bodies ------------------------------------------------------------------------------------------------

    def _take_body(self, link: Link, neighbor: Neighbor, message: wire.Body, frames: Frames, now: float) -> None:
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

    def _take_chunk(self, link: Link, neighbor: Neighbor, chunk: wire.Chunk, now: float) -> None:
        """A chunk of a body came."""
        self._connection_setup.heard(neighbor, neighbor.mentioned, now)  # a slow line is not a dead neighbor
        arriving = self._reassembly.add(link, chunk, now)
        if (queue := self._send_queues.get(link)) is not None:
            queue.got = 0 if arriving.complete else arriving.got
        self._tokens.earn(sender_of(neighbor.rank), 1)
        useless = limits.USELESS_BODY * chunk.nbytes / self._limits.payload_bytes
        if not arriving.wanted and not self._tokens.spend(sender_of(neighbor.rank), useless, now):
            self._state.effects.append(Throttle())
        if arriving.complete and arriving.wanted:
            self._put(arriving.body, Received(arriving.payload, arriving.wire_bytes, arriving.body.uses), now)

    def _put(self, body: wire.Body, received: Received, now: float) -> None:
        if self._inbox.put(body, received):
            self._round_budget.arrived(body.rank, body.round, now)
            self._tokens.earn(sender_of(body.rank), limits.FOR_A_BODY)
