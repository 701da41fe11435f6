"""Connections to the neighbors for `dpeer check`, dialled and accepted up to keys and long messages."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field

from dpeer.exceptions import DpeerError
from dpeer.federation.addresses import is_relay
from dpeer.federation.findings import Findings
from dpeer.federation.long_messages import SILENT, LongMessages
from dpeer.federation.starting import Starting
from dpeer.peer.core.limits import Limits
from dpeer.peer.relay.messages import ABSENT, NO_ANSWER, REFUSALS
from dpeer.peer.transport import (
    Arrival,
    Broken,
    Event,
    Link,
    Opened,
    Relayed,
    Transport,
    TurnedAway,
    Unreachable,
)
from dpeer.peer.transports import TransportOptions, make_transport
from dpeer.peer.transports.hosts import split
from dpeer.peer.transports.proxies import dial
from dpeer.peer.transports.zeromq import ZeroMQTransport
from dpeer.results.units import duration

_BOTH = (
    "Does the peer there run, or dpeer check --connect at the same time, and do both firewalls let the port through?"
)
"""What to look at where no connection comes."""

_STRANGE = {
    "unlisted-key": "showed a key that is not listed here: is it a neighbor's, which this federation file lacks?",
    "no-key": "proved no key: another program, or a peer that lists another key for this rank",
}
"""What connections may be that were turned away, by the transport's reason."""

_LINGER = 1.0
"""Seconds for which the last word on a line may be under way."""

LOOK = 0.1
"""Seconds between two looks at which ranks have dialled in."""

_COMES_LATER = tuple(REFUSALS[code] for code in (ABSENT, NO_ANSWER))
"""What a relay answers while the called rank is not there yet."""


@dataclass
class Seen:
    """What has come of the lines so far.

    Attributes:
        opened: By rank, after how many seconds its connection was there, keys proved.
        reasons: Why the others cannot be reached at present, as the transport states it.
        unproved: The ranks at whose address a listener is, and a key is not proved: waiting does not help.
        came: The ranks that have dialled in and proved their keys.
        strangers: How many connections came without a listed key, by reason and host.
        relay: Why this peer's relay cannot be used at present; None if it can, or it has none.
    """

    opened: dict[int, float] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    unproved: set[int] = field(default_factory=set)
    came: set[int] = field(default_factory=set)
    strangers: Counter[tuple[str, str]] = field(default_factory=Counter)
    relay: str | None = None


_LATE = 3 * SILENT
"""Seconds beyond `within` in which connected neighbors are still heard, however often they connect anew."""


async def check_lines(findings: Findings, starting: Starting, *, within: float) -> None:
    """Connect with every neighbor, in the direction in which the run will, and say how far it came.

    A run's own rounds are not begun: no hello is sent, so no peer that waits is disturbed. Neighbors that check at the
    same time, or run, answer a message as long as a hello.

    Args:
        findings: Where to note it.
        starting: The peer.
        within: Seconds to wait for neighbors that are not there.
    """
    keyring, listen = starting.keyring, starting.listen
    options = TransportOptions(Limits(), starting.own.dead_after, keyring, starting.through)
    transport = make_transport(listen or next(iter(starting.everyone.values()), "tcp://"), options)
    messages = LongMessages(transport, starting.rank, frozenset(starting.neighbors))
    try:
        if not await _listens(findings, transport, listen):
            return
        expected = {rank for rank in starting.neighbors if rank not in starting.to_dial}
        seen = await _watch(transport, starting, expected, messages, within)
        for rank, address in starting.to_dial.items():
            await _judge(findings, starting, rank, address, seen, messages, within)
        for rank in sorted(expected):
            _judge_inward(findings, starting, rank, seen, messages, within)
        _judge_strangers(findings, seen.strangers)
    finally:
        await transport.close(_LINGER)


def _judge_strangers(findings: Findings, strangers: Counter[tuple[str, str]]) -> None:
    """Note connections that were turned away; those without a key only where no key was shown at all."""
    for reason, words in _STRANGE.items():
        if places := {place for (why, place) in strangers if why == reason}:
            times = sum(count for (why, _), count in strangers.items() if why == reason)
            where = f" from {', '.join(sorted(places))}" if any(places) else ""
            count = "a connection" if times == 1 else f"{times} connections"
            findings.warn("strangers", f"{count}{where} {words}")
            return


async def check_port(findings: Findings, starting: Starting) -> None:
    """Whether the peer can listen where its neighbors are to reach it; nothing is dialled.

    Args:
        findings: Where to note it.
        starting: The peer.
    """
    listen = starting.listen
    if listen is None or is_relay(listen):
        through = "dials out" if listen is None else f"is reached through {listen}"
        findings.passed("port", f"{through}: no port of this host is opened")
        return
    options = TransportOptions(Limits(), starting.own.dead_after, starting.keyring)
    transport = make_transport(listen, options)
    try:
        await _listens(findings, transport, listen)
    finally:
        await transport.close(0)


async def _listens(findings: Findings, transport: Transport, listen: str | None) -> bool:
    """Listen at the peer's address, and note whether that is possible."""
    if listen is None:
        findings.passed("port", "dials out: no port of this host is opened")
        return True
    try:
        bound = await transport.listen(listen)
    except DpeerError as error:
        findings.fail("port", str(error))
        return False
    findings.passed("port", f"{bound} is free to listen at")
    return True


async def _watch(
    transport: Transport, starting: Starting, expected: set[int], messages: LongMessages, within: float
) -> Seen:
    """Dial, and wait until every neighbor was met and heard, or the time is up."""
    seen, began = Seen(), time.monotonic()
    keyed = starting.keyring is not None
    links: dict[Link, int] = {}
    for rank, address in starting.to_dial.items():
        try:
            links[transport.dial(address, rank)] = rank
        except DpeerError as error:
            seen.reasons[rank] = str(error)
    receiving = asyncio.create_task(transport.receive())
    came = set[int]()  # as their words say, where no key shows it
    try:
        while True:
            done, _ = await asyncio.wait({receiving}, timeout=LOOK)
            now = time.monotonic() - began
            if done:
                event = receiving.result()
                receiving = asyncio.create_task(transport.receive())
                _happened(event, links, seen, now)
                _heard(event, links, messages, came)
            if keyed and isinstance(transport, ZeroMQTransport):
                seen.came |= {one for one in transport.proved if isinstance(one, int)}
            for rank in seen.came & expected:
                messages.met(rank)
            messages.look()
            met = seen.opened.keys() | (expected & (seen.came | came))
            settled = all(map(messages.settled, met))
            all_met = met | seen.unproved >= starting.to_dial.keys() | expected
            if (settled and (all_met or now >= within)) or now >= within + _LATE:
                break
    finally:
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
    return seen


def _heard(event: Event, links: dict[Link, int], messages: LongMessages, came: set[int]) -> None:
    """Hand on what is of messages."""
    if isinstance(event, Opened) and event.link in links:
        messages.met(links[event.link], event.link)
    elif isinstance(event, Arrival):
        sender = messages.came(event, links.get(event.link, event.identity))
        if sender is not None:
            came.add(sender)
    elif isinstance(event, Broken):
        messages.broke(event.link)


def _happened(event: Event, links: dict[Link, int], seen: Seen, now: float) -> None:
    if isinstance(event, Opened) and event.link in links:
        seen.opened.setdefault(links[event.link], now)
    elif isinstance(event, Unreachable) and event.link in links:
        seen.reasons[links[event.link]] = event.reason
        if event.unproved:
            seen.unproved.add(links[event.link])
    elif isinstance(event, Arrival) and event.identity is not None:
        seen.came.add(event.identity)
    elif isinstance(event, TurnedAway):
        seen.strangers[event.reason, event.place] += event.times
    elif isinstance(event, Relayed):
        seen.relay = event.trouble


def _connected(findings: Findings, rank: int, words: str, messages: LongMessages) -> None:
    """Note a neighbor that is connected, by which messages pass."""
    check = f"rank {rank}"
    if (passed := messages.passed(rank)) is not None:
        findings.passed(check, f"{words}, and {passed}")
    elif (lost := messages.lost(rank)) is not None:
        findings.fail(check, f"{words}; {lost}")
    else:
        findings.warn(check, f"{words}; {messages.silent(rank)}")


async def _judge(
    findings: Findings,
    starting: Starting,
    rank: int,
    address: str,
    seen: Seen,
    messages: LongMessages,
    within: float,
) -> None:
    """Note how far the line to a neighbor came that this peer dials: name, TCP, key, messages."""
    check, keyed = f"rank {rank}", starting.keyring is not None
    if rank in seen.opened:
        proof = "both keys are accepted" if keyed else "it answers, without keys"
        took = duration(seen.opened[rank])
        _connected(findings, rank, f"reached at {address} in {took}: {proof}", messages)
        return
    reason, place = seen.reasons.get(rank), split(address)
    if place is None:  # a path, or a transport of other code
        findings.warn(check, f"{address}: nothing answers within {duration(within)}: start it, or its dpeer check")
        return
    tcp = None if rank in seen.unproved else await _tcp(starting, place)
    if tcp is not None:
        findings.warn(
            check, f"{address}: no TCP connection: {tcp}. {_BOTH}"
        )  # fmt: skip
        return
    if reason is not None and reason.endswith(_COMES_LATER):
        findings.warn(check, f"{address}: TCP is there, and then: {reason}")
        return
    what = reason or f"what listens there has not shown to be dpeer within {duration(within)}"
    findings.fail(check, f"{address}: TCP is there, and {'no key is accepted' if keyed else 'no dpeer'}: {what}")


async def _tcp(starting: Starting, place: tuple[str, int]) -> str | None:
    """Why no TCP connection can be made, through the proxy if one is set; None if it can."""
    try:
        (await dial(*place, starting.through, starting.own.dead_after)).close()
    except OSError as error:
        return str(error)
    return None


def _judge_inward(
    findings: Findings, starting: Starting, rank: int, seen: Seen, messages: LongMessages, within: float
) -> None:
    """Note whether a neighbor came that dials this peer."""
    check, listen = f"rank {rank}", starting.listen
    if rank in seen.came:
        _connected(findings, rank, f"it reached this peer at {listen}: it has proved its key", messages)
    elif seen.relay is not None and listen is not None and is_relay(listen):
        findings.fail(check, f"it would call through the relay, which this peer cannot use: {seen.relay}")
    elif starting.keyring is None:
        words = f"it dials this peer at {listen}; without keys, a connection does not show whose it is"
        findings.warn(check, f"{words}; {messages.lost(rank) or messages.passed(rank) or _BOTH}")
    else:
        findings.warn(
            check, f"it dials this peer at {listen}, and has not within {duration(within)}. {_BOTH}"
        )  # fmt: skip
