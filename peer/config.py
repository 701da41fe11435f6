"""PeerConfig: one peer's rank, rounds, waits, deadline, liveness, quorum and files, with the cost of changing each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dpeer.peer.core.member_list import MemberList, Signers
from dpeer.peer.core.round_clock import Quorum
from dpeer.topology import Graphs


class Counted(NamedTuple):
    """What a rank's folder counts.

    Attributes:
        rounds: The rounds that it knows of: of the ledger, the checkpoint and metrics.jsonl.
        releases: The rounds up to the last one whose body was sent; rounds that were sat out later hide none of them.
    """

    rounds: int
    releases: int


@dataclass(frozen=True)
class LivenessConfig:
    """When a silent neighbor becomes suspect and dead. All in seconds."""

    heartbeat: float = 1.0
    """Time between two heartbeats. 0 switches liveness off: peers of one process cannot die alone."""

    suspect_after: float = 5.0
    """Silence after which a neighbor is suspect: it is still waited for and sent to."""

    dead_after: float = 15.0
    """Silence after which a neighbor is dead: rounds go on without it. A short time loses less to a peer that crashed.
    A long one forgives an overloaded host or a network hiccup, instead of missing the bodies of the time in between."""

    stop_grace: float = 2.0
    """How long a neighbor that was stopped is still waited for, so that stopping all peers at
    once stops them all in the same round, and a resumed run has the same bits as an uninterrupted one."""

    @classmethod
    def after(cls, dead_after: float) -> LivenessConfig:
        """The times that go with one after which a silent neighbor is dead."""
        return cls(heartbeat=min(1.0, dead_after / 5), suspect_after=dead_after / 3, dead_after=dead_after)


@dataclass(frozen=True)
class ListsConfig:
    """What a peer needs for member lists.

    Attributes:
        zero: List 0, which is the federation file.
        signers: The operators who sign those that follow.
        graph_of: The graph of a list, over its members in the order of their ranks: its rank 0 is the lowest member.
        given: A list that the operator hands over at the start of a new folder; None without one.
        forbids: Says why this site does not take part by a list, with these neighbors, None where it may; or None.
    """

    zero: MemberList
    signers: Signers
    graph_of: Callable[[MemberList], Graphs]
    given: MemberList | None = None
    forbids: Callable[[MemberList, Collection[int]], str | None] | None = None


@dataclass(frozen=True)
class PeerConfig:
    """One peer's place in the federation and how it runs its rounds."""

    rank: int
    rounds: int

    listen: str | None
    """Address to accept connections at; None to only dial out. tcp://HOST:0 takes a free port."""

    fingerprint: Mapping[str, Any]
    """Everything that must be equal on all peers, by name; plain JSON values. Compared in the handshake."""

    out: Path
    """This rank's folder."""

    authenticated: bool = False
    """Whether the transport proves the rank at the other end of each link: then no other process speaks for it."""

    evaluate_every: int = 1
    """Evaluate in every n-th round; the last one always. Evaluation runs twice a round: before and after mixing."""

    checkpoint_every: int = 1
    """Write a checkpoint after the first round and after every n-th one; after the last one and when stopped always.
    More than 1 writes less; a process that is killed loses up to n rounds."""

    wait: float = 300.0
    """Seconds to wait for all ranks, or as many as `quorum` says, before the first round; and for which a pause may
    bring no news."""

    remind_every: float = 10.0
    """Seconds of waiting for the start until a line names who is still missing; then twice as many, up to an hour."""

    linger: float = 1.0
    """Seconds to deliver the goodbye when the peer leaves; bodies that neighbors need have arrived before."""

    refused_after: float = 2.5
    """Seconds after which a peer that cannot train with a neighbor ends with the reason, unless another neighbor has
    accepted it by then; longer than it takes to dial again."""

    deadline: float | Literal["auto"] | None = None
    """Seconds that a round waits for a neighbor that is there but sends no body; "auto" to find it (`RoundDeadline`);
    None to wait for as long as it takes. A deadline keeps a process that hangs from holding up the others, and costs
    the bodies of slow ones. It does not count while a body comes at a useful pace (`Transfer`)."""

    round_seconds: float | Literal["auto"] | None = None
    """Seconds after which a round's local training ends between two minibatches; "auto" to find them from when the
    neighbors' bodies come (`RoundBudget`); None for no limit. A slow peer with a budget is mixed in every round, and
    holds up no other; how many steps it takes depends on the machine, so its bits are repeated from a record alone."""

    quorum: Quorum = "majority"
    """Which peers are enough to go on: "majority" of all ranks (`RoundClock`), or "any": a group that is cut off runs
    ahead by itself, and loses the others' rounds meanwhile; or a number of ranks, which are also enough to start.
    Without heartbeats no peer can be cut off: "any"."""

    say_waiting: float = 30.0
    """Seconds of waiting in a round until a line of the log names the ranks; then twice as many, and so on."""

    liveness: LivenessConfig = field(default_factory=LivenessConfig)

    resume: bool = False
    """Continue from the checkpoint in `out` instead of starting."""

    counted: Counted | None = None
    """Of a peer that protects its data: its ledger has all releases of so many rounds. Where others know of more, the
    folder is an older copy, and nothing may be released. None: whatever was released, nothing has to be counted."""

    rounds_released: int = 0
    """How many rounds may have been released from a disk that was lost, as the operator states: they are charged, and
    none of them is released."""

    lists: ListsConfig | None = None
    """What is needed for member lists; None where no operator can sign any."""

    about: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of each checkpoint, for readers without this peer's settings: plain JSON values."""

    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By field of the fingerprint that has hashes of names, these names: for messages to this peer's user.
    They never leave this peer."""
