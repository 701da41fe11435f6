"""Connection setup: hellos, the rank bound to each link, what others know of rounds and lists, and redials; no I/O."""

from __future__ import annotations

import math
from typing import Any

from dpeer.exceptions import ProtocolError, Refused
from dpeer.peer.core import wire
from dpeer.peer.core.effects import Close
from dpeer.peer.core.exchange import Exchange, LedgerGuard
from dpeer.peer.core.handshake import mismatch
from dpeer.peer.core.limits import ASK_AGAIN, ASKED
from dpeer.peer.core.list_keeper import ListKeeper
from dpeer.peer.core.membership import NOT_APPEARED, Dialling, Neighbor, Status
from dpeer.peer.core.state import State
from dpeer.peer.core.waiting import Waiting
from dpeer.peer.transport import Link

_BATCH = 0.01
"""Seconds for each neighbor until arrivals before the first round are passed on: a hundred messages a second in all."""

_UNANSWERED = (
    "connected, but its hello does not come: short messages pass, long ones may not (MTU of the path?); "
    "dpeer check --connect --within 60 tells"
)
"""Why a neighbor has not come although the connection to it stands, for which short messages have passed both ways."""


class ConnectionSetup:
    """Sends and answers hellos: which rank speaks on which link; takes in what others say of rounds and lists.

    Attributes:
        dialling: The links that this peer has dialled.
        goodbye: That of this peer once it leaves: a neighbor that it meets on its way out hears it, too.
        beat_at: Clock time of the next heartbeat; infinity for a peer that sends none.
        beaten_at: That of the last one.
    """

    def __init__(
        self, state: State, exchange: Exchange, keeper: ListKeeper, dialling: Dialling, waiting: Waiting,
        ledger_guard: LedgerGuard,
    ) -> None:  # fmt: skip
        self.dialling = dialling
        self.goodbye: wire.Goodbye | None = None
        self.beat_at, self.beaten_at = math.inf, 0.0
        self._state, self._config, self._log = state, state.config, state.log
        self._members, self._schedule, self._round_clock = state.members, state.schedule, state.round_clock
        self._send_queues, self._reassembly, self._exchange = state.send_queues, state.reassembly, exchange
        self._keeper, self._waiting, self._ledger_guard = keeper, waiting, ledger_guard
        self._asked: dict[Link, float] = {}

    # -- hellos ------------------------------------------------------------------------------------------------

    def connected(self, link: Link, now: float) -> None:
        """Say hello on a link that was dialled and is established, perhaps once more."""
        self.part(link)
        if link in self.dialling:
            self.introduce(link, now)

    def introduce(self, link: Link, now: float) -> None:
        """Say hello, and again if no answer comes.

        Links keep order and lose nothing while they last, so an answer that is late comes. A second hello would have
        both sides send again the bodies that the first one has asked for; it is for a peer that lost the first.
        """
        dialled = self.dialling.get(link)
        if dialled is not None:
            dialled.unanswered = now + self._config.liveness.suspect_after
        self._hello(link, reply=False)

    def _hello(self, link: Link, *, reply: bool, to: int | None = None) -> None:
        """Send a hello to a rank; None for the one that speaks on the link, or was dialled on it."""
        dialled, neighbor = self.dialling.get(link), self._members.by_link(link)
        if to is None:
            to = neighbor.rank if neighbor is not None else dialled.rank if dialled is not None else None
        clock, entry = self._round_clock, self._exchange.entry
        hello = self._own_hello(
            reply=reply, presence=clock.table, stamps=list(clock.stamps.table), enters=entry.enters,
            released=0 if to is None or to not in self._members else self._members[to].released,
        )  # fmt: skip
        self._keeper.send(link)
        self._send_queues[link].add("answer" if reply else "hello", wire.encode(hello))
        if self.goodbye is not None:
            self._send_queues[link].goodbye = wire.encode(self.goodbye)

    def _own_hello(self, **fields: Any) -> wire.Hello:
        about = self._state.learner.about
        return wire.Hello(
            rank=self._config.rank, next_round=self._members.current_round, fingerprint=dict(self._config.fingerprint),
            manifest=dict(about.manifest), digest=about.digest, **fields,
        )  # fmt: skip

    def take(self, link: Link, hello: wire.Hello, now: float, identity: int | None = None) -> None:
        """Take a hello.

        A new connection of a rank takes the place of the old one at once; with keys its sender has proved to be
        `identity`. Of two that the two ends have dialled the one that the lower rank has dialled stays, as long as it
        is heard.
        """
        rank = hello.rank
        if identity is not None and rank != identity:
            raise ProtocolError("wrong-rank", f"rank {identity}, by its key, speaks for rank {rank}")
        self.dialling.answered(link)
        if not self.admits(rank):
            self._keeper.heard(link, rank, hello.stamps)
            if self._keeper.knows(rank):
                return
            raise ProtocolError("no-member", f"rank {rank} is no member by the lists that are known here")
        if self._is_second(link, rank):
            return
        if not hello.reply:
            # Answered before it is judged: the other side finds the same mismatch by itself and can name it.
            self._hello(link, reply=True, to=rank)
        dialled = self.dialling.get(link)
        expected = dialled.rank if dialled is not None else None
        try:
            self._judge(hello, expected)
        except Refused as refusal:
            self._waiting.refuse(refusal, now)
            self._await_correction(rank if expected is None else expected, str(refusal))
            raise ProtocolError("mismatch", str(refusal)) from refusal
        neighbor = self._members[rank]
        self._take_link(neighbor, link)
        self._ledger_guard.note(hello.released)
        self.note(link, neighbor, hello.next_round, hello, now)
        self._welcome(neighbor, link, hello.next_round, now)
        neighbor.enters = hello.enters

    def _judge(self, hello: wire.Hello, dialled: int | None) -> None:
        """Let a neighbor in, or raise; `dialled`: which rank this peer has dialled on the link, if it has.

        A mismatch ends this peer's own run only before the first round, and only if the rank is one of the federation.
        Once neighbors train together, a peer that comes with other settings is turned away; strangers always are.

        Raises:
            Refused: The other side does not fit, and our own run must not begin.
            ProtocolError: The other side does not fit, and is turned away.
        """
        rank, members, clock = hello.rank, self._members, self._round_clock
        if dialled is not None and rank != dialled:
            problem = f"rank: expected {dialled} at its address, found {rank}: check the addresses"
        else:
            problem = mismatch(self._own_hello(), hello, clock.rounds, self._config.names) or ""
        if problem:
            problem = wire.printable(problem)
            trains_with_us = rank in members and members[rank].status is not Status.UNSEEN
            if (dialled is not None or rank in clock.members) and not trains_with_us and members.missing():
                raise Refused(problem)
            raise ProtocolError("mismatch", problem)
        if rank not in members:
            raise ProtocolError("not-a-neighbor", f"rank {rank} shook hands")

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

    def admits(self, rank: int) -> bool:
        """Whether messages of a rank are taken: it is a member by a list that is of use here."""
        return self._keeper.admitted is None or rank in self._keeper.admitted

    def _crosses(self, link: Link, other: Link) -> bool:
        """Whether of two links of a pair each end has dialled one."""
        return (link not in self.dialling) != (other not in self.dialling)

    def _is_second(self, link: Link, rank: int) -> bool:
        """Whether a link crosses the one that stays, which the lower rank has dialled (as in BGP), and which is heard.

        The higher rank gives it up as soon as it has a hello on the other one.
        """
        if rank not in self._members:
            return False
        neighbor = self._members[rank]
        if neighbor.link is None or neighbor.status is not Status.ALIVE or not self._crosses(link, neighbor.link):
            return False
        return (neighbor.link in self.dialling) == (self._config.rank < rank)

    def _take_link(self, neighbor: Neighbor, link: Link) -> None:
        """Have the link of a neighbor's hello take the place of an earlier one."""
        before, rank = neighbor.link, neighbor.rank
        if before is not None and self._crosses(link, before):  # it is read until its dialler has given it up
            self._exchange.parted(rank, self._send_queues[before].silence())
        elif before not in (None, link):
            if neighbor.status is Status.ALIVE:
                self._log(
                    "info", "neighbor-reconnected",
                    f"rank {rank} has connected anew while its earlier connection was there, and uses the new one; if "
                    f"this goes on, two processes run as rank {rank}: stop one",
                    neighbor=rank,
                )  # fmt: skip
            self.part(before)
        # A hello that is under way on this peer's own link may make that the one that stays.
        asks = any(one.rank == rank and one.unanswered not in (None, math.inf) for one in self.dialling.values())
        if link not in self.dialling and (self._config.rank > rank or not asks):
            self.give_up(rank)
        self._send_queues[link].known = True

    def _welcome(self, neighbor: Neighbor, link: Link, number: int, now: float) -> None:
        """Train with a neighbor, which works on round `number` and speaks on this link."""
        here = self._members.current_round
        if self._members.greet(neighbor.rank, link, number, now):
            self._log_back(neighbor)
        self._waiting.accepted = True
        self.dialling.welcome(neighbor.rank)
        neighbor.trouble_dialling = ""
        if number < here and not self._schedule.fits(here, neighbor.rank, number):
            neighbor.left_behind = True  # and is not waited for until it has caught up
        self._exchange.outbox.ask(neighbor.rank, number)
        self._exchange.deliver()
        self._exchange.send_heartbeat(link)

    def _await_correction(self, rank: int, problem: str) -> None:
        """Wait for a rank that does not fit until one of the two is corrected, if none of them ends by that."""
        if rank not in self._members or self._members[rank].trouble == problem:
            return
        self._members[rank].trouble = problem
        self._log(
            "warning", "other-settings",
            f"rank {rank} and this peer cannot train together: {problem}; the start waits until one is corrected",
            neighbor=rank, reason=problem,
        )  # fmt: skip

    def heard(self, neighbor: Neighbor, number: int, now: float) -> None:
        """Note that the neighbor lives, and mentioned this round."""
        if self._members.heard(neighbor, number, now):
            self._log_back(neighbor)
            # While it was dead nothing was sent to it, and it may have taken us for dead, too: new hellos make both
            # sides send again the bodies that the other lacks.
            if neighbor.link is not None:
                self._hello(neighbor.link, reply=False)

    def _log_back(self, neighbor: Neighbor) -> None:
        rank, number = neighbor.rank, self._members.current_round
        if neighbor.why_away == NOT_APPEARED:
            text = f"rank {rank} has come: it is used once it has caught up"
            self._log("info", "neighbor-came", text, neighbor=rank, round=number)
        else:
            text = f"rank {rank} is back: it is used again once it has caught up"
            self._log("info", "neighbor-back", text, neighbor=rank, round=number)

    # -- strangers ---------------------------------------------------------------------------------------------

    def stranger(self, link: Link, what: str, now: float) -> ProtocolError:
        """Ask a sender for a hello, now and then: a neighbor's link may have been taken over for a while."""
        self._ask(link, now)
        return ProtocolError("stranger", f"{what} before the handshake")

    def on_ping(self, link: Link, pong: wire.Frames, now: float) -> None:
        """Answer a neighbor's `dpeer check`, now and then."""
        if self._members.by_link(link) is None and now >= self._asked.get(link, now):
            self._note_asked(link, now)
            self._send_queues[link].add("pong", pong)

    def _ask(self, link: Link, now: float) -> None:
        if now >= self._asked.get(link, now):
            self._note_asked(link, now)
            self._send_queues[link].add("unknown", wire.encode(wire.Unknown(rank=self._config.rank)))

    def on_unknown(self, link: Link, neighbor: Neighbor | None, unknown: wire.Unknown, now: float) -> None:
        """Send the hello again to a peer that has forgotten this one, or took another process for it."""
        dialled = self.dialling.get(link)
        expected = dialled.rank if dialled is not None else neighbor.rank if neighbor is not None else None
        if expected != unknown.rank:
            raise ProtocolError("stranger", "asked for a hello by a peer that is not a neighbor")
        if now >= self._asked.get(link, now):
            self._note_asked(link, now)
            self.introduce(link, now)

    def _note_asked(self, link: Link, now: float) -> None:
        self._asked.pop(link, None)
        self._asked[link] = now + ASK_AGAIN
        if len(self._asked) > ASKED:
            del self._asked[next(iter(self._asked))]

    # -- links -------------------------------------------------------------------------------------------------

    def part(self, link: Link) -> None:
        """Forget the state of a link that is broken: its unwritten messages are lost."""
        self._reassembly.forget(link)
        unfinished = self._send_queues.forget(link)
        self._keeper.forget(link)
        dialled = self.dialling.get(link)
        if dialled is not None:
            dialled.unanswered = float("inf")
        neighbor = self._members.parted(link)
        if neighbor is not None:
            self._exchange.parted(neighbor.rank, unfinished)

    def give_up(self, rank: int) -> None:
        """Give up the links that this peer has dialled to a rank: the transport dials it no more."""
        for link, dialled in [*self.dialling.items()]:
            if dialled.rank == rank:
                self._give_up(link)

    def give_up_done(self) -> None:
        """Once this peer has completed all rounds, dial none any more that is done: another run may listen there."""
        if self._members.current_round >= self._schedule.rounds:
            for one in self._members.every():
                if self._members.is_done(one.rank):
                    self.give_up(one.rank)

    def _give_up(self, link: Link) -> None:
        """Give up a link that this peer has dialled."""
        self.part(link)
        self.dialling.pop(link, None)
        self._state.effects.append(Close(link))

    def unanswered(self) -> list[Link]:
        """The links that are established, on which this peer's hello has no answer yet."""
        return [link for link, one in self.dialling.items() if one.unanswered is not None and one.unanswered < math.inf]

    def tend(self, now: float) -> None:
        """Repeat hellos that were not answered, and dial anew the neighbors that have been silent for long."""
        effects = self._state.effects
        for link, one in [*self.dialling.items()]:
            neighbor = self._members[one.rank]
            if one.rank not in self._keeper.to_dial and not neighbor.near and self._may_go(neighbor):
                self._give_up(link)
            elif not self._members.is_done(one.rank) and self.dialling.overdue(link, neighbor, now):
                self.part(link)
                effects += [Close(link), *self.dialling.begin([one.rank])]
            elif one.unanswered is not None:
                if now >= one.unanswered and neighbor.link not in (None, link) and neighbor.status is Status.ALIVE:
                    self._give_up(link)  # heard on a link of its own, it does not hear this peer on this one
                elif now >= one.unanswered:
                    if neighbor.status is Status.UNSEEN:
                        neighbor.trouble_dialling = _UNANSWERED
                    self.introduce(link, now)
            elif neighbor.link != link:  # answered, but not by one that may train with us
                self._hello(link, reply=False)
        for neighbor in self._members.every():
            accepted = neighbor.link is not None and neighbor.link not in self.dialling
            if accepted and not neighbor.listed and self._may_go(neighbor):
                effects.append(Close(neighbor.link))
                self.part(neighbor.link)
        lost = self._lost()
        for rank in lost:
            silent = self._members[rank].link
            if silent is not None and silent not in self.dialling:
                self.part(silent)
        effects += self.dialling.begin(lost)

    def _lost(self) -> list[int]:
        """The neighbors that are away and that this peer has to dial."""
        some = [self._members[rank] for rank in sorted(self._keeper.to_dial)]
        away = [one for one in some if one.link is None or one.status is Status.DEAD]
        return [one.rank for one in away if not self._members.is_done(one.rank)]

    def _may_go(self, neighbor: Neighbor) -> bool:
        """Whether a link that this peer has dialled is of no use any more: a former member hears first that it is."""
        return neighbor.status is Status.GONE or not self._keeper.has_to_tell(neighbor.rank, neighbor.link)
