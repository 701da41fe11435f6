"""Connection setup: which rank speaks on which link; hellos, refusals, impostors, and links to dial anew; no I/O."""

from __future__ import annotations

import math
from collections.abc import Callable

from dpeer.exceptions import ProtocolError, Refused
from dpeer.peer.config import PeerConfig
from dpeer.peer.core import wire
from dpeer.peer.core.chunking import Reassembly
from dpeer.peer.core.dialling import Dialling
from dpeer.peer.core.effects import Close, Effect
from dpeer.peer.core.exchange import Exchange
from dpeer.peer.core.handshake import Handshake
from dpeer.peer.core.limits import ASK_AGAIN, ASKED
from dpeer.peer.core.membership import NOT_APPEARED, Membership, Neighbor, Status
from dpeer.peer.core.round_clock import RoundClock
from dpeer.peer.core.schedule import Schedule
from dpeer.peer.core.send_queue import SendQueues
from dpeer.peer.core.start_wait import StartWait
from dpeer.peer.transport import Link

_PROBE = 0.5
"""Seconds in which it shows whether the connection of a process, whose rank another one wants, is broken."""


class ConnectionSetup:
    """Sends and answers hellos: which rank speaks on which link.

    Args:
        round_clock: Its table travels in hellos.
        note: Takes in a neighbor's round and table, at a clock time.
        renewed: Takes in the incarnation that a neighbor names.
        log: Logs an event; arguments as those of `LogEvent`, fields as keywords.
        drop: Counts a message that came on a link and could not be used.

    Attributes:
        dialling: The links that this peer has dialled.
        to_dial: The ranks that it dials.
        goodbye: That of this peer once it leaves: a neighbor that it meets on its way out hears it, too.
        effects: What is to be done; to be emptied by its reader.
    """

    def __init__(
        self,
        config: PeerConfig,
        members: Membership,
        schedule: Schedule,
        send_queues: SendQueues,
        exchange: Exchange,
        reassembly: Reassembly,
        start: StartWait,
        handshake: Handshake,
        round_clock: RoundClock,
        note: Callable[[Neighbor, int, bytes, float], None],
        renewed: Callable[[Neighbor, int], None],
        log: Callable[..., None],
        drop: Callable[[Link, ProtocolError], None],
    ) -> None:
        self.dialling = Dialling(max(config.liveness.dead_after, 1.0))
        self.to_dial: frozenset[int] = frozenset()
        self.goodbye: wire.Goodbye | None = None
        self.effects: list[Effect] = []
        self._config = config
        self._members = members
        self._schedule = schedule
        self._send_queues = send_queues
        self._exchange, self._inbox = exchange, exchange.inbox
        self._reassembly = reassembly
        self._start = start
        self._handshake = handshake
        self._round_clock = round_clock
        self._note = note
        self._renewed = renewed
        self._log = log
        self._drop = drop
        self._hellos = 0
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
        serial, self._hellos = self._hellos, self._hellos + 1
        holds = {} if to is None else {**self._reassembly.holds(to, self._going_on(link, to)), **self._inbox.holds(to)}
        hello = self._handshake.hello(
            self._members.current_round, reply=reply, presence=clock.table, there=len(clock.there),
            enters=entry.enters, incarnation=entry.incarnation, to=to, serial=serial, alone=self._alone(link, to),
            holds=wire.holding(holds),
        )  # fmt: skip
        self._send_queues[link].add("answer" if reply else "hello", wire.encode(hello))
        if self.goodbye is not None:
            self._send_queues[link].goodbye = wire.encode(self.goodbye)

    def _going_on(self, link: Link, rank: int) -> list[Link]:
        """The links of which a body goes on on this one: itself, and an earlier one that has the same dialler."""
        if rank not in self._members:
            return [link]
        links = self._members[rank].links
        return [link, links.accepted if self.dialling.get(link) is None else links.dialled]

    def _alone(self, link: Link, rank: int | None) -> bool:
        """Whether this peer has no other link to a rank: one that has shaken hands, or that it has dialled."""
        dialled = [one for one, of in self.dialling.all() if of.rank == rank and of.unanswered != math.inf]
        here = self._members[rank].links.all if rank is not None and rank in self._members else []
        return not {*dialled, *here} - {link}

    def take(self, link: Link, hello: wire.Hello, now: float, identity: int | None = None) -> None:
        """Take a hello.

        Without keys, if another process speaks for the rank, it has to be asked first whether it is there. With keys
        the sender has proved to be `identity`, and its new connection takes the place of the old one at once.
        """
        rank = hello.rank
        if identity is not None and rank != identity:
            raise ProtocolError("wrong-rank", f"rank {identity}, by its key, speaks for rank {rank}")
        self.dialling.answered(link)
        if identity is None and self._contends(link, hello, now):
            return
        if rank in self._members:
            self._start.met.add(rank)
        if not hello.reply:
            # Answered before it is judged: the other side finds the same mismatch by itself and can name it.
            self._hello(link, reply=True, to=rank)
        dialled = self.dialling.get(link)
        expected = dialled.rank if dialled is not None else None
        try:
            self._handshake.judge(hello, self._members.current_round, expected)
        except Refused as refusal:
            if self._start.outlasts(hello, expected):
                self._await_correction(rank if expected is None else expected, str(refusal))
                raise ProtocolError("mismatch", str(refusal)) from refusal
            if not self._start.refuse(refusal, now):
                raise ProtocolError("mismatch", str(refusal)) from refusal
            self._handshake.part(hello, self._members.current_round, expected)
            self._send_parting()
            return
        neighbor = self._members[rank]
        if neighbor.status is Status.GONE and neighbor.links.is_of(hello.process):
            return  # sent before its goodbye, and late on another link
        if hello.apart_from is not None:
            self._on_trouble(neighbor, f"it cannot train with rank {hello.apart_from}: {hello.apart_because}")
            return
        self._exchange.outbox.held[rank] = wire.held(hello.holds)
        if not self._take_link(neighbor, link, hello):
            return
        lost = hello.recalls - self._round_clock[self._config.rank]
        unmet = neighbor.status is Status.UNSEEN or (neighbor.away and neighbor.why_away == NOT_APPEARED)
        if unmet and lost >= (self._config.checkpoint_every if self._config.resume else 1):
            self._exchange.entry.lost_with(hello.remembers)  # what it remembers at later hellos may be of this disk
        self._round_clock.remind(hello.recalls)
        self._note(neighbor, hello.next_round, hello.presence, now)
        if hello.running:
            self._start.shorten(now)
        self._welcome(neighbor, hello.next_round, now)
        neighbor.enters, neighbor.remembers = hello.enters, hello.remembers
        self._renewed(neighbor, hello.incarnation)
        if self._handshake.apart and hello.reply:
            # It took part before this peer met one that it cannot train with: it is informed, and hears the goodbye.
            self._hello(link, reply=True)

    def ask(self, rank: int, number: int) -> None:
        """Ask a neighbor by a hello for round `number`'s body, which it has and does not know to be of use."""
        neighbor = self._members[rank]
        neighbor.asked = number
        self._hello(neighbor.link, reply=False)

    def _take_link(self, neighbor: Neighbor, link: Link, hello: wire.Hello) -> bool:
        """Read a neighbor on the link of its hello, and write where both do; whether the hello is its latest one."""
        links, before, known = neighbor.links, neighbor.link, neighbor.links.is_of(hello.process)
        if before not in (None, link) and not known and neighbor.status is Status.ALIVE:
            self._replaced(neighbor)
        late, ended = links.take(
            link, dialled=self.dialling.get(link) is not None, process=hello.process, serial=hello.serial,
            alone=hello.alone,
        )  # fmt: skip
        if link in links.all:
            self._members.reads(neighbor.rank, link)
        chosen = links.chosen(lower=self._config.rank < neighbor.rank)
        if chosen != before and chosen is not None:
            if before is not None:
                self._exchange.parted(neighbor.rank, self._send_queues[before].silence())
            neighbor.link = chosen
            self._send_queues[chosen].known = True
        for one in ended:
            self.part(one)
            if known and self.dialling.get(one) is not None:  # the neighbor has lost it, and uses another one
                self.effects += self._give_up(one)
        if late and link == neighbor.link != before:  # what the neighbor lacks goes there
            self._exchange.outbox.ask(neighbor.rank, hello.next_round)
            self._exchange.deliver()
        return not late

    def _welcome(self, neighbor: Neighbor, number: int, now: float) -> None:
        """Train with a neighbor, which works on round `number`."""
        link, here = neighbor.link, self._members.current_round
        if self._members.greet(neighbor.rank, link, number, now):
            self._log_back(neighbor)
        self.dialling.welcome(neighbor.rank)
        self._refused.pop(neighbor.rank, None)
        neighbor.trouble_dialling = ""
        if number < here and not self._schedule.fits(here, neighbor.rank, number):
            neighbor.left_behind = True  # and is not waited for until it has caught up
        self._exchange.outbox.ask(neighbor.rank, number)
        self._exchange.deliver()
        self._exchange.send_heartbeat(link)

    def _replaced(self, neighbor: Neighbor) -> None:
        """Say that a neighbor has connected anew, at its 1st, 10th, 100th ... time."""
        neighbor.replaced += 1
        if math.log10(neighbor.replaced) % 1 == 0:
            times = "" if neighbor.replaced == 1 else f" for the {neighbor.replaced}th time"
            self._log(
                "info" if neighbor.replaced == 1 else "warning", "neighbor-reconnected",
                f"rank {neighbor.rank} has connected anew{times} while its earlier connection was there, and uses the "
                f"new one; if this goes on, two processes run as rank {neighbor.rank} with its key: stop one",
                neighbor=neighbor.rank,
            )  # fmt: skip

    def _on_trouble(self, neighbor: Neighbor, trouble: str) -> None:
        if neighbor.trouble != trouble:
            self._log(
                "warning", "neighbor-trouble",
                f"rank {neighbor.rank} says that {trouble}; start these two again with settings that agree",
                neighbor=neighbor.rank, reason=trouble,
            )  # fmt: skip
        neighbor.trouble = trouble

    def _await_correction(self, rank: int, problem: str) -> None:
        """Wait on for a rank that cannot take part as it is: it ends by itself, and may come back corrected."""
        if rank not in self._members or self._members[rank].trouble == problem:
            return
        self._members[rank].trouble = problem
        self._log(
            "warning", "other-settings",
            f"rank {rank} cannot take part: {problem}; the start waits for it to come back corrected",
            neighbor=rank, reason=problem,
        )  # fmt: skip

    def _send_parting(self) -> None:
        """Tell the neighbors that are there that this peer is about to leave."""
        for neighbor in self._members.all():
            if neighbor.link is not None and neighbor.status is not Status.GONE:
                self._hello(neighbor.link, reply=True)

    def heard(self, neighbor: Neighbor, number: int, now: float) -> None:
        """Note that the neighbor lives, and mentioned this round."""
        if self._members.heard(neighbor, number, now):
            self._log_back(neighbor)
            # While it was dead nothing was sent to it, and it may have taken us for dead, too: new hellos make both
            # sides send again the bodies that the other lacks.
            for link in [neighbor.link] if neighbor.link is not None else neighbor.links.all:
                self._hello(link, reply=False)

    def _log_back(self, neighbor: Neighbor) -> None:
        rank, number = neighbor.rank, self._members.current_round
        if neighbor.why_away == NOT_APPEARED:
            text = f"rank {rank} has come: it is used once it has caught up"
            self._log("info", "neighbor-came", text, neighbor=rank, round=number)
        else:
            text = f"rank {rank} is back: it is used again once it has caught up; nothing has to be done"
            self._log("info", "neighbor-back", text, neighbor=rank, round=number)

    # -- two that want the same rank ---------------------------------------------------------------------------

    def _contends(self, link: Link, hello: wire.Hello, now: float) -> bool:
        """Whether another process has the rank, as far as is known. A heartbeat shows if its link is broken."""
        if hello.rank not in self._members:
            return False
        neighbor = self._members[hello.rank]
        if neighbor.link in (None, link) or neighbor.status is not Status.ALIVE:
            return False
        if neighbor.links.is_of(hello.process):
            return False  # both ends have dialled
        until = now + _PROBE
        earlier = self._contenders.get(hello.rank)
        if earlier is not None:
            # Counted, so that a sender of endless hellos is not read for a while.
            self._drop(earlier[0], ProtocolError("rank-taken", f"another hello of rank {hello.rank} came after it"))
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
            self._drop(link, ProtocolError("rank-taken", f"a second rank {rank} shook hands"))

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
        """Forget the state of a link that is broken; returns the rank that spoke on it and on no other."""
        self._reassembly.keep(link)
        unfinished = self._send_queues.forget(link)
        dialled = self.dialling.get(link)
        if dialled is not None:
            dialled.unanswered = float("inf")
        neighbor = self._members.parted(link)
        if neighbor is None:
            return None
        self._exchange.parted(neighbor.rank, unfinished)
        if neighbor.link is None:
            self._go_over(neighbor)
        return None if neighbor.links.all else neighbor.rank

    def _go_over(self, neighbor: Neighbor) -> None:
        """Say hello on the link that is left: what was lost on the other one is sent again before anything else."""
        for link in neighbor.links.all:
            self._hello(link, reply=False)

    def give_up(self, rank: int) -> list[Effect]:
        """Give up the links that this peer has dialled to a rank: the transport dials it no more."""
        return [one for link, dialled in self.dialling.all() if dialled.rank == rank for one in self._give_up(link)]

    def _give_up(self, link: Link) -> list[Effect]:
        """Give up a link that this peer has dialled."""
        self.part(link)
        self.dialling.forget(link)
        return [Close(link)]

    def unanswered(self) -> list[Link]:
        """The links that are established, on which this peer's hello has no answer yet."""
        return [link for link, one in self.dialling.all() if one.unanswered is not None and one.unanswered < math.inf]

    def tend(self, now: float) -> list[Effect]:
        """Repeat hellos that were not answered, and dial anew the neighbors that have been silent for long."""
        effects: list[Effect] = []
        for link, one in self.dialling.all():
            neighbor = self._members[one.rank]
            if link in neighbor.links.all and neighbor.link not in (None, link):
                if neighbor.links.heard == neighbor.link:  # both write on the other one
                    effects += self._give_up(link)
            elif not self._members.is_done(one.rank) and self.dialling.overdue(link, neighbor.heard_at, now):
                self.part(link)
                effects += [Close(link), *self.dialling.begin([one.rank])]
            elif one.unanswered is not None:
                if now >= one.unanswered:
                    self.introduce(link, now)
            elif neighbor.link != link:  # answered, but not by one that may train with us
                self._hello(link, reply=False)
        for neighbor in self._members.all():
            if neighbor.link is None:
                self._go_over(neighbor)
        lost = self._lost()
        for rank in lost:  # the hello says that this peer has no other link, so the rank gives those up, too
            for link in self._members[rank].links.all:
                if self.dialling.get(link) is None:
                    self.part(link)
        return effects + self.dialling.begin(lost)

    def _lost(self) -> list[int]:
        """The neighbors that are away and that this peer has to dial."""
        away = [one for one in self._members.all() if not one.links.all or one.status is Status.DEAD]
        return [one.rank for one in away if one.rank in self.to_dial and not self._members.is_done(one.rank)]
