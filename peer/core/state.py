"""State: what all parts of a core share: neighbors, rounds, bodies, queues, and effects that are to be done; no I/O."""

from __future__ import annotations

from typing import Any, Literal

from dpeer.peer.config import ListsConfig, PeerConfig
from dpeer.peer.core import limits, wire
from dpeer.peer.core.bodies import Inbox, Outbox, Reassembly
from dpeer.peer.core.effects import Effect, LogEvent
from dpeer.peer.core.limits import Limits, RateLimiter, sender_of
from dpeer.peer.core.member_list import Signers, unsigned
from dpeer.peer.core.membership import Membership
from dpeer.peer.core.round_clock import Quorum, RoundClock
from dpeer.peer.core.schedule import ListedGraph, Schedule
from dpeer.peer.core.send_queue import SendQueues
from dpeer.peer.learner import Learner
from dpeer.topology import Graphs


class State:
    """What a peer knows, and what it wants done.

    Args:
        config: This peer's place in the federation.
        learner: Asked for manifest, digest, payload size and receive buffer only.
        topology: The graph of each round, by the federation file.
        chunk_bytes: The most bytes of a chunk; None where bodies are not cut.

    Attributes:
        federation: What names the federation in messages.
        lists: What is needed for member lists.
        alone: Whether no peer can be cut off: those of one process send no heartbeats.
        zero: The graph of list 0, the federation file.
        tokens: What each sender may still cost.
        largest: What a message may have at most.
        began: Whether the start is over, so that rounds have begun.
        hearing: The clock time of the message that is taken in; None between messages.
        effects: What is to be done, in this order; to be emptied by its reader.
    """

    def __init__(self, config: PeerConfig, learner: Learner, topology: Graphs, chunk_bytes: int | None) -> None:
        self.config, self.rank = config, config.rank
        self.learner, self.chunk_bytes = learner, chunk_bytes
        self.federation = wire.federation_id(config.fingerprint)
        self.alone = config.liveness.heartbeat == 0
        nobody = ListsConfig(unsigned(topology.size, config.rounds), Signers(), lambda one: topology)
        self.lists = config.lists or nobody
        self.zero = ListedGraph(topology, range(topology.size), config.rounds, b"0")
        quorum: Quorum = "any" if self.alone else config.quorum
        self.round_clock = RoundClock(config.rank, topology.size, config.rounds, quorum)
        self.round_clock.silent = self.alone
        if not self.alone:
            self.round_clock.unreachable = self.zero.apart(config.rank)
        self.members = Membership(self.zero.connections(config.rank), config.liveness, self.round_clock.passed)
        self.schedule = Schedule(self.zero, config.rank)
        self.inbox, self.outbox = Inbox(self.log, self.schedule.uses), Outbox()
        self.reassembly = Reassembly(learner.receive_buffer, min(limits.LEAST_CHUNK, chunk_bytes or limits.LEAST_CHUNK))
        self.send_queues = SendQueues(chunk_bytes)
        self.tokens = RateLimiter(limits.EACH_SECOND, limits.AT_ONCE, limits.STRANGERS)
        self.largest = Limits(payload_bytes=learner.about.payload_bytes)
        self.began = False
        self.hearing: float | None = None
        self.effects: list[Effect] = []

    def log(self, level: Literal["debug", "info", "warning"], event: str, message: str, **fields: Any) -> None:
        """Log an event, if the neighbor whose message causes it can pay for the line; arguments as of `LogEvent`."""
        by, now = fields.get("neighbor"), self.hearing
        if by is None or now is None or self.tokens.spend(sender_of(by), limits.LINE, now):
            self.log_free(level, event, message, **fields)

    def log_free(self, level: Literal["debug", "info", "warning"], event: str, message: str, **fields: Any) -> None:
        """Log an event for which no neighbor pays."""
        self.effects.append(LogEvent(level, event, message, fields))
