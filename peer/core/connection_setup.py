"""Connection setup: hellos, the rank bound to each link, refusals of impostors, and redials; no I/O."""

from __future__ import annotations

import math

from dpeer.exceptions import ProtocolError, Refused
from dpeer.peer.core import wire
from dpeer.peer.core.dialling import Dialling
from dpeer.peer.core.effects import Close
from dpeer.peer.core.exchange import Exchange
from dpeer.peer.core.handshake import Handshake
from dpeer.peer.core.limits import ASK_AGAIN, ASKED
from dpeer.peer.core.list_keeper import ListKeeper
from dpeer.peer.core.membership import NOT_APPEARED, Neighbor, Status
from dpeer.peer.core.presence import Presence
from dpeer.peer.core.release_checks import LedgerGuard
from dpeer.peer.core.reports import DropCounter
from dpeer.peer.core.state import State
from dpeer.peer.core.wait import StartWait
from dpeer.peer.transport import Link

_PROBE = 0.5
"""Seconds in which it shows whether the connection of a process, whose rank another one wants, is broken."""

_UNANSWERED = (
    "connected, but its hello does not come: short messages pass, long ones may not (MTU of the path?); "
    "dpeer check --connect --within 60 tells"
)
"""Why a neighbor has not come although the connection to it stands, for which short messages have passed both ways."""


class ConnectionSetup:
    """Sends and answers hellos: which rank speaks on which link.

    Args:
        ledger_guard: Hears of how many rounds neighbors have got bodies of this peer.

    Attributes:
        dialling: The links that this peer has dialled.
        goodbye: That of this peer once it leaves: a neighbor that it meets on its way out hears it, too.
    """

    def __init__(
        self,
        state: State,
        exchange: Exchange,
        keeper: ListKeeper,
        dialling: Dialling,
        start: StartWait,
        handshake: Handshake,
        ledger_guard: LedgerGuard,
        presence: Presence,
        drops: DropCounter,
    ) -> None:
        self.dialling = dialling
        self.goodbye: wire.Goodbye | None = None
        self._state, self._config, self._log = state, state.config, state.log
        self._members, self._schedule, self._round_clock = state.members, state.schedule, state.round_clock
        self._send_queues, self._reassembly, self._exchange = state.send_queues, state.reassembly, exchange
        self._keeper, self._start, self._handshake = keeper, start, handshake
        self._ledger_guard, self._presence, self._drops = ledger_guard, presence, drops
        self._contenders: dict[int, tuple[Link, wire.Hello, float]] = {}
        self._refused: dict[int, tuple[float, float]] = {}
        self._asked: dict[Link, float] = {}

    # -- hellos ------------------------------------------------------------------------------------------------

    def connected(self, link: Link, now: float) -> None:
        """Say hello on a link that was dialled and is established, perhaps once more."""
        self.part(link)
        if self.dialling.get(link) is not None:
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
        hello = self._handshake.hello(
            self._members.current_round, reply=reply, presence=clock.table, stamps=clock.stamps.table,
            enters=entry.enters, to=to,
        )  # fmt: skip
        self._keeper.send(link)
        self._send_queues[link].add("answer" if reply else "hello", wire.encode(hello))
        if self.goodbye is not None:
            self._send_queues[link].goodbye = wire.encode(self.goodbye)

    def take(self, link: Link, hello: wire.Hello, now: float, identity: int | None = None) -> None:
        """Take a hello.

        Without keys, if another process speaks for the rank, it has to be asked first whether it is there. With keys
        the sender has proved to be `identity`, and its new connection takes the place of the old one at once. Of two
        that the two ends have dialled the one that the lower rank has dialled stays, as long as it is heard.
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
        if self._is_second(link, rank) or (identity is None and self._contends(link, hello, now)):
            return
        if not hello.reply:
            # Answered before it is judged: the other side finds the same mismatch by itself and can name it.
            self._hello(link, reply=True, to=rank)
        dialled = self.dialling.get(link)
        expected = dialled.rank if dialled is not None else None
        try:
            self._handshake.judge(hello, self._members.current_round, expected)
        except Refused as refusal:
            self._start.refuse(refusal, now)
            self._await_correction(rank if expected is None else expected, str(refusal))
            raise ProtocolError("mismatch", str(refusal)) from refusal
        neighbor = self._members[rank]
        self._take_link(neighbor, link)
        self._ledger_guard.note(hello.released)
        self._presence.note(link, neighbor, hello.next_round, hello, now)
        self._welcome(neighbor, link, hello.next_round, now)
        neighbor.enters = hello.enters

    def admits(self, rank: int) -> bool:
        """Whether messages of a rank are taken: it is a member by a list that is of use here."""
        return self._keeper.admitted is None or rank in self._keeper.admitted

    def _crosses(self, link: Link, other: Link) -> bool:
        """Whether of two links of a pair each end has dialled one."""
        return (self.dialling.get(link) is None) != (self.dialling.get(other) is None)

    def _is_second(self, link: Link, rank: int) -> bool:
        """Whether a link crosses the one that stays, which the lower rank has dialled (as in BGP), and which is heard.

        The higher rank gives it up as soon as it has a hello on the other one.
        """
        if rank not in self._members:
            return False
        neighbor = self._members[rank]
        if neighbor.link is None or neighbor.status is not Status.ALIVE or not self._crosses(link, neighbor.link):
            return False
        return (self.dialling.get(neighbor.link) is not None) == (self._config.rank < rank)

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
                    f"this goes on, two processes run as rank {rank} with its key: stop one",
                    neighbor=rank,
                )  # fmt: skip
            self.part(before)
        # A hello that is under way on this peer's own link may make that the one that stays.
        asks = any(one.rank == rank and one.unanswered not in (None, math.inf) for _, one in self.dialling.all())
        if self.dialling.get(link) is None and (self._config.rank > rank or not asks):
            self.give_up(rank)
        self._send_queues[link].known = True

    def _welcome(self, neighbor: Neighbor, link: Link, number: int, now: float) -> None:
        """Train with a neighbor, which works on round `number` and speaks on this link."""
        here = self._members.current_round
        if self._members.greet(neighbor.rank, link, number, now):
            self._log_back(neighbor)
        self._start.accepted = True
        self.dialling.welcome(neighbor.rank)
        self._refused.pop(neighbor.rank, None)
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

    # -- two that want the same rank ---------------------------------------------------------------------------

    def _contends(self, link: Link, hello: wire.Hello, now: float) -> bool:
        """Whether another process has the rank, as far as is known. A heartbeat shows if its link is broken."""
        if hello.rank not in self._members:
            return False
        neighbor = self._members[hello.rank]
        if neighbor.link in (None, link) or neighbor.status is not Status.ALIVE or self._crosses(link, neighbor.link):
            return False
        until = now + _PROBE
        earlier = self._contenders.get(hello.rank)
        if earlier is not None:
            # Counted, so that a sender of endless hellos is not read for a while.
            self._drops.drop(
                earlier[0], ProtocolError("rank-taken", f"another hello of rank {hello.rank} came after it")
            )
            until = earlier[2] if earlier[0] == link else until
        self._contenders[hello.rank] = link, hello, until
        self._exchange.send_heartbeat(neighbor.link)
        return True

    def refuse_contenders(self, now: float) -> None:
        """Refuse the processes whose rank another process still has."""
        late = [rank for rank, (_, _, until) in self._contenders.items() if now >= until]
        for rank in late:
            link, _, _ = self._contenders.pop(rank)
            reason = f"another process already takes part as rank {rank} (has it just crashed? try again in a while)"
            self._answer(link, wire.Refusal(rank=self._config.rank, reason=reason))
            self._drops.drop(link, ProtocolError("rank-taken", f"a second rank {rank} shook hands"))

    def on_refusal(self, link: Link, refusal: wire.Refusal, now: float) -> None:
        """End the wait for neighbors, because one that we dialled turns us away."""
        dialled = self.dialling.get(link)
        if dialled is None or dialled.rank != refusal.rank:
            raise ProtocolError("stranger", "a refusal from a peer that was not asked")
        dialled.unanswered = now  # later it may be another answer: ask with the next beat
        # A process that was restarted at once is taken for a second one until the end of the first has shown. A
        # neighbor that was silent in between, because it stood still itself, has not looked for that long.
        liveness = self._config.liveness
        since, last = self._refused.get(refusal.rank, (now, now))
        if now - last >= liveness.suspect_after + 2 * (liveness.heartbeat + _PROBE):
            since = now
        self._refused[refusal.rank] = since, now
        if self._members.missing() and now - since >= 2 * liveness.suspect_after:
            self._start.refuse(Refused(f"rank {refusal.rank} says: {refusal.reason}"), now)

    def contender(self, rank: int | None) -> tuple[Link, wire.Hello] | None:
        """The process that wants this rank, whose link has just broken; None without one."""
        if rank is None or rank not in self._contenders:
            return None
        link, hello, _ = self._contenders.pop(rank)
        return link, hello

    def next_refusal(self) -> float:
        """The clock time at which a contender is to be refused; infinity for never."""
        return min(until for _, _, until in self._contenders.values()) if self._contenders else math.inf

    # -- strangers ---------------------------------------------------------------------------------------------

    def stranger(self, link: Link, what: str, now: float) -> ProtocolError:
        """Ask a sender for a hello, now and then: a neighbor's link may have been taken over for a while."""
        self._ask(link, now)
        return ProtocolError("stranger", f"{what} before the handshake")

    def on_probe(self, link: Link, now: float) -> None:
        """Show a neighbor's `dpeer check` that a peer runs here, now and then."""
        if self._members.by_link(link) is None:
            self._ask(link, now)

    def _ask(self, link: Link, now: float) -> None:
        if now >= self._asked.get(link, now):
            self._note_asked(link, now)
            self._answer(link, wire.Unknown(rank=self._config.rank))

    def _answer(self, link: Link, message: wire.Refusal | wire.Unknown) -> None:
        self._send_queues[link].add(message.kind, wire.encode(message))

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

    def part(self, link: Link) -> int | None:
        """Forget the state of a link that is broken; returns the rank that has no other one now."""
        self._reassembly.forget(link)
        unfinished = self._send_queues.forget(link)
        self._keeper.forget(link)
        dialled = self.dialling.get(link)
        if dialled is not None:
            dialled.unanswered = float("inf")
        neighbor = self._members.parted(link)
        if neighbor is None:
            return None
        self._exchange.parted(neighbor.rank, unfinished)
        return None if neighbor.link is not None else neighbor.rank

    def give_up(self, rank: int) -> None:
        """Give up the links that this peer has dialled to a rank: the transport dials it no more."""
        for link, dialled in self.dialling.all():
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
        self.dialling.forget(link)
        self._state.effects.append(Close(link))

    def unanswered(self) -> list[Link]:
        """The links that are established, on which this peer's hello has no answer yet."""
        return [link for link, one in self.dialling.all() if one.unanswered is not None and one.unanswered < math.inf]

    def tend(self, now: float) -> None:
        """Repeat hellos that were not answered, and dial anew the neighbors that have been silent for long."""
        effects = self._state.effects
        for link, one in self.dialling.all():
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
                    if neighbor.status is Status.UNSEEN and one.rank not in self._refused:
                        neighbor.trouble_dialling = _UNANSWERED
                    self.introduce(link, now)
            elif neighbor.link != link:  # answered, but not by one that may train with us
                self._hello(link, reply=False)
        for neighbor in self._members.every():
            accepted = neighbor.link is not None and self.dialling.get(neighbor.link) is None
            if accepted and not neighbor.listed and self._may_go(neighbor):
                effects.append(Close(neighbor.link))
                self.part(neighbor.link)
        lost = self._lost()
        for rank in lost:
            silent = self._members[rank].link
            if silent is not None and self.dialling.get(silent) is None:
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
