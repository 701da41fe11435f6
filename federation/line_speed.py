"""Rate and round trip of the lines between neighbors that run `dpeer check --connect` at the same time.

The dialling side leads. It asks; the other side is ready, or busy with another line, since two measurements at once
would share a site's line. Then small messages go back and forth, and trains of filler bytes in one direction, then in
the other. Trains grow fourfold until one takes `ENOUGH` seconds or has `MOST` bytes. A train's rate is that of its
second half: the first one pays for the connection's slow start.

All messages begin with `wire.PROBE`. A running peer answers the first one with `Unknown`, so no train is sent to it,
and no round is disturbed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dpeer.exceptions import ProtocolError
from dpeer.peer.core import wire
from dpeer.peer.core.limits import Limits
from dpeer.peer.core.wire import Frames
from dpeer.peer.transport import Arrival, Link, Sent, Transport
from dpeer.topology.transfer_time import LineSpeed

FIRST, MOST = 2**15, 2**23
"""Bytes of the first train, and of the longest. All trains of one direction have less than 11 MB."""

ENOUGH = 0.25
"""Seconds: a train that takes so long is the last one."""

PARTS, LONGEST = 8, 2**18
"""Messages of a train, at least, and the most bytes of one."""

PINGS = 5
"""Small messages that go back and forth; the fastest counts."""

SILENT = 5.0
"""Seconds without a word after which a line is not measured."""

LONGEST_LINE = 15.0
"""Seconds after which the measurement of one line is given up."""

TRIES = 3
"""Times that one line is measured, at most: a neighbor that breaks it or asks again gets no filler without end."""

_UNREAD = 64
"""Words of a neighbor that may wait to be read: those of a train, and as many again. Further ones are lost."""

_WORD = 400
"""The most bytes of a message beside its filler."""

RUNS = "a peer runs there, and no round is disturbed"
MUTE = "the other end does not answer: has it another version of dpeer?"
BROKE = "the connection broke meanwhile"
SLOW = f"it takes longer than {LONGEST_LINE:g} s"
OFTEN = f"it was begun {TRIES} times"


@dataclass
class _Line:
    """The line to a neighbor.

    Attributes:
        rank: The neighbor.
        link: Its link; another one after it has dialled anew.
        leads: Whether this end leads.
        since: Clock time of its last word, or of the connection.
        words: What has come and is not read yet: message, filler bytes, clock time.
        begun: How often its measurement was begun.
        writable: Set when the link takes messages again.
        why: Why it is not measured; None if it is, or may be.
    """

    rank: int
    link: Link
    leads: bool
    since: float
    words: asyncio.Queue[tuple[Mapping[str, Any], int, float]] = field(default_factory=lambda: asyncio.Queue(_UNREAD))
    begun: int = 0
    writable: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    why: str | None = None


class _GivenUpError(Exception):
    """A line cannot be measured; the reason."""


class LineMeter:
    """Measures lines one at a time, while its owner receives the transport's events.

    Args:
        transport: What carries the messages.
        rank: This peer.
        neighbors: The ranks that are measured.

    Attributes:
        found: What was measured, by rank.
    """

    def __init__(self, transport: Transport, rank: int, neighbors: frozenset[int]) -> None:
        self.found: dict[int, LineSpeed] = {}
        self._transport, self._rank, self._neighbors = transport, rank, neighbors
        self._lines: dict[int, _Line] = {}
        self._busy: int | None = None
        self._filler = os.urandom(LONGEST)  # which no line compresses

    # -- events ------------------------------------------------------------------------------------------------

    def met(self, rank: int, link: Link | None = None) -> None:
        """Note that a neighbor is connected, on this link if this end has dialled it."""
        line = self._lines.get(rank)
        if line is None:
            line = self._lines[rank] = _Line(rank, link, link is not None, time.monotonic())
        if link is not None and (line.task is None or line.why == BROKE):
            line.why = None
            line.task = asyncio.create_task(self._run(line))

    def came(self, arrival: Arrival, rank: int | None) -> int | None:
        """Take a message.

        Args:
            arrival: The message.
            rank: Its sender, if the link or a key shows it; None takes the sender's word.

        Returns:
            The sender, if it is a neighbor's check.
        """
        if not wire.is_probe(arrival.frames):
            self._came_of_run(arrival, rank)
            return None
        word = _decode(arrival.frames)
        if word is None or (rank is not None and word.get("rank") != rank) or word.get("rank") not in self._neighbors:
            return None
        sender: int = word["rank"]
        line = self._lines.get(sender)
        if line is None or (not line.leads and line.task is None):
            line = self._lines[sender] = line or _Line(sender, arrival.link, leads=False, since=0.0)
        line.since = time.monotonic()
        if line.leads or (line.task is not None and word["say"] != "ask"):
            with contextlib.suppress(asyncio.QueueFull):
                line.words.put_nowait((word, wire.size(arrival.frames[1:]), line.since))
        elif word["say"] == "ask":
            self._asked(line, arrival.link)
        return sender

    def _came_of_run(self, arrival: Arrival, rank: int | None) -> None:
        line = None if rank is None else self._lines.get(rank)
        if line is None:
            return
        try:
            message = wire.decode(arrival.frames, Limits())
        except ProtocolError:
            return
        if isinstance(message, wire.Hello if not line.leads else wire.Unknown):
            self._give_up(line, RUNS)

    def broke(self, link: Link) -> None:
        """A link is broken: what was on its way is lost."""
        for line in self._lines.values():
            if line.link == link and line.task is not None and not line.task.done():
                self._give_up(line, BROKE)

    def writable(self, link: Link) -> None:
        """A link that was full takes messages again."""
        for line in self._lines.values():
            if line.link == link:
                line.writable.set()

    # -- what has become of it ---------------------------------------------------------------------------------

    def settled(self, rank: int) -> bool:
        """Whether a neighbor that is connected is measured, or will not be."""
        line = self._lines.get(rank)
        if line is None or rank in self.found or line.why is not None:
            return True
        if line.task is None and time.monotonic() - line.since > SILENT:
            line.why = MUTE
        return line.why is not None

    def why(self, rank: int) -> str | None:
        """Why a neighbor that is connected is not measured; None if it is."""
        line = self._lines.get(rank)
        return None if line is None or rank in self.found else line.why or MUTE

    async def close(self) -> None:
        """End what still runs."""
        tasks = [line.task for line in self._lines.values() if line.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- a measurement -----------------------------------------------------------------------------------------

    def _give_up(self, line: _Line, why: str) -> None:
        line.why = why
        if line.task is not None:
            line.task.cancel()

    def _asked(self, line: _Line, link: Link) -> None:
        """Answer a neighbor that wants to measure."""
        ready = self._busy in (None, line.rank) and line.begun < TRIES
        if ready:
            if line.task is not None:
                line.task.cancel()  # the neighbor has begun again
            self._busy, line.link, line.words, line.why = line.rank, link, asyncio.Queue(_UNREAD), None
            line.task = asyncio.create_task(self._run(line))
        # A check that is full of unread messages loses the answer, and is asked again.
        self._transport.send(link, _encode(self._rank, "ready" if ready else "busy"))

    async def _run(self, line: _Line) -> None:
        try:
            if line.leads:
                await self._ask(line)
            if line.begun >= TRIES:
                raise _GivenUpError(OFTEN)
            line.begun += 1
            async with asyncio.timeout(LONGEST_LINE):
                await (self._lead(line) if line.leads else self._follow(line))
        except _GivenUpError as error:
            line.why = str(error)
        except TimeoutError:
            line.why = SLOW
        finally:
            if self._busy == line.rank and line.task is asyncio.current_task():
                self._busy = None

    async def _ask(self, line: _Line) -> None:
        """Wait until neither end measures another line."""
        turns = 0
        while True:
            if self._busy is None:
                self._busy = line.rank
                await self._say(line, "ask")
                word, _, _ = await self._hear(line, "ready", "busy")
                if word["say"] == "ready":
                    return
                self._busy = None
            else:
                await self._say(line, "wait")
            turns += 1
            # Two that ask each other's neighbors in step would find each other busy for ever.
            await asyncio.sleep(0.05 * (1 + turns * (self._rank + 3) % 7))

    async def _lead(self, line: _Line) -> None:
        round_trip = await self._ping(line)
        sends = await self._send_trains(line)
        await self._say(line, "turn")
        receives = await self._receive_trains(line, "over")
        await self._say(line, "result", round_trip=round_trip)
        self.found[line.rank] = LineSpeed(sends, receives, round_trip)

    async def _follow(self, line: _Line) -> None:
        receives = await self._receive_trains(line, "turn")
        sends = await self._send_trains(line)
        await self._say(line, "over")
        word, _, _ = await self._hear(line, "result")
        self.found[line.rank] = LineSpeed(sends, receives, _number(word, "round_trip"))

    async def _ping(self, line: _Line) -> float:
        times = []
        for _ in range(PINGS):
            began = time.monotonic()
            await self._say(line, "ping")
            _, _, came = await self._hear(line, "pong")
            times.append(came - began)
        return min(times)

    async def _send_trains(self, line: _Line) -> float:
        """Send trains, each longer than the one before; returns the rate at which the last one has come."""
        size = FIRST
        while True:
            part = min(LONGEST, size // PARTS)
            for left in range(size - part, -1, -part):
                await self._say(line, "part", filler=part, left=left)
            word, _, _ = await self._hear(line, "got")
            seconds, rate = _number(word, "seconds"), _number(word, "rate", least=1)
            if seconds >= ENOUGH or size >= MOST:
                return rate
            size *= 4

    async def _receive_trains(self, line: _Line, until: str) -> float:
        """Answer what comes until this word; returns the rate of the last train."""
        rate, parts = 0.0, list[tuple[float, int]]()
        while True:
            word, filler, came = await self._hear(line, "ping", "part", until)
            if word["say"] == until:
                if not rate:
                    raise _GivenUpError(MUTE)
                return rate
            if word["say"] == "ping":
                await self._say(line, "pong")
                continue
            parts.append((came, filler))
            if len(parts) > MOST // LONGEST:
                raise _GivenUpError("the other end sends trains without end")
            if not word.get("left"):
                rate = rate_of(parts)
                await self._say(line, "got", rate=rate, seconds=came - parts[0][0])
                parts = []

    async def _hear(self, line: _Line, *awaited: str) -> tuple[Mapping[str, Any], int, float]:
        """The next of these words; others are left unread."""
        try:
            async with asyncio.timeout(SILENT):
                while True:
                    found = await line.words.get()
                    if found[0]["say"] in awaited:
                        return found
        except TimeoutError:
            raise _GivenUpError(MUTE) from None

    async def _say(self, line: _Line, say: str, *, filler: int = 0, **values: float) -> None:
        frames = _encode(self._rank, say, **values)
        if filler:
            frames.append(memoryview(self._filler)[:filler])
        while True:
            line.writable.clear()
            sent = self._transport.send(line.link, frames)
            if sent is Sent.TAKEN:
                return
            if sent is Sent.GONE:
                raise _GivenUpError(BROKE)
            await line.writable.wait()


def rate_of(parts: list[tuple[float, int]]) -> float:
    """The rate of a train's second half, in bits per second.

    Args:
        parts: When each part had come, in seconds, and its bytes.
    """
    half = (len(parts) - 1) // 2
    seconds = parts[-1][0] - parts[half][0]
    return 8 * sum(count for _, count in parts[half + 1 :]) / max(seconds, 1e-6)


def _encode(rank: int, say: str, **values: float) -> list[Any]:
    return [wire.PROBE + json.dumps({"rank": rank, "say": say, **values}).encode()]


def _decode(frames: Frames) -> dict[str, Any] | None:
    """The message; None for one that is none."""
    head = bytes(frames[0][: _WORD + 1])
    if len(head) > _WORD:
        return None
    try:
        word = json.loads(head[len(wire.PROBE) :])
    except (ValueError, RecursionError):
        return None
    if not isinstance(word, dict) or type(word.get("rank")) is not int or not isinstance(word.get("say"), str):
        return None
    return word


def _number(word: Mapping[str, Any], name: str, least: float = 0) -> float:
    """A figure of the other end; one that cannot be ends the measurement."""
    value = word.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value < 1e15:
        raise _GivenUpError(f"the other end gives {name} {value!r:.40}")
    return float(value)
