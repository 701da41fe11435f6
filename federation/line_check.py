"""Line check: tests the port, each neighbor's connection and key, and hello-sized messages both ways.

A path that loses long packets passes short messages and no hello. So each end sends a long ping on a line that is
there, and who gets one, a check or a running peer, sends it back: a pong has passed both ways. No round is disturbed.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dpeer.exceptions import DpeerError, ProtocolError
from dpeer.federation.addresses import is_relay
from dpeer.federation.findings import Findings, Level, Verdict
from dpeer.federation.starting import Starting
from dpeer.peer.core import wire
from dpeer.peer.core.limits import Limits
from dpeer.peer.relay.messages import ABSENT, REFUSALS
from dpeer.peer.transport import Arrival, Broken, Event, Link, Opened, Relayed, Transport, TurnedAway, Unreachable
from dpeer.peer.transports.hosts import split
from dpeer.peer.transports.proxies import dial
from dpeer.peer.transports.zeromq import ZeroMQTransport
from dpeer.results.units import duration, size

LONG = 2**14
"""Bytes of a ping, as of a hello with some hundred parameter tensors: more than any packet has."""

SILENT = 14.0
"""Seconds after which what has not come is lost."""

_LINGER = 1.0
"""Seconds for which the last word on a line may be under way."""

_LOOK = 0.1
"""Seconds between two looks at which ranks have dialled in."""

_BOTH = (
    "Does the peer there run, or dpeer check --connect at the same time, and do both firewalls let the port through?"
)
_STRANGE = {
    "unlisted-key": "showed a key that is not listed here: is it a neighbor's, which this federation file lacks?",
    "no-key": "proved no key: another program, or a peer that lists another key for this rank",
}
"""What connections may be that were turned away, by the transport's reason; only the first that happened is noted."""

_COMES_LATER = REFUSALS[ABSENT]
"""What a relay answers while the called rank is not there yet."""


@dataclass
class Line:
    """How far the connection with a neighbor came; `address` is None for one that dials this peer."""

    address: str | None
    link: Link | None = None
    since: float | None = None
    """Clock time at which the newest connection was there, keys proved; None without one."""
    reason: str | None = None
    """Why it cannot be reached at present, as the transport states it."""
    unproved: bool = False
    """Whether a listener is at its address, and a key is not proved: waiting does not help."""
    passed: bool = False
    """Whether a pong has come."""
    broken: bool = False
    """Whether the connection broke while it was awaited."""

    @property
    def settled(self) -> bool:
        """Whether no more is to come: a pong is here, or it is too late for one."""
        if self.since is None:
            return self.unproved
        return self.passed or time.monotonic() - self.since > SILENT

    def verdict(self, words: str) -> Verdict:
        """Whether long messages pass, behind what else is known of the line."""
        if self.passed:
            return Level.PASS, f"{words}, and long messages pass in both directions"
        if self.broken:
            return Level.WARN, f"{words}; the connection broke meanwhile: check again"
        return Level.FAIL, (
            f"{words}; short messages pass, and those of {size(LONG)} do not pass both ways: its path loses long "
            "packets: look at the MTU of the VPN, or of a tunnel"
        )


class Lines:
    """The lines to all neighbors, as the events of a transport change them.

    Args:
        transport: What carries the messages.
        rank: This peer.
        to_dial: The neighbors that it dials, and their addresses.
        inward: The neighbors that dial it.

    Attributes:
        of: The lines by rank.
        strangers: How many connections were turned away, by reason and host.
        relay: Why this peer's relay cannot be used at present; None if it can, or it has none.
    """

    def __init__(self, transport: Transport, rank: int, to_dial: Mapping[int, str], inward: Iterable[int]) -> None:
        self._transport = transport
        self.of = {one: Line(address) for one, address in to_dial.items()} | {one: Line(None) for one in sorted(inward)}
        self.strangers: Counter[tuple[str, str]] = Counter()
        self.relay: str | None = None
        self._ranks: dict[Link, int] = {}
        self._ping = wire.ping(rank, os.urandom(LONG))  # which no line compresses

    def dial(self) -> None:
        """Dial the neighbors that have an address."""
        for rank, line in self.of.items():
            if line.address is not None:
                try:
                    self._ranks[self._transport.dial(line.address, rank)] = rank
                except DpeerError as error:
                    line.reason = str(error)

    def proves(self, rank: int) -> None:
        """A rank has proved its key."""
        if (line := self.of.get(rank)) is not None and line.address is None and line.since is None:
            line.since = time.monotonic()

    def take(self, event: Event) -> None:
        """Take an event of the transport."""
        match event:
            case Opened(link) if link in self._ranks:
                self._open(link)
            case Unreachable(link, reason, unproved) if link in self._ranks:
                line = self.of[self._ranks[link]]
                line.reason, line.unproved = reason, line.unproved or unproved
            case Arrival():
                if event.identity is not None:
                    self.proves(event.identity)
                self._came(event)
            case Broken(link) if link in self._ranks:
                # What was on its way is lost. Late, the neighbor has given up what did not come, too.
                line = self.of[self._ranks[link]]
                if line.link == link and line.since is not None:
                    line.broken = time.monotonic() - line.since < SILENT / 2
            case TurnedAway(place, reason, times):
                self.strangers[reason, place] += times
            case Relayed(trouble):
                self.relay = trouble

    def _open(self, link: Link) -> None:
        """A connection with a neighbor is there, perhaps once more."""
        line = self.of[self._ranks[link]]
        if not line.passed:
            line.link, line.since, line.broken = link, time.monotonic(), False
            self._transport.send(link, self._ping)  # of a link that is full or gone no pong comes, either

    def _came(self, arrival: Arrival) -> None:
        """Take a message of the rank that the link or a key shows; where neither does, the sender's word counts."""
        link, frames = arrival.link, arrival.frames
        shown, says = self._ranks.get(link, arrival.identity), _rank(frames)
        if shown in self.of and wire.is_pong_of(frames, self._ping):
            self.of[shown].passed = True
        if says not in self.of or shown not in (None, says):
            return
        if link not in self._ranks:
            self._ranks[link] = says
            self._open(link)
        if (pong := wire.pong(frames)) is not None:
            self._transport.send(link, pong)


async def check_lines(findings: Findings, starting: Starting, within: float | None) -> None:
    """Whether the peer can listen where its neighbors are to reach it, and whether a line to each is there.

    A run's own rounds are not begun: no hello is sent, so no peer that waits is disturbed. Neighbors that check at the
    same time, or run, send back a message as long as a hello.

    Args:
        findings: Where to note it.
        starting: The peer.
        within: Seconds to wait for neighbors that are not there; None to dial none.
    """
    listen = starting.listen
    if listen is None or (within is None and is_relay(listen)):
        through = "dials out" if listen is None else f"is reached through {listen}"
        findings.add("port", (Level.PASS, f"{through}: no port of this host is opened"))
        if within is None:
            return
    transport = ZeroMQTransport(Limits(), starting.own.dead_after, starting.keyring, starting.through)
    try:
        if listen is not None:
            with findings.of("port"):
                findings.add("port", (Level.PASS, f"{await transport.listen(listen)} is free to listen at"))
        if within is not None and findings.fine("port"):
            lines = await _watched(transport, starting, within)
            for rank, line in lines.of.items():
                findings.add(f"rank {rank}", await _judged(starting, line, lines.relay, within))
            _judge_strangers(findings, lines.strangers)
    finally:
        await transport.close(_LINGER)


async def _watched(transport: Transport, starting: Starting, within: float) -> Lines:
    """Dial, and wait until every neighbor was met and heard, or the time is up."""
    lines = Lines(transport, starting.rank, starting.to_dial, {*starting.neighbors} - {*starting.to_dial})
    lines.dial()
    until = time.monotonic() + within
    receiving = asyncio.create_task(transport.receive())
    try:
        while True:
            done, _ = await asyncio.wait({receiving}, timeout=_LOOK)
            if done:
                lines.take(receiving.result())
                receiving = asyncio.create_task(transport.receive())
            if starting.keyring is not None and isinstance(transport, ZeroMQTransport):
                for one in transport.proved:
                    if isinstance(one, int):
                        lines.proves(one)
            # A neighbor that connects anew and anew is still heard for some time.
            late = time.monotonic() - until
            waits = [line for line in lines.of.values() if not line.settled and (late < 0 or line.since is not None)]
            if not waits or late >= 2 * SILENT:
                return lines
    finally:
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)


async def _judged(starting: Starting, line: Line, relay: str | None, within: float) -> Verdict:
    """How far a line came: name, TCP, key, messages."""
    keyed, listen = starting.keyring is not None, starting.listen
    if line.address is None:
        if keyed and line.since is not None:
            return line.verdict(f"it reached this peer at {listen}: it has proved its key")
        if relay is not None and listen is not None and is_relay(listen):
            return Level.FAIL, f"it would call through the relay, which this peer cannot use: {relay}"
        if keyed:
            return Level.WARN, f"it dials this peer at {listen}, and has not within {duration(within)}. {_BOTH}"
        words = f"it dials this peer at {listen}; without keys, a connection does not show whose it is"
        return Level.WARN, f"{words}; {_BOTH}" if line.since is None else line.verdict(words)[1]
    if line.since is not None:
        proof = "both keys are accepted" if keyed else "it answers, without keys"
        return line.verdict(f"reached at {line.address}: {proof}")
    if (place := split(line.address)) is None:  # a path, or a transport of other code
        return Level.WARN, f"{line.address}: nothing answers within {duration(within)}: start it, or its dpeer check"
    if not line.unproved:
        try:
            (await dial(*place, starting.through, starting.own.dead_after)).close()
        except OSError as error:
            return Level.WARN, f"{line.address}: no TCP connection: {error}. {_BOTH}"
    if line.reason is not None and line.reason.endswith(_COMES_LATER):
        return Level.WARN, f"{line.address}: TCP is there, and then: {line.reason}"
    what = line.reason or f"what listens there has not shown to be dpeer within {duration(within)}"
    return Level.FAIL, (f"{line.address}: TCP is there, and {'no key is accepted' if keyed else 'no dpeer'}: {what}")


def _judge_strangers(findings: Findings, strangers: Counter[tuple[str, str]]) -> None:
    """Note connections that were turned away; those without a key only where no key was shown at all."""
    for reason, words in _STRANGE.items():
        if places := {place for (why, place) in strangers if why == reason}:
            times = sum(count for (why, _), count in strangers.items() if why == reason)
            where = f" from {', '.join(sorted(places))}" if any(places) else ""
            count = "a connection" if times == 1 else f"{times} connections"
            findings.add("strangers", (Level.WARN, f"{count}{where} {words}"))
            return


def _rank(frames: wire.Frames) -> int | None:
    """The rank that a ping or a hello states; None for any other message."""
    if (stated := wire.pinged_by(frames)) is not None:
        return stated
    try:
        message = wire.decode(frames, Limits())
    except ProtocolError:
        return None
    return message.rank if isinstance(message, wire.Hello) else None
