"""The decisions of a peer: a state machine without sockets, clock, tasks or randomness.

What happens outside is told to `Core`, with the time at which it did; each call returns what is to be done (`effects`).
The pump does it over a `Transport`. So a peer's behavior is a function of what it was told, which tests can replay.

    core.open, dialled                              the start
    core.connected, disconnected, receive           what a link does
    core.tick                                       time passes; `next_tick` says when it matters
    core.meet, begin, release, collect, settle, linger, leave     what the round loop wants
    core.outgoing, taken                            what is to be written on a link

docs/design.md has a picture of a neighbor's states and says what each message does.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from dpeer.exceptions import ProtocolError, Refused
from dpeer.peer import pieces, wire
from dpeer.peer.admission import Admission
from dpeer.peer.assembly import Assembly
from dpeer.peer.config import PeerConfig
from dpeer.peer.dialling import Dialling
from dpeer.peer.effects import Close, Dial, Effect, Say, Write
from dpeer.peer.exchange import Exchange
from dpeer.peer.inbox import Received
from dpeer.peer.lanes import Lanes
from dpeer.peer.learner import Learner, Payload
from dpeer.peer.membership import Membership, Neighbor, Status
from dpeer.peer.rejections import Rejections
from dpeer.peer.schedule import Schedule
from dpeer.peer.transports import Link
from dpeer.peer.waiting import Waiting
from dpeer.peer.wire import Frames
from dpeer.topology import Graphs, Neighborhood

_PROBE = 0.5
"""Seconds in which it shows whether the connection of a process, whose rank another one wants, is broken."""

_ASK_AGAIN = 5.0
"""Seconds after which somebody who has not said hello is asked for it again."""

_ASKED = 1024
"""How many of those are remembered."""


class Core:
    """Everything that a peer decides between its sockets and its round loop.

    Messages that do not belong here are dropped, counted by reason, and said once for each sender and reason.

    Args:
        config: This peer's place in the federation.
        learner: Asked for manifest, digest, payload size and room for payloads only.
        topology: The graph of each round.
        piece_bytes: The most bytes of a piece; None where bodies are not cut.

    Attributes:
        members: The neighbors: which are there, and in which round.
        exchange: The bodies.
        rejections: Counts the messages that were dropped.
    """

    def __init__(self, config: PeerConfig, learner: Learner, topology: Graphs, piece_bytes: int | None) -> None:
        self.members = Membership(topology.connections(config.rank, config.rounds), config.liveness)
        self.rejections = Rejections(self._say)
        self._config = config
        self._schedule = Schedule(topology, config.rank, config.rounds)
        self._admission = Admission(config, learner, self.members, topology.size)
        self._federation = wire.federation_id(config.fingerprint)
        self._most = piece_bytes
        self.lanes = Lanes(piece_bytes)
        self.exchange = Exchange(
            config.rank, self._federation, self._schedule, self.members, self.lanes, self._second_body
        )
        self._limits = wire.Limits(payload_bytes=learner.payload_bytes)
        self.assembly = Assembly(learner.room, min(pieces.LEAST_PIECE, piece_bytes or pieces.LEAST_PIECE))
        self._dialling = Dialling(max(config.liveness.dead_after, 1.0))
        self._waiting = Waiting(config, self.members, self.exchange, self._admission, self._say)
        self._contenders: dict[int, tuple[Link, wire.Hello, float]] = {}
        self._refused: dict[int, tuple[float, float]] = {}
        self._asked: dict[Link, float] = {}
        self._beat_at: float | None = None
        self._effects: list[Effect] = []

    # -- the start, and what links do --------------------------------------------------------------------------

    def open(self, dialled: list[int], number: int, now: float) -> list[Effect]:
        """Begin: dial these neighbors; `number` is the first round that will be run."""
        self.members.current_round = self._admission.start = number
        self.exchange.inbox.open(number)
        self._effects += [Dial(rank) for rank in dialled]
        if self._config.liveness.heartbeat > 0:
            self._beat_at = now
        return self._after(now)

    def dialled(self, rank: int, link: Link, now: float) -> list[Effect]:
        """Note that the rank is dialled on this link."""
        self._dialling.add(rank, link, now)
        return self._after(now)

    def connected(self, link: Link, now: float) -> list[Effect]:
        """A link that was dialled is established, perhaps once more."""
        self._part(link)
        if self._dialling.get(link) is not None:
            self._introduce(link, now)
        return self._after(now)

    def disconnected(self, link: Link, now: float) -> list[Effect]:
        """A link is broken: what was not written is lost."""
        rank = self._part(link)
        contender = self._contenders.pop(rank, None) if rank is not None else None
        if contender is not None and contender[0] != link:
            with self._dropping(contender[0]):
                self._take(contender[0], contender[1], now)
        return self._after(now)

    def receive(self, link: Link, frames: Frames, now: float) -> list[Effect]:
        """A message came."""
        with self._dropping(link):
            self._handle(link, frames, now)
        return self._after(now)

    def unreachable(self, link: Link, reason: str, now: float) -> list[Effect]:
        """A dialled link cannot be established at present, for this reason."""
        one = self._dialling.get(link)
        if one is not None and self.members[one.rank].trouble_dialling != reason:
            self.members[one.rank].trouble_dialling = reason
            self._say(
                "warning", "neighbor-unreachable", f"rank {one.rank} cannot be dialled: {reason}; trying again",
                neighbor=one.rank, reason=reason,
            )  # fmt: skip
        return self._after(now)

    # -- what the round loop wants -----------------------------------------------------------------------------

    def meet(self, now: float) -> list[Effect]:
        """Wait until every neighbor has shaken hands: ends in a Wake, or a Fail with PeersMissing or Refused."""
        self._waiting.meet(now)
        return self._after(now)

    def at(self, number: int) -> Neighborhood:
        """The graph of round `number`, as this peer sees it."""
        return self._schedule.at(number)

    def behind(self, number: int, now: float) -> bool:
        """Whether the others have gone past round `number` without this peer: it sits the round out."""
        return self._waiting.behind(number, now)

    @property
    def left_behind(self) -> int:
        """How many rounds this peer has sat out because the others had gone past them."""
        return self._waiting.left_behind

    def begin(self, number: int, now: float) -> list[Effect]:
        """Round `number` is this peer's current round: what came before is on disk."""
        self.exchange.begin(number)
        return self._after(now)

    def release(self, number: int, payload: Payload | None, now: float) -> list[Effect]:
        """Send round `number`'s body; None if there is none."""
        self.exchange.release(number, payload)
        return self._after(now)

    def collect(self, number: int, now: float) -> list[Effect]:
        """Wait for round `number`'s bodies: ends in a Deliver."""
        self._waiting.collect(number, now)
        return self._after(now)

    def settle(self, number: int, now: float) -> list[Effect]:
        """Wait until round `number` may be completed: ends in a Wake."""
        self._waiting.settle(number, now)
        return self._after(now)

    def linger(self, now: float) -> list[Effect]:
        """Wait, after the last round, until nobody needs this peer any more: ends in a Wake."""
        self.members.current_round = self._config.rounds
        self.exchange.tell(one.rank for one in self.members.all())
        self._waiting.linger(now)
        return self._after(now)

    def leave(self, reason: Literal["done", "stopped", "failed"], now: float) -> list[Effect]:
        """Say goodbye to everybody; nothing is waited for any more."""
        self._waiting.over()
        goodbye = wire.Goodbye(rank=self._config.rank, federation=self._federation, reason=reason)
        for neighbor in self.members.all():
            if neighbor.link is not None and neighbor.status is not Status.GONE:
                self.lanes[neighbor.link].leave(wire.encode(goodbye))
        return self._after(now)

    def left_out(self, rank: int, reason: str, now: float) -> list[Effect]:
        """Count a body that arrived whole but must not be mixed."""
        error = ProtocolError(reason, "its weight goes to the diagonal this round")
        self.rejections.count(rank, error)
        return self._after(now)

    def waited_for(self, now: float) -> list[int]:
        """The ranks that this peer waits for at present."""
        return self._waiting.ranks(now)

    # -- what is to be written ---------------------------------------------------------------------------------

    def outgoing(self, link: Link) -> Frames | None:
        """The message that is to be written on the link next; None if there is none. The same until `taken`."""
        lane = self.lanes.get(link)
        if lane is None:
            return None
        if (neighbor := self.members.by_link(link)) is not None:
            self.exchange.forget_useless(neighbor.rank)
        elif lane.empty and self._dialling.get(link) is None:
            self.lanes.forget(link)
        return lane.next()

    def taken(self, link: Link) -> None:
        """The link has taken that message."""
        lane = self.lanes.get(link)
        if lane is not None:
            lane.taken()

    def full(self, link: Link) -> None:
        """The link takes nothing more at present: for a stranger who does not read, nothing is kept."""
        if self.members.by_link(link) is None and self._dialling.get(link) is None:
            self.lanes.forget(link)

    @property
    def written(self) -> bool:
        """Whether nothing waits to be written to a neighbor that is there."""
        lanes = (self.lanes.get(one.link) for one in self.members.all() if one.link is not None)
        return all(lane is None or lane.empty for lane in lanes)

    # -- what arrives ------------------------------------------------------------------------------------------

    def _handle(self, link: Link, frames: Frames, now: float) -> None:
        neighbor = self.members.by_link(link)
        if neighbor is None and self.rejections.muted(link, now):
            raise ProtocolError("muted", "the sender has sent too much that was of no use")
        message = wire.decode(frames, self._limits)
        match message:
            case wire.Piece():
                self._on_piece(link, neighbor, message, now)
            case wire.Hello():
                self._take(link, message, now)
            case wire.Refusal():
                self._on_refusal(link, message, now)
            case wire.Unknown():
                self._on_unknown(link, neighbor, message, now)
            case _:
                if neighbor is None:
                    raise self._stranger(link, f"a {message.kind}", now)
                if message.rank != neighbor.rank:
                    raise ProtocolError("wrong-rank", f"rank {neighbor.rank} speaks for rank {message.rank}")
                if message.federation != self._federation:
                    raise ProtocolError("other-federation", "its messages are of another federation")
                if not isinstance(message, wire.Goodbye) and message.round > self._config.rounds:
                    raise ProtocolError("malformed", f"round {message.round} of {self._config.rounds}")
                self._on_message(link, neighbor, message, frames, now)

    def _on_message(
        self, link: Link, neighbor: Neighbor, message: wire.Body | wire.Heartbeat | wire.Goodbye, frames: Frames,
        now: float,
    ) -> None:  # fmt: skip
        inbox = self.exchange.inbox
        match message:
            case wire.Body(buffers=None):
                self._heard(neighbor, message.round, now)
                wanted = inbox.wants(neighbor.rank, message.round)
                length = wire.size(frames) + message.payload_bytes
                self.assembly.begin(link, message, length, wanted=wanted, now=now)
            case wire.Body():
                self._heard(neighbor, message.round, now)
                inbox.put(neighbor.rank, message.round, Received(frames[1:], wire.size(frames)))
            case wire.Heartbeat():
                self._heard(neighbor, message.round, now)
                self.lanes.pace(link, message.pace)
            case wire.Goodbye():
                self._on_goodbye(neighbor, message.reason, now)

    def _on_piece(self, link: Link, neighbor: Neighbor | None, piece: wire.Piece, now: float) -> None:
        if neighbor is None:
            raise self._stranger(link, "a piece of a body", now)
        self._heard(neighbor, neighbor.mentioned, now)  # a slow line is not a dead neighbor
        arriving = self.assembly.add(link, piece)
        if not arriving.complete:
            return
        body, inbox = arriving.body, self.exchange.inbox
        if arriving.imprint is not None:
            inbox.compare(body.rank, body.round, arriving.imprint.digest())
        else:
            inbox.put(body.rank, body.round, Received(arriving.payload, arriving.wire_bytes))
        self._measure(link, body.payload_bytes, now - arriving.since)

    def _measure(self, link: Link, nbytes: int, seconds: float) -> None:
        """Tell the sender how long its pieces may be, if that has changed much."""
        if self._most is None:
            return
        found, lane = pieces.pace(nbytes, seconds, self._config.liveness.dead_after, self._most), self.lanes[link]
        told, lane.measured = lane.measured, found
        if max(found, told) >= 2 * min(found, told):
            self.exchange.beat(link)

    def _take(self, link: Link, hello: wire.Hello, now: float) -> None:
        """Take a hello, unless another process speaks for the rank and has to be asked first whether it is there."""
        self._dialling.answered(link)
        if self._contends(link, hello, now):
            return
        rank = hello.rank
        if rank in self.members:
            self._waiting.met.add(rank)
        if not hello.reply:
            # Answered before it is judged: the other side finds the same mismatch by itself and can name it.
            self._hello(link, reply=True)
        dialled = self._dialling.get(link)
        expected = dialled.rank if dialled is not None else None
        try:
            self._admission.judge(hello, self.members.current_round, expected)
        except Refused as refusal:
            if not self._waiting.refuse(refusal, now):
                raise ProtocolError("mismatch", str(refusal)) from refusal
            self._admission.part(hello, self.members.current_round, expected)
            self._tell_parting()
            return
        neighbor = self.members[rank]
        if hello.apart_from is not None:
            self._on_trouble(neighbor, f"it cannot train with rank {hello.apart_from}: {hello.apart_because}")
        if hello.apart_from is not None or self._admission.apart:  # one of the two is about to leave
            return
        if hello.running:
            self._waiting.join(now)
        self._welcome(neighbor, link, hello.next_round, now)

    def _contends(self, link: Link, hello: wire.Hello, now: float) -> bool:
        """Whether another process has the rank, as far as is known. A heartbeat shows if its link is broken."""
        if hello.rank not in self.members:
            return False
        neighbor = self.members[hello.rank]
        if neighbor.link in (None, link) or neighbor.status is not Status.ALIVE:
            return False
        until = now + _PROBE
        if hello.rank in self._contenders and self._contenders[hello.rank][0] == link:
            until = self._contenders[hello.rank][2]
        self._contenders[hello.rank] = link, hello, until
        self.exchange.beat(neighbor.link)
        return True

    def _refuse_contenders(self, now: float) -> None:
        """Refuse the processes whose rank another process still has."""
        late = [rank for rank, (_, _, until) in self._contenders.items() if now >= until]
        for rank in late:
            link, _, _ = self._contenders.pop(rank)
            reason = f"another process already takes part as rank {rank} (has it just crashed? try again in a while)"
            self.lanes[link].say("refusal", wire.encode(wire.Refusal(rank=self._config.rank, reason=reason)))
            self._drop(link, ProtocolError("rank-taken", f"a second rank {rank} shook hands"))

    def _welcome(self, neighbor: Neighbor, link: Link, number: int, now: float) -> None:
        """Train with a neighbor, which works on round `number`."""
        if neighbor.link not in (None, link):
            self._part(neighbor.link)
        here = self.members.current_round
        if self.members.greet(neighbor.rank, link, number, now):
            self._say_back(neighbor)
        self._dialling.welcome(neighbor.rank)
        self._refused.pop(neighbor.rank, None)
        neighbor.trouble_dialling = ""
        if number < here and not self._schedule.fits(here, neighbor.rank, number):
            neighbor.left_behind = True  # and is not waited for until it has caught up
        self.lanes[link].known = True
        self.exchange.outbox.ask(neighbor.rank, number)
        self.exchange.deliver()
        self.exchange.beat(link)

    def _tell_parting(self) -> None:
        """Tell the neighbors that are there that this peer is about to leave."""
        for neighbor in self.members.all():
            if neighbor.link is not None and neighbor.status is not Status.GONE:
                self._hello(neighbor.link, reply=True)

    def _on_refusal(self, link: Link, refusal: wire.Refusal, now: float) -> None:
        """End the wait for neighbors, because one that we dialled turns us away."""
        dialled = self._dialling.get(link)
        if dialled is None or dialled.rank != refusal.rank:
            raise ProtocolError("stranger", "a refusal from somebody who was not asked")
        dialled.unanswered = now  # later it may be another answer: ask with the next beat
        # A process that was restarted at once is taken for a second one until the end of the first has shown. A
        # neighbor that was silent in between, because it stood still itself, has not looked for that long.
        patience = self._config.liveness.suspect_after
        since, last = self._refused.get(refusal.rank, (now, now))
        since = now if now - last >= patience else since
        self._refused[refusal.rank] = since, now
        if self.members.missing() and now - since >= 2 * patience:
            self._waiting.refuse(Refused(f"rank {refusal.rank} says: {refusal.reason}"), now)

    def _on_unknown(self, link: Link, neighbor: Neighbor | None, unknown: wire.Unknown, now: float) -> None:
        """Say hello again to somebody who has forgotten us, or took another process for us."""
        dialled = self._dialling.get(link)
        expected = dialled.rank if dialled is not None else neighbor.rank if neighbor is not None else None
        if expected != unknown.rank:
            raise ProtocolError("stranger", "asked for a hello by somebody who is not a neighbor")
        if now >= self._asked.get(link, now):
            self._note_asked(link, now)
            self._introduce(link, now)

    def _stranger(self, link: Link, what: str, now: float) -> ProtocolError:
        """Ask somebody for a hello, now and then: a neighbor's link may have been taken over for a while."""
        if now >= self._asked.get(link, now):
            self._note_asked(link, now)
            self.lanes[link].say("unknown", wire.encode(wire.Unknown(rank=self._config.rank)))
        return ProtocolError("stranger", f"{what} before the handshake")

    def _note_asked(self, link: Link, now: float) -> None:
        self._asked.pop(link, None)
        self._asked[link] = now + _ASK_AGAIN
        if len(self._asked) > _ASKED:
            del self._asked[next(iter(self._asked))]

    def _on_trouble(self, neighbor: Neighbor, trouble: str) -> None:
        if neighbor.trouble != trouble:
            self._say(
                "warning", "neighbor-trouble",
                f"rank {neighbor.rank} says that {trouble}; start these two again with settings that agree",
                neighbor=neighbor.rank, reason=trouble,
            )  # fmt: skip
        neighbor.trouble = trouble

    def _on_goodbye(self, neighbor: Neighbor, reason: Literal["done", "stopped", "failed"], now: float) -> None:
        if neighbor.status is Status.GONE:
            return
        self.members.goodbye(neighbor, reason, now)
        self.assembly.forget(neighbor.link)
        if reason == "done":
            neighbor.current_round = max(neighbor.current_round, self._config.rounds)
            return
        grace = self._config.liveness.stop_grace
        why = {
            "stopped": "was stopped: rounds go on without it; to resume all together, stop this peer within "
            f"{grace:g} s, too",
            "failed": "failed: its own log.jsonl says why; rounds that have begun go on without it",
        }[reason]
        self._say(
            "warning", "neighbor-gone", f"rank {neighbor.rank} {why}", neighbor=neighbor.rank, reason=reason
        )  # fmt: skip

    def _heard(self, neighbor: Neighbor, number: int, now: float) -> None:
        if self.members.heard(neighbor, number, now):
            self._say_back(neighbor)
            # While it was dead nothing was sent to it, and it may have taken us for dead, too: new hellos make both
            # sides send again what the other lacks.
            self._hello(neighbor.link, reply=False)

    def _say_back(self, neighbor: Neighbor) -> None:
        self._say(
            "info", "neighbor-back",
            f"rank {neighbor.rank} is back: it is used again once it has caught up; nothing has to be done",
            neighbor=neighbor.rank, round=self.members.current_round,
        )  # fmt: skip

    @contextmanager
    def _dropping(self, link: Link) -> Iterator[None]:
        """Drop and count a message that cannot be handled: one bad message must never end the peer."""
        try:
            yield
        except ProtocolError as error:
            self._drop(link, error)
        except Exception as error:
            self._say("debug", "message-unhandled", "a message could not be handled", traceback=traceback.format_exc())
            self._drop(link, ProtocolError("unhandled", type(error).__name__))

    def _drop(self, link: Link, error: ProtocolError) -> None:
        neighbor = self.members.by_link(link)
        if neighbor is None:
            self.rejections.count_stranger(link, error)
        else:
            self.rejections.count(neighbor.rank, error)

    def _second_body(self, rank: int, number: int) -> None:
        self._say(
            "warning", "second-body",
            f"rank {rank} sent a second, different body for round {number} (the first is used): its folder was copied "
            "or rolled back to a backup, or two processes use it; with --privacy it has released that round twice, and "
            "its epsilon is higher than it says: let one process go on, with the folder as it was last (without "
            "--privacy, a round that was trained again after a crash can look like this, and does no harm)",
            neighbor=rank, round=number,
        )  # fmt: skip

    # -- links -------------------------------------------------------------------------------------------------

    def _hello(self, link: Link, *, reply: bool) -> None:
        hello = self._admission.hello(self.members.current_round, reply=reply)
        self.lanes[link].say("answer" if reply else "hello", wire.encode(hello))

    def _introduce(self, link: Link, now: float) -> None:
        """Say hello, and again if no answer comes.

        Links keep order and lose nothing while they last, so an answer that is late comes. A second hello would have
        both sides send again the bodies that the first one has asked for; it is for a peer that lost the first.
        """
        dialled = self._dialling.get(link)
        if dialled is not None:
            dialled.unanswered = now + self._config.liveness.suspect_after
        self._hello(link, reply=False)

    def _part(self, link: Link) -> int | None:
        """Forget what depended on a link that is broken; returns the rank that spoke on it."""
        self.assembly.forget(link)
        unfinished = self.lanes.forget(link)
        dialled = self._dialling.get(link)
        if dialled is not None:
            dialled.unanswered = float("inf")
        neighbor = self.members.parted(link)
        if neighbor is None:
            return None
        self.exchange.parted(neighbor.rank, unfinished)
        return neighbor.rank

    # -- time passes -------------------------------------------------------------------------------------------

    def look(self, now: float) -> list[Effect]:
        """See what has become possible."""
        return self._after(now)

    def tick(self, now: float) -> list[Effect]:
        """Let time pass."""
        self._refuse_contenders(now)
        if self._beat_at is not None and now >= self._beat_at:
            self._beat_at = now + self._config.liveness.heartbeat
            for dead in self.members.tick(now):
                self._on_death(dead)
            self._tend_dialled(now)
            self.exchange.tell(one.rank for one in self.members.all())
        return self._after(now)

    def next_tick(self, now: float) -> float:
        """The clock time at which `tick` has to be called, unless something happens before; infinity for never."""
        beat = float("inf") if self._beat_at is None else self._beat_at
        return min(beat, self._waiting.next_look(now), *(until for _, _, until in self._contenders.values()))

    def _on_death(self, dead: Neighbor) -> None:
        self._say(
            "warning", "neighbor-dead",
            f"rank {dead.rank} is {dead.why_away}: rounds go on without it; see whether its process, its host and the "
            "network are well (--dead-after says how long is too long)",
            neighbor=dead.rank, round=self.members.current_round, reason=dead.why_away,
        )  # fmt: skip
        self.assembly.forget(dead.link)
        self.exchange.parted(dead.rank, self.lanes.begin_anew(dead.link))

    def _tend_dialled(self, now: float) -> None:
        """Repeat hellos that were not answered, and dial anew the neighbors that have been silent for long."""
        for link, one in self._dialling.all():
            neighbor = self.members[one.rank]
            finished = neighbor.status is Status.GONE and neighbor.why_away == "done"
            if not finished and self._dialling.overdue(link, neighbor.heard_at, now):
                self._part(link)
                self._effects += [Close(link), Dial(one.rank)]
            elif one.unanswered is not None:
                if now >= one.unanswered:
                    self._introduce(link, now)
            elif neighbor.link != link:  # answered, but not by one that may train with us
                self._hello(link, reply=False)

    # -- effects -----------------------------------------------------------------------------------------------

    def _say(self, level: Literal["debug", "info", "warning"], event: str, message: str, **fields: Any) -> None:
        self._effects.append(Say(level, event, message, fields))

    def _after(self, now: float) -> list[Effect]:
        """See what has become possible, and give out all effects."""
        self.exchange.deliver()
        self._effects += self._waiting.look(now)
        self._effects += [Write(link) for link in self.lanes.fresh]
        self.lanes.fresh.clear()
        effects, self._effects = self._effects, []
        return effects
