"""A peer's side of all its connections: handshakes, liveness, bodies in and out.

A session lies between a `Transport`, which knows links and frames, and the round loop, which knows ranks and rounds.
Messages that do not belong here are dropped, counted by reason, and logged once per link and reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Mapping
from typing import Literal

from dpeer.exceptions import PeersMissing, ProtocolError, Refused
from dpeer.peer import wire
from dpeer.peer.admission import Admission
from dpeer.peer.assembly import Assembly
from dpeer.peer.config import PeerConfig
from dpeer.peer.gossip import Gossip
from dpeer.peer.inbox import Received
from dpeer.peer.learner import Learner
from dpeer.peer.membership import Membership, Neighbor, Status
from dpeer.peer.rejections import Rejections
from dpeer.peer.schedule import Schedule
from dpeer.peer.speaker import Speaker
from dpeer.peer.transports import Arrival, Link, Transport
from dpeer.topology import Graphs

_PAST: Mapping[str, str] = {"stopped": "was stopped", "failed": "failed"}


class Session:
    """Everything between the sockets and the round loop.

    Args:
        config: This peer's place in the federation.
        learner: Asked for manifest, digest, payload size and room for payloads only.
        transport: What carries the frames.
        topology: The graph of each round.
        log: Where lines go.

    Attributes:
        members: The neighbors: which are there, and in which round.
        gossip: The exchange of bodies.
        rejections: Counts the messages that were dropped.
    """

    def __init__(
        self, config: PeerConfig, learner: Learner, transport: Transport, topology: Graphs, log: logging.Logger
    ) -> None:
        self.members = Membership(topology.connections(config.rank, config.rounds), config.liveness)
        self.rejections = Rejections(log)
        self._config = config
        schedule = Schedule(topology, config.rank, config.rounds)
        self._admission = Admission(config, learner, self.members, schedule, topology.size)
        self._transport = transport
        self._log = log
        self._federation = wire.federation_id(config.fingerprint)
        self._speaker = Speaker(config.rank, self._federation, transport, self.members, self._admission)
        self.gossip = Gossip(config.rank, self._federation, schedule, self.members, self._speaker, transport, log)
        self._limits = wire.Limits(payload_bytes=learner.payload_bytes)
        self._assembly = Assembly(learner.room)
        self._dialled: dict[Link, int] = {}
        self._met: set[int] = set()
        self._refusal: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks: list[asyncio.Task[None]] = []

    # -- opening and closing -------------------------------------------------------------------------------

    def open(self, addresses: Mapping[int, str], number: int) -> None:
        """Dial the neighbors at these addresses and start answering; `number` is the first round that will be run."""
        self.members.current_round = number
        self.gossip.inbox.open(number)
        for rank, address in addresses.items():
            link = self._transport.dial(address)
            self._dialled[link], self._speaker.unanswered[link] = rank, math.inf
        self._tasks.append(asyncio.create_task(self._receive()))
        if self._config.liveness.heartbeat > 0:
            self._tasks.append(asyncio.create_task(self._beat()))

    async def gather(self) -> None:
        """Wait until every neighbor has shaken hands.

        Raises:
            PeersMissing: a neighbor has not shaken hands in time, or said goodbye again.
            Refused: a neighbor has other settings.
        """
        reminder = asyncio.create_task(self._remind())
        try:
            await asyncio.wait_for(self._everybody_or_refusal(), self._config.wait)
        except TimeoutError:
            raise PeersMissing(
                f"{self._missing()} did not appear within {self._config.wait:g} s (--wait): "
                "start them, and check the addresses and that all use the same settings"
            ) from None
        except Refused:
            if self._admission.apart:
                await self._let_others_know()
            raise
        finally:
            reminder.cancel()

    async def _let_others_know(self) -> None:
        """Stay until every neighbor has said hello, and so has this peer's, but not long."""
        with contextlib.suppress(TimeoutError):
            everybody = {neighbor.rank for neighbor in self.members.all()}
            await asyncio.wait_for(self.gossip.until(lambda: self._met >= everybody), self._config.farewell)

    async def close(self, reason: Literal["done", "stopped", "failed"]) -> None:
        """Say goodbye and close every connection."""
        self._speaker.goodbye(reason)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._refusal.done():
            self._refusal.exception()  # nobody may be left to fetch it
        await self._transport.close(self._config.linger)

    def left_out(self, rank: int, reason: str) -> None:
        """Count a body that arrived whole but must not be mixed, and log it once."""
        self._drop(self.members[rank].link, ProtocolError(reason, "its weight goes to the diagonal this round"))

    # -- what arrives ------------------------------------------------------------------------------------------

    async def _receive(self) -> None:
        while True:
            arrival = await self._transport.receive()
            try:
                self._handle(arrival)
            except ProtocolError as error:
                self._drop(arrival.link, error)
            except Exception as error:  # one bad message must never end the receive loop
                self._log.debug("a message could not be handled", exc_info=True)
                self._drop(arrival.link, ProtocolError("unhandled", type(error).__name__))

    def _handle(self, arrival: Arrival) -> None:
        link, frames = arrival
        if frames is None:
            self._assembly.forget(link)
            self._introduce(link)
            return
        message = wire.decode(frames, self._limits)
        if isinstance(message, wire.Piece):
            self._on_piece(link, message)
            return
        if isinstance(message, wire.Hello):
            self._on_hello(link, message)
            return
        if isinstance(message, wire.Refusal):
            self._on_refusal(link, message)
            return
        neighbor = self.members.by_link(link)
        if neighbor is None:
            raise ProtocolError("stranger", f"a {message.kind} before the handshake")
        if message.rank != neighbor.rank:
            raise ProtocolError("wrong-rank", f"rank {neighbor.rank} speaks for rank {message.rank}")
        if message.federation != self._federation:
            raise ProtocolError("other-federation")
        try:
            self._on_message(link, neighbor, message, frames)
        finally:
            self.gossip.wake()  # even a message that cannot be used tells the neighbor's current round

    def _on_message(self, link: Link, neighbor: Neighbor, message: wire.Message, frames: wire.Frames) -> None:
        match message:
            case wire.Body(buffers=None):
                self._heard(neighbor, message.round)
                wanted = self.gossip.inbox.wants(neighbor.rank, message.round)
                self._assembly.begin(link, message, wire.size(frames) + message.payload_bytes, wanted=wanted)
            case wire.Body():
                self._heard(neighbor, message.round)
                self.gossip.inbox.put(neighbor.rank, message.round, Received(frames[1:], wire.size(frames)))
            case wire.Heartbeat():
                self._heard(neighbor, message.round)
            case wire.Goodbye():
                self._on_goodbye(neighbor, message.reason)

    def _on_piece(self, link: Link, piece: wire.Piece) -> None:
        if neighbor := self.members.by_link(link):
            self._heard(neighbor, neighbor.mentioned)  # a slow line is not a dead neighbor
        arriving = self._assembly.add(link, piece)
        if not arriving.complete:
            return
        body, inbox = arriving.body, self.gossip.inbox
        if arriving.imprint is not None:
            inbox.compare(body.rank, body.round, arriving.imprint.digest())
        else:
            inbox.put(body.rank, body.round, Received(arriving.payload, arriving.wire_bytes))
            self.gossip.wake()

    def _introduce(self, link: Link) -> None:
        """Say hello on a link that we have dialled, and again if no answer comes.

        Links keep order and lose nothing while they last, so an answer that is late comes. A second hello would have
        both sides send again the bodies that the first one has asked for; it is for a peer that lost the first.
        """
        self._speaker.unanswered[link] = time.monotonic() + self._config.liveness.suspect_after
        self._speaker.hello(link, reply=False)

    def _on_hello(self, link: Link, hello: wire.Hello) -> None:
        self._speaker.unanswered.pop(link, None)
        self._turn_away_a_second(link, hello.rank)
        if hello.rank in self.members:
            self._met.add(hello.rank)
        if not hello.reply:
            # Answered before it is judged: the other side finds the same mismatch by itself and can name it.
            self._speaker.hello(link, reply=True)
        try:
            self._admission.judge(hello, self.members.current_round, self._dialled.get(link))
        except Refused as refusal:
            if not self._refusal.done():
                self._refusal.set_exception(refusal)
                self._admission.part(hello, self.members.current_round, self._dialled.get(link))
                self._speaker.hello_to_all()
            self.gossip.wake()
            return
        neighbor = self.members[hello.rank]
        if hello.apart_from is not None:
            self._on_trouble(neighbor, f"it cannot train with rank {hello.apart_from}: {hello.apart_because}")
        if hello.apart_from is not None or self._admission.apart:  # one of the two is about to leave
            self.gossip.wake()
            return
        if neighbor.link != link:
            self._assembly.forget(neighbor.link)
        if self.members.greet(hello.rank, link, hello.next_round, time.monotonic()):
            self._log.warning("rank %d is back", hello.rank)
        self.gossip.outbox.ask(hello.rank, hello.next_round)
        self.gossip.deliver()  # before we mention our round: after that the neighbor expects no earlier body
        self._speaker.round([neighbor])
        self.gossip.wake()

    def _turn_away_a_second(self, link: Link, rank: int) -> None:
        """Refuse a process whose rank another process has already."""
        if rank not in self.members or self.members[rank].link in (None, link):
            return
        if self._speaker.still_there(self.members[rank]):
            reason = f"another process already takes part as rank {rank} (has it just crashed? try again in a while)"
            self._speaker.refuse(link, reason)
            raise ProtocolError("rank-taken", f"a second rank {rank} shook hands")

    def _on_refusal(self, link: Link, refusal: wire.Refusal) -> None:
        """End the wait for neighbors, because one that we dialled turns us away."""
        if self._dialled.get(link) != refusal.rank:
            raise ProtocolError("stranger", "a refusal from somebody who was not asked")
        if link in self._speaker.unanswered:
            self._speaker.unanswered[link] = time.monotonic()  # later it may be another answer: ask with the next beat
        if self.members.missing() and not self._refusal.done():
            self._refusal.set_exception(Refused(f"rank {refusal.rank} says: {refusal.reason}"))

    def _on_trouble(self, neighbor: Neighbor, trouble: str) -> None:
        if neighbor.trouble != trouble:
            self._log.warning("rank %d says that %s", neighbor.rank, trouble)
        neighbor.trouble = trouble

    def _on_goodbye(self, neighbor: Neighbor, reason: str) -> None:
        if neighbor.status is Status.GONE:
            return
        self.members.goodbye(neighbor, reason, time.monotonic())
        self._assembly.forget(neighbor.link)
        if reason == "done":
            neighbor.current_round = max(neighbor.current_round, self._config.rounds)
        else:
            self._log.warning("rank %d %s", neighbor.rank, _PAST[reason])
        # What waits for the neighbor looks again when the grace is over.
        asyncio.get_running_loop().call_later(self._config.liveness.stop_grace + 0.01, self.gossip.wake)

    def _heard(self, neighbor: Neighbor, number: int) -> None:
        if self.members.heard(neighbor, number, time.monotonic()):
            self._log.warning("rank %d is back", neighbor.rank)
            # While it was dead nothing was sent to it, and it may have taken us for dead, too: new hellos make both
            # sides send again what the other lacks.
            self._speaker.hello(neighbor.link, reply=False)

    def _drop(self, link: Link, error: ProtocolError) -> None:
        neighbor = self.members.by_link(link)
        self.rejections.count(link, f"rank {neighbor.rank}" if neighbor else "a stranger", error)

    # -- time passes ------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        while True:
            for dead in self.members.tick(time.monotonic()):
                self._log.warning("rank %d is %s: rounds go on without it", dead.rank, dead.why_away)
            for link, rank in self._dialled.items():
                if link in self._speaker.unanswered:
                    if time.monotonic() >= self._speaker.unanswered[link]:
                        self._introduce(link)
                elif self.members[rank].link != link:  # answered, but not by one that may train with us
                    self._speaker.hello(link, reply=False)
            self._speaker.round(self.members.all())
            self.gossip.wake()
            await asyncio.sleep(self._config.liveness.heartbeat)

    # -- waiting -------------------------------------------------------------------------------------------------

    async def _everybody_or_refusal(self) -> None:
        everybody = asyncio.create_task(self.gossip.until(lambda: not self.members.missing()))
        try:
            await asyncio.wait({everybody, self._refusal}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            everybody.cancel()
        if self._refusal.done():
            self._refusal.result()

    async def _remind(self) -> None:
        while True:
            await asyncio.sleep(self._config.remind_every)
            self._log.info("waiting for %s", self._missing())

    def _missing(self) -> str:
        missing = [self.members[rank] for rank in self.members.missing()]
        listed = [f"{one.rank} ({one.trouble})" if one.trouble else f"{one.rank}" for one in missing]
        return f"rank{'s' if len(listed) != 1 else ''} {', '.join(listed)}"
