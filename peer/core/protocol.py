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
from typing import Any, Literal

from dpeer.exceptions import ProtocolError
from dpeer.peer.config import PeerConfig
from dpeer.peer.core import limits, wire
from dpeer.peer.core.arrivals import Arrivals
from dpeer.peer.core.bodies import Inbox, Released
from dpeer.peer.core.chunking import Reassembly
from dpeer.peer.core.connection_setup import ConnectionSetup
from dpeer.peer.core.dialling import Dialling
from dpeer.peer.core.drop_counter import DropCounter
from dpeer.peer.core.effects import Effect, LogEvent, Throttle, Write
from dpeer.peer.core.exchange import Exchange
from dpeer.peer.core.handshake import Handshake
from dpeer.peer.core.incoming_bodies import IncomingBodies
from dpeer.peer.core.lateness import Lateness
from dpeer.peer.core.ledger_guard import LedgerGuard
from dpeer.peer.core.limits import RateLimiter, sender_of
from dpeer.peer.core.list_follower import ListFollower
from dpeer.peer.core.list_keeper import ListKeeper
from dpeer.peer.core.member_list import MemberList
from dpeer.peer.core.member_lists import Stamp
from dpeer.peer.core.membership import Membership, Neighbor, Status
from dpeer.peer.core.neighbor_reports import NeighborReports
from dpeer.peer.core.presence import Presence
from dpeer.peer.core.returner import CatchUp, Entry
from dpeer.peer.core.round_budget import RoundBudget, RoundLimit
from dpeer.peer.core.round_clock import Quorum, RoundClock
from dpeer.peer.core.schedule import Schedule
from dpeer.peer.core.send_queue import SendQueues
from dpeer.peer.core.transfer_progress import TransferProgress
from dpeer.peer.core.wait import Kind
from dpeer.peer.core.waiting import Waiting
from dpeer.peer.core.wire import Frames, Goodbyes
from dpeer.peer.learner import Learner
from dpeer.peer.transport import (
    Arrival,
    Broken,
    Endless,
    Event,
    Identity,
    Link,
    Opened,
    Relayed,
    TurnedAway,
    Unreachable,
    Writable,
)
from dpeer.topology import Graphs

_NONE: Mapping[int, str] = MappingProxyType({})


class Core:
    """Everything that a peer decides between its sockets and its round loop.

    Messages that do not belong here are dropped, counted by reason, and logged once for each sender and reason.

    Args:
        config: This peer's place in the federation.
        learner: Asked for manifest, digest, payload size and receive buffer only.
        topology: The graph of each round.
        chunk_bytes: The most bytes of a chunk; None where bodies are not cut.

    Attributes:
        members: The neighbors: which are there, and in which round.
        lists: The member lists.
        round_clock: How many rounds each rank of the federation has completed, as far as is known.
        exchange: The bodies.
        entry: This peer's way back to the others, if it was left behind.
        catch_up: Begins its rounds.
        connection_setup: The ranks at the ends of the links.
        schedule: The neighbors of each round.
        waiting: The round loop's wait.
        round_budget: How long the local training of a round may take.
        drops: Counts the messages that were dropped.
        incoming_bodies: The bodies of neighbors on their way to the inbox.
        lateness: Whether this peer's bodies come too late to be mixed.
    """

    def __init__(self, config: PeerConfig, learner: Learner, topology: Graphs, chunk_bytes: int | None) -> None:
        self._alone = config.liveness.heartbeat == 0  # no peer can be cut off
        quorum: Quorum = "any" if self._alone else config.quorum
        self.round_clock = RoundClock(config.rank, topology.size, config.rounds, quorum, grows=config.lists is not None)
        self.round_clock.silent = self._alone
        self.send_queues = SendQueues(chunk_bytes)
        self.lists = ListKeeper(
            config,
            topology,
            self.round_clock.stamps,
            self.send_queues,
            lambda: self._following.follow(),
            lambda: self.members.current_round,
            self._log_free,
        )
        used = self.lists.used
        if not self._alone:
            self.round_clock.unreachable = used.apart(config.rank)
        self.members = Membership(used.connections(config.rank), config.liveness, self.round_clock.passed)
        self.drops = DropCounter(self._log_free)
        self._config, self.rank = config, config.rank
        self.schedule = Schedule(used, config.rank)
        self._following = ListFollower(
            config.rank, self.lists, self.round_clock, self.schedule, self.members,
            lambda: self.waiting.start.began, alone=self._alone,
        )  # fmt: skip
        self.handshake = Handshake(config, learner, self.members, self.round_clock)
        self._federation = wire.federation_id(config.fingerprint)
        self._most = chunk_bytes
        dialling = Dialling(max(config.liveness.dead_after, 1.0), self.lists.place)
        self._reports = NeighborReports(self.members, dialling, self.drops, self._log)
        inbox = Inbox(self._reports.second_body, self.schedule.uses)
        self.entry = Entry(
            self.schedule, self.members, inbox, shares=learner.about.payload_bytes > 0, earliest=config.rounds_released
        )
        ledger_guard = LedgerGuard(config, self.round_clock, self._log)
        self.exchange = Exchange(
            config.rank, self._federation, self.schedule, self.members, self.send_queues, self.round_clock, self.entry,
            inbox, ledger_guard,
        )  # fmt: skip
        self._limits = limits.Limits(payload_bytes=learner.about.payload_bytes)
        self.reassembly = Reassembly(learner.receive_buffer, min(limits.LEAST_CHUNK, chunk_bytes or limits.LEAST_CHUNK))
        self._tokens = RateLimiter(limits.EACH_SECOND, limits.AT_ONCE, limits.STRANGERS)
        self._hearing: float | None = None
        self._transfers = TransferProgress(self.members, self.reassembly, self.send_queues, config.liveness.dead_after)
        self.waiting = Waiting(
            config, self.members, self.exchange, self.round_clock, self.lists, ledger_guard, self._transfers, self._log
        )
        self.catch_up = CatchUp(
            self.entry, lambda: self.exchange.send_heartbeats(one.rank for one in self.members.every()), self._log
        )
        self.presence = Presence(self.members, self.exchange, self.round_clock, self.lists, self.waiting)
        self.connection_setup = ConnectionSetup(
            config, self.members, dialling, self.schedule, self.send_queues, self.exchange, self.reassembly,
            self.waiting.start, self.handshake, self.round_clock, self.lists, self._following, ledger_guard,
            self.presence, self._log, self._drop,
        )  # fmt: skip
        self.round_budget = RoundBudget(config.round_seconds)
        self.incoming_bodies = IncomingBodies(
            config, self._limits, chunk_bytes, self.members, self.exchange, self.reassembly, self.send_queues,
            self.connection_setup, self.round_budget, self._tokens, self._throttle,
        )  # fmt: skip
        self._arrivals = Arrivals(
            config, self._limits, self._tokens, self.members, self.round_clock, self.lists, self.exchange,
            self.send_queues, self.reassembly, self._transfers, self.connection_setup, self.incoming_bodies,
            self.presence, self._reports, self._throttle,
        )  # fmt: skip
        self.lateness = Lateness(self.schedule, self.members, self._log)
        self._effects: list[Effect] = []
        self._following.follow()

    # -- the start, and events of links ------------------------------------------------------------------------

    def open(self, dialled: list[int], number: int, now: float, addresses: Mapping[int, str] = _NONE) -> list[Effect]:
        """Begin: dial these neighbors; `number` is the first round that will be run.

        Args:
            dialled: The ranks.
            number: The round.
            now: The clock time.
            addresses: Where each rank is that can be dialled, as far as no member list says.
        """
        if number == 0 and self.lists.comes_anew:
            self.entry.begin_anew()
        self.members.current_round = self.handshake.start = number
        self.round_clock.reached(self._config.rank, number)
        self.exchange.inbox.open(number)
        self._following.open(dialled, addresses)
        if self._config.liveness.heartbeat > 0:
            self.presence.beat_at = now
        return self.look(now)

    def dialled(self, rank: int, link: Link, now: float) -> list[Effect]:
        """Note that the rank is dialled on this link."""
        self.connection_setup.dialling.add(rank, link, now)
        return self.look(now)

    def happened(self, event: Event, now: float) -> list[Effect]:
        """An event of the transport."""
        match event:
            case Arrival(link, frames, identity):
                self._arrived(link, frames, identity, now)
            case Opened(link):
                self.connection_setup.connected(link, now)
            case Broken(link):
                self._disconnected(link, now)
            case Writable(link):
                self._effects.append(Write(link))
            case Unreachable(link, reason, _):
                self._reports.unreachable(link, reason)
            case TurnedAway(place, reason, times):
                self.drops.count_turned_away(place, reason, times)
            case Endless(link, place):
                self._reports.endless(link, place)
            case Relayed(trouble):
                self._reports.relayed(trouble)
        return self.look(now)

    def _arrived(self, link: Link, frames: Frames, identity: Identity | None, now: float) -> None:
        self._hearing = now
        try:
            self._arrivals.handle(link, frames, now, identity)
        except Exception as error:  # one bad message must never end the peer
            self._drop_unhandled(link, error, identity)
        self._hearing = None

    def _disconnected(self, link: Link, now: float) -> None:
        """A link is broken: its unwritten messages are lost."""
        contender = self.connection_setup.contender(self.connection_setup.part(link))
        if contender is not None and contender[0] != link:
            try:
                self.connection_setup.take(contender[0], contender[1], now)
            except Exception as error:
                self._drop_unhandled(contender[0], error)

    # -- wishes of the round loop ------------------------------------------------------------------------------

    def wait(self, kind: Kind, number: int, now: float) -> list[Effect]:
        """Wait for this aim, in round `number`: ends in a Wake, a Deliver (of bodies), or a Fail.

        The wait after the last round ("linger") has the rounds that are complete for a number. A list that counts since
        may have more, of which this peer has not completed one.
        """
        if kind == "linger":
            self.members.current_round = number
            self.round_clock.reached(self._config.rank, number)
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

    def train(self, number: int, now: float) -> RoundLimit | None:
        """Round `number`'s local training begins; returns its limit, None without a budget."""
        self.lateness.begin_training(number)
        return self.round_budget.begin(number, now)

    def enter(self, number: int, now: float) -> list[Effect]:
        """Round `number`, which nothing holds up, begins now, with the list that counts."""
        self.schedule.begin(number)
        self._following.link()
        self.waiting.begun_at, self.exchange.paused = now, False
        return self.look(now)

    def release(self, number: int, body: Released | None, now: float) -> list[Effect]:
        """Send round `number`'s body; None without one."""
        if body is not None:
            self.round_budget.released(number, now)
        first = number == self.handshake.start
        self.lateness.note_release(number, released=body is not None, perhaps_released_before=first)
        self.exchange.release(number, body)
        return self.look(now)

    def drain(self, now: float) -> list[Effect]:
        """Begin no other round: a wait for neighbors or for a quorum ends at once, in a Fail with Drained."""
        if not self.waiting.drains:
            self.waiting.drains = True
            number = self.members.current_round
            self._log("info", "draining", f"leaves when round {number + 1} is complete", round=number)
        return self.look(now)

    def leave(self, reason: Goodbyes, now: float, back_within: int = 0) -> list[Effect]:
        """Send every neighbor a goodbye; nothing is waited for any more.

        Args:
            reason: Why.
            now: The clock time.
            back_within: Seconds within which a stopped peer will be back.
        """
        self.waiting.over()
        goodbye = wire.Goodbye(
            rank=self._config.rank, federation=self._federation, reason=reason,
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
        self.drops.count(rank, ProtocolError(reason, "this round goes on without it"))
        return self.look(now)

    # -- messages to be written --------------------------------------------------------------------------------

    def outgoing(self, link: Link) -> Frames | None:
        """The next message for the link; None without one. The same until `taken`."""
        queue = self.send_queues.get(link)
        if queue is None:
            return None
        if (neighbor := self.members.by_link(link)) is not None:
            if queue.bodies:
                self.exchange.forget_useless(neighbor.rank)
        elif queue.empty and self.connection_setup.dialling.get(link) is None:
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
        if self.members.by_link(link) is None and self.connection_setup.dialling.get(link) is None:
            self.send_queues.forget(link)

    @property
    def written(self) -> bool:
        """Whether nothing waits to be written to a neighbor that is there, or may be."""
        links = [one.link for one in self.members.every() if one.link is not None]
        send_queues = (self.send_queues.get(link) for link in [*links, *self.connection_setup.unanswered()])
        return all(queue is None or queue.empty for queue in send_queues)

    def _drop_unhandled(self, link: Link, error: Exception, identity: int | None = None) -> None:
        """Drop and count a message that cannot be handled, for this reason."""
        if not isinstance(error, ProtocolError):
            if not self.drops.counts["unhandled"]:  # a sender that knows how may cause any number
                text = "".join(traceback.format_exception(error))
                self._log("debug", "message-unhandled", "a message could not be handled", traceback=text)
            error = ProtocolError("unhandled", type(error).__name__)
        self._drop(link, error, identity)

    def _drop(self, link: Link, error: ProtocolError, identity: int | None = None) -> None:
        neighbor = self.members.by_link(link)
        if neighbor is None:
            self.drops.count_stranger(link, error, identity)
        else:
            self.drops.count(neighbor.rank, error)

    def _throttle(self) -> None:
        self._effects.append(Throttle())

    # -- time passes -------------------------------------------------------------------------------------------

    def tick(self, now: float) -> list[Effect]:
        """Let time pass."""
        self.connection_setup.refuse_contenders(now)
        if now >= self.presence.beat_at:
            self.presence.beat_at = now + self._config.liveness.heartbeat
            for dead in self.members.tick(now):
                self._on_death(dead)
            self._following.dial_all(self.waiting.is_stuck(now))
            self._effects += self.connection_setup.tend(now)
            self.exchange.send_heartbeats(one.rank for one in self.members.every())
        return self.look(now)

    def next_tick(self, now: float) -> float:
        """The clock time at which `tick` has to be called, unless something happens before; infinity for never."""
        return min(self.presence.beat_at, self.waiting.next_look(now), self.connection_setup.next_refusal())

    def _on_death(self, dead: Neighbor) -> None:
        self._reports.died(dead, self.members.current_round, began=self.waiting.start.began)
        self.exchange.parted(dead.rank, self.send_queues.begin_anew(dead.link))

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

    def _log(self, level: Literal["debug", "info", "warning"], event: str, message: str, **fields: Any) -> None:
        """Log an event, if the neighbor whose message causes it can pay for the line."""
        by, now = fields.get("neighbor"), self._hearing
        if by is None or now is None or self._tokens.spend(sender_of(by), limits.LINE, now):
            self._log_free(level, event, message, **fields)

    def _log_free(self, level: Literal["debug", "info", "warning"], event: str, message: str, **fields: Any) -> None:
        self._effects.append(LogEvent(level, event, message, fields))

    def _collect_effects(self) -> None:
        for part in (self.lists, self._following, self.connection_setup):
            if part.effects:
                self._effects += part.effects
                part.effects.clear()

    def look(self, now: float) -> list[Effect]:
        """Check whether the wait is over, and give out all effects."""
        self.exchange.deliver()
        self.lateness.look()
        self._effects += self.waiting.look(now)
        self._collect_effects()  # whom to let in, before a newcomer among them is dialled
        if self._following.dials_more:  # not with the next heartbeat only: rounds wait for new neighbors
            self._following.dials_more = False
            self._effects += self.connection_setup.tend(now)
        if self.send_queues.fresh:
            self._effects += map(Write, self.send_queues.fresh)
            self.send_queues.fresh.clear()
        effects, self._effects = self._effects, []
        return effects
