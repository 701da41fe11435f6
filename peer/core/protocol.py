"""Core: one peer's protocol as a state machine; inputs come with their time, effects go out; no I/O.

Events from outside are calls of `Core`, with their clock time; each returns the effects to be done (`effects`). The
driver does them over a `Transport`. So a peer's behavior is a function of its events, which tests can replay.

    core.open, dialled                              the start
    core.happened                                   an event of the transport
    core.tick                                       time passes; `next_tick` is when it matters
    core.begin, enter, train, release, wait, drain, leave     wishes of the round loop
    core.hand, kept                                 member lists from an operator, and on disk
    core.outgoing, taken                            messages to be written on a link

docs/design.md has a table of a neighbor's states, docs/wire.md every message.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from types import MappingProxyType

from dpeer.exceptions import ProtocolError
from dpeer.peer import transport
from dpeer.peer.config import PeerConfig
from dpeer.peer.core import limits, wire
from dpeer.peer.core.bodies import Received, Released
from dpeer.peer.core.connection_setup import ConnectionSetup
from dpeer.peer.core.effects import Effect, Throttle, Write
from dpeer.peer.core.exchange import Exchange, Lateness, LedgerGuard
from dpeer.peer.core.limits import sender_of
from dpeer.peer.core.list_keeper import ListKeeper
from dpeer.peer.core.member_list import MemberList, Stamp
from dpeer.peer.core.membership import Dialling, Neighbor, Status
from dpeer.peer.core.reports import Reports
from dpeer.peer.core.returner import Entry
from dpeer.peer.core.round_budget import RoundBudget, RoundLimit
from dpeer.peer.core.state import State
from dpeer.peer.core.wait import Kind
from dpeer.peer.core.waiting import Waiting
from dpeer.peer.core.wire import Frames, Goodbyes
from dpeer.peer.learner import Learner
from dpeer.peer.transport import Event, Identity, Link
from dpeer.topology import Graphs

_NONE: Mapping[int, str] = MappingProxyType({})


class Core:
    """Everything that a peer decides between its sockets and its round loop.

    Messages that do not belong here are dropped, counted by reason, and logged once for each sender and reason. Its
    attributes are its parts, whose classes say what they are for; arguments as those of `State`.
    """

    def __init__(self, config: PeerConfig, learner: Learner, topology: Graphs, chunk_bytes: int | None) -> None:
        self.state = state = State(config, learner, topology, chunk_bytes)
        self.rank, self.members, self.round_clock = state.rank, state.members, state.round_clock
        self.schedule, self.send_queues, self.reassembly = state.schedule, state.send_queues, state.reassembly
        self.lists = ListKeeper(state)
        dialling = Dialling(max(config.liveness.dead_after, 1.0), self.lists.place)
        self.reports = Reports(state, dialling)
        self.entry = Entry(
            state.schedule, state.members, state.inbox, state.log, shares=learner.about.payload_bytes > 0,
            earliest=config.rounds_released, completed=state.round_clock.__getitem__,
        )  # fmt: skip
        guard, self._tokens = LedgerGuard(state), state.tokens
        self.exchange = Exchange(state, self.entry, guard)
        self.waiting = Waiting(state, self.exchange, self.lists, guard)
        self.connection_setup = ConnectionSetup(state, self.exchange, self.lists, dialling, self.waiting, guard)
        self.round_budget, self.lateness, self._start = RoundBudget(config.round_seconds), Lateness(state), 0

    # -- the start, and events of links ------------------------------------------------------------------------

    def open(self, dialled: list[int], number: int, now: float, addresses: Mapping[int, str] = _NONE) -> list[Effect]:
        """Begin: dial these neighbors, where no member list says; `number` is the first round that will be run."""
        if number == 0 and self.lists.comes_anew:
            self.entry.begin_anew()
        self.members.current_round = self._start = number
        self.round_clock.reached(self.state.config.rank, number)
        self.exchange.inbox.open(number)
        self.lists.open(dialled, addresses)
        if self.state.config.liveness.heartbeat > 0:
            self.connection_setup.beat_at = now
        return self.look(now)

    def dialled(self, rank: int, link: Link, now: float) -> list[Effect]:
        """Note that the rank is dialled on this link."""
        self.connection_setup.dialling.add(rank, link, now)
        return self.look(now)

    def happened(self, event: Event, now: float) -> list[Effect]:
        """An event of the transport."""
        match event:
            case transport.Arrival(link, frames, identity):
                self._arrived(link, frames, identity, now)
            case transport.Opened(link):
                self.connection_setup.connected(link, now)
            case transport.Broken(link):
                self.connection_setup.part(link)
            case transport.Writable(link):
                self.state.effects.append(Write(link))
            case transport.Unreachable(link, reason, _):
                self.reports.unreachable(link, reason)
            case transport.TurnedAway(place, reason, times):
                self.reports.count_turned_away(place, reason, times)
            case transport.Endless(link, place):
                self.reports.endless(link, place)
            case transport.Relayed(trouble):
                self.reports.relayed(trouble)
        return self.look(now)

    def _arrived(self, link: Link, frames: Frames, identity: Identity | None, now: float) -> None:
        self.state.hearing = now
        try:
            self._handle(link, frames, now, identity)
        except Exception as error:  # one bad message must never end the peer
            if not isinstance(error, ProtocolError):
                if not self.reports.counts["unhandled"]:  # a sender that knows how may cause any number
                    text = "".join(traceback.format_exception(error))
                    self.state.log("debug", "message-unhandled", "a message could not be handled", traceback=text)
                error = ProtocolError("unhandled", type(error).__name__)
            self.reports.drop(link, error, identity)
        self.state.hearing = None

    # -- messages that come ------------------------------------------------------------------------------------

    def _handle(self, link: Link, frames: Frames, now: float, identity: Identity | None) -> None:
        """A message came; raises a `ProtocolError` if it does not belong here.

        Its sender pays in tokens of a rate limiter. A neighbor pays more for bytes of bodies that are of no use, and
        gets tokens back for a body that is used.
        """
        if self.state.config.authenticated and identity is None:
            raise ProtocolError("stranger", "it has not proved its rank")
        neighbor = self.members.by_link(link)
        self._charge(link, neighbor, frames, now, identity)
        if neighbor is not None:
            neighbor.bytes_received += wire.size(frames)
        if (pong := wire.pong(frames)) is not None:
            self.connection_setup.on_ping(link, pong, now)
            return
        message = wire.decode(frames, self.state.largest)
        match message:
            case wire.Chunk():
                if neighbor is None:
                    raise self.connection_setup.stranger(link, "a chunk of a body", now)
                if self.connection_setup.admits(neighbor.rank):
                    self._take_chunk(link, neighbor, message, now)
            case wire.Hello():
                if neighbor is not None and not self._tokens.spend(sender_of(neighbor.rank), limits.HELLO_AGAIN, now):
                    raise self._too_many(neighbor, now)
                self.connection_setup.take(link, message, now, identity)
            case wire.Unknown():
                self.connection_setup.on_unknown(link, neighbor, message, now)
            case wire.Lists():
                proved = identity if neighbor is None else neighbor.rank
                if proved is not None and proved != message.rank:
                    raise ProtocolError("wrong-rank", f"lists of rank {message.rank} on another's link")
                if self.connection_setup.admits(message.rank):
                    self.lists.on_lists(message)
                    self.lists.review()
                elif not self.lists.knows(message.rank):
                    raise ProtocolError("no-member", f"rank {message.rank} is no member by the lists known here")
            case _:
                if neighbor is None:
                    raise self.connection_setup.stranger(link, f"a {message.kind}", now)
                if message.rank != neighbor.rank:
                    raise ProtocolError("wrong-rank", f"rank {neighbor.rank} speaks for rank {message.rank}")
                if message.federation != self.state.federation:
                    raise ProtocolError("other-federation", "its messages are of another federation")
                if isinstance(message, wire.Body | wire.Heartbeat) and message.round > self.round_clock.rounds:
                    raise ProtocolError("malformed", f"round {message.round} of {self.round_clock.rounds}")
                self._on_message(link, neighbor, message, frames, now)

    def _charge(self, link: Link, neighbor: Neighbor | None, frames: Frames, now: float, identity: int | None) -> None:
        """Let the sender pay for a message. A small one that it cannot pay is late, and a large one is dropped."""
        rank = identity if neighbor is None else neighbor.rank
        if not self._tokens.spend(link if rank is None else sender_of(rank), wire.cost(frames), now):
            self.state.effects.append(Throttle())
            if wire.cost(frames) > 1:
                raise self._too_many(neighbor, now)

    def _too_many(self, neighbor: Neighbor | None, now: float) -> ProtocolError:
        if neighbor is not None:
            self.connection_setup.heard(neighbor, neighbor.mentioned, now)  # any message is a sign of life
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
            if not self.connection_setup.admits(neighbor.rank):
                neighbor.heard_at = now
                self.lists.heard(link, neighbor.rank, message.stamps)
                return
            self.connection_setup.note(link, neighbor, message.round, message, now)
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
                self.connection_setup.heard(neighbor, message.round, now)
                if (queue := self.send_queues.get(link)) is not None:
                    queue.acknowledge(message.got, now)
                neighbor.paused, neighbor.enters = message.paused, message.enters
                if neighbor.paused and self.round_clock.adds_to(message.presence):
                    self.exchange.send_heartbeats([neighbor.rank])
            case wire.Goodbye():
                self._on_goodbye(neighbor, message.reason, now, message.back_within)

    def _on_goodbye(self, neighbor: Neighbor, reason: Goodbyes, now: float, back_within: int) -> None:
        if neighbor.status is Status.GONE:
            return
        self.members.goodbye(neighbor, reason, now, back_within)
        self.reassembly.forget(neighbor.link)
        if reason == "done":
            neighbor.current_round = max(neighbor.current_round, self.round_clock.rounds)
            self.connection_setup.give_up_done()
        else:
            self.reports.left(neighbor.rank, reason, back_within)

    def _take_body(self, link: Link, neighbor: Neighbor, message: wire.Body, frames: Frames, now: float) -> None:
        """A body came whole, or the header of one whose chunks follow."""
        self.connection_setup.heard(neighbor, message.round, now)
        if message.buffers is not None:
            self._put(message, Received(frames[1:], wire.size(frames), message.uses), now)
            return
        wanted = self.state.inbox.wants(message)
        earlier = self.reassembly.get(link)
        if wanted and earlier is not None and not self.state.inbox.knows(neighbor.rank, earlier.body.round):
            wanted = self._tokens.spend(sender_of(neighbor.rank), limits.USELESS_BODY, now)
        self.reassembly.begin(link, message, wire.size(frames) + message.payload_bytes, wanted=wanted, now=now)

    def _take_chunk(self, link: Link, neighbor: Neighbor, chunk: wire.Chunk, now: float) -> None:
        """A chunk of a body came."""
        self.connection_setup.heard(neighbor, neighbor.mentioned, now)  # a slow line is not a dead neighbor
        arriving = self.reassembly.add(link, chunk, now)
        if (queue := self.send_queues.get(link)) is not None:
            queue.got = 0 if arriving.complete else arriving.got
        self._tokens.earn(sender_of(neighbor.rank), 1)
        useless = limits.USELESS_BODY * chunk.nbytes / self.state.largest.payload_bytes
        if not arriving.wanted and not self._tokens.spend(sender_of(neighbor.rank), useless, now):
            self.state.effects.append(Throttle())
        if arriving.complete and arriving.wanted:
            self._put(arriving.body, Received(arriving.payload, arriving.wire_bytes, arriving.body.uses), now)

    def _put(self, body: wire.Body, received: Received, now: float) -> None:
        if self.state.inbox.put(body, received):
            self.round_budget.arrived(body.rank, body.round, now)
            self._tokens.earn(sender_of(body.rank), limits.FOR_A_BODY)

    # -- wishes of the round loop ------------------------------------------------------------------------------

    def wait(self, kind: Kind, number: int, now: float) -> list[Effect]:
        """Wait for this aim, in round `number`: ends in a Wake, a Deliver (of bodies), or a Fail.

        The wait after the last round ("linger") has the rounds that are complete for a number. A list that counts since
        may have more, of which this peer has not completed one.
        """
        if kind == "linger":
            self.members.current_round = number
            self.round_clock.reached(self.state.config.rank, number)
            self.exchange.outbox.reach(number)
            self.connection_setup.give_up_done()
            self.exchange.send_heartbeats(one.rank for one in self.members.every())
        self.waiting.begin(kind, number, now)
        return self.look(now)

    def begin(self, number: int, now: float) -> list[Effect]:
        """Round `number` is this peer's current round: the rounds before are on disk."""
        self.exchange.begin(number)
        if late := self.reassembly.give_up_before(number):
            self.exchange.inbox.dropped["late"] += late
        self.exchange.paused = self.waiting.holds(number)  # also if a heartbeat leaves before it is waited for
        return self.look(now)

    def behind(self, number: int) -> bool:
        """Whether the others have gone past round `number` without this peer; announces its entry."""
        announced, found = self.entry.enters, self.entry.behind(number)
        if self.entry.enters not in (0, announced):
            self.exchange.send_heartbeats(one.rank for one in self.members.every())
        return found

    def train(self, number: int, now: float) -> RoundLimit | None:
        """Round `number`'s local training begins; returns its limit, None without a budget."""
        self.lateness.begin_training(number)
        return self.round_budget.begin(number, now)

    def enter(self, number: int, now: float) -> list[Effect]:
        """Round `number`, which nothing holds up, begins now, with the list that counts."""
        self.schedule.begin(number)
        self.lists.link()
        self.waiting.begun_at, self.exchange.paused = now, False
        return self.look(now)

    def release(self, number: int, body: Released | None, now: float) -> list[Effect]:
        """Send round `number`'s body; None without one."""
        if body is not None:
            self.round_budget.released(number, now)
        first = number == self._start
        self.lateness.note_release(number, released=body is not None, perhaps_released_before=first)
        self.exchange.release(number, body)
        return self.look(now)

    def drain(self, now: float) -> list[Effect]:
        """Begin no other round: a wait for neighbors or for a quorum ends at once, in a Fail with Drained."""
        if not self.waiting.drains:
            self.waiting.drains = True
            number = self.members.current_round
            self.state.log("info", "draining", f"leaves when round {number + 1} is complete", round=number)
        return self.look(now)

    def leave(self, reason: Goodbyes, now: float, back_within: int = 0) -> list[Effect]:
        """Send every neighbor a goodbye, also of seconds within which a stopped peer is back; wait for nothing."""
        self.waiting.over()
        goodbye = wire.Goodbye(
            rank=self.state.config.rank, federation=self.state.federation, reason=reason,
            back_within=back_within if reason == "stopped" else 0,
        )  # fmt: skip
        self.connection_setup.goodbye = goodbye
        for neighbor in self.members.every():
            if neighbor.link is not None and neighbor.status is not Status.GONE:
                self.send_queues[neighbor.link].goodbye = wire.encode(goodbye)
        # A neighbor may have taken this peer's hello, and its answer may be on its way.
        for link in self.connection_setup.unanswered():
            self.send_queues[link].goodbye = wire.encode(goodbye)
        return self.look(now)

    def left_out(self, rank: int, reason: str, now: float) -> list[Effect]:
        """Count a body that arrived whole but must not be mixed."""
        self.reports.count(rank, ProtocolError(reason, "this round goes on without it"))
        return self.look(now)

    # -- messages to be written --------------------------------------------------------------------------------

    def outgoing(self, link: Link) -> Frames | None:
        """The next message for the link; None without one. The same until `taken`."""
        queue = self.send_queues.get(link)
        if queue is None:
            return None
        if (neighbor := self.members.by_link(link)) is not None:
            queue.forget_before(neighbor.current_round - 1)  # a neighbor that never reads holds a few bodies, not all
        elif queue.empty and link not in self.connection_setup.dialling:
            self.send_queues.forget(link)
        return queue.next()

    def taken(self, link: Link) -> None:
        """The link has taken that message."""
        queue = self.send_queues.get(link)
        written = 0 if queue is None else queue.taken()
        if (neighbor := self.members.by_link(link)) is not None:
            neighbor.bytes_sent += written

    def full(self, link: Link) -> None:
        """The link takes nothing more at present: for a stranger that does not read, nothing is kept."""
        if self.members.by_link(link) is None and link not in self.connection_setup.dialling:
            self.send_queues.forget(link)

    @property
    def written(self) -> bool:
        """Whether nothing waits to be written to a neighbor that is there, or may be."""
        links = [one.link for one in self.members.every() if one.link is not None]
        send_queues = (self.send_queues.get(link) for link in [*links, *self.connection_setup.unanswered()])
        return all(queue is None or queue.empty for queue in send_queues)

    # -- time passes -------------------------------------------------------------------------------------------

    def tick(self, now: float) -> list[Effect]:
        """Let time pass."""
        setup = self.connection_setup
        if now >= setup.beat_at:
            setup.beaten_at, setup.beat_at = now, now + self.state.config.liveness.heartbeat
            for dead in self.members.tick(now):
                self._on_death(dead)
            self.lists.dial_all(self.waiting.is_stuck(now))
            setup.tend(now)
            self.exchange.send_heartbeats(one.rank for one in self.members.every())
        return self.look(now)

    def next_tick(self, now: float) -> float:
        """The clock time at which `tick` has to be called, unless something happens before; infinity for never."""
        return min(self.connection_setup.beat_at, self.waiting.next_look(now))

    def _on_death(self, dead: Neighbor) -> None:
        self.reports.died(dead, self.members.current_round, began=self.state.began)
        if (queue := self.send_queues.get(dead.link)) is not None:
            self.exchange.parted(dead.rank, queue.silence())

    # -- member lists ------------------------------------------------------------------------------------------

    def hand(self, one: MemberList, now: float) -> tuple[str | None, list[Effect]]:
        """An operator hands over a list; returns why it is not taken, None if it is, and what is to be done."""
        why = self.lists.hand(one)
        return why, self.look(now)

    def kept(self, stamp: Stamp, now: float) -> list[Effect]:
        """The lists with this stamp are on disk."""
        self.lists.kept(stamp)
        self.lists.review()
        self.exchange.send_heartbeats(one.rank for one in self.members.every())
        return self.look(now)

    # -- effects -----------------------------------------------------------------------------------------------

    def look(self, now: float) -> list[Effect]:
        """Check whether the wait is over, and give out all effects."""
        self.exchange.deliver()
        self.lateness.look()
        self.state.effects += self.waiting.look(now)
        if self.lists.dials_more:  # not with the next heartbeat only: rounds wait for new neighbors
            self.lists.dials_more = False
            self.connection_setup.tend(now)
        if self.send_queues.fresh:
            self.state.effects += map(Write, self.send_queues.fresh)
            self.send_queues.fresh.clear()
        effects, self.state.effects = self.state.effects, []
        return effects
