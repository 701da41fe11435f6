"""This peer's part in a handshake: what it says of itself, and whether the other side may train with it."""

from __future__ import annotations

from dpeer.exceptions import ProtocolError, Refused
from dpeer.peer.config import PeerConfig
from dpeer.peer.core import handshake
from dpeer.peer.core.membership import Membership, Status
from dpeer.peer.core.wire import Hello, printable
from dpeer.peer.learner import Learner


class Admission:
    """Makes this peer's hellos, and judges those of others.

    Args:
        config: What must be equal on both sides.
        learner: Asked for manifest and digest.
        members: The neighbors, and which of them are there.
        size: Number of peers in the federation.

    Attributes:
        apart: The neighbor that this peer cannot train with, and why, once it has met one; all later hellos say it.
        start: The first round of this process; None before it is known.
    """

    def __init__(self, config: PeerConfig, learner: Learner, members: Membership, size: int) -> None:
        self.apart: tuple[int, str] | None = None
        self.start: int | None = None
        self._config = config
        self._learner = learner
        self._members = members
        self._size = size

    def hello(self, current_round: int, *, reply: bool, presence: bytes = b"") -> Hello:
        """What this peer says of itself while it works on round `current_round`."""
        apart_from, apart_because = self.apart or (None, "")
        return Hello(
            rank=self._config.rank,
            next_round=current_round,
            reply=reply,
            fingerprint=dict(self._config.fingerprint),
            manifest=dict(self._learner.manifest),
            digest=self._learner.digest,
            presence=presence,
            apart_from=apart_from,
            apart_because=apart_because,
            running=self.start is not None and current_round >= self.start + 2,
        )

    def judge(self, hello: Hello, current_round: int, dialled: int | None) -> None:
        """Let a neighbor in, or raise.

        Args:
            hello: What the other side says of itself.
            current_round: The round that this peer works on.
            dialled: Which rank we dialled on this link; None if we were dialled.

        Raises:
            Refused: The other side does not fit, and our own run must not begin.
            ProtocolError: The other side does not fit, and is turned away.
        """
        if dialled is not None and hello.rank != dialled:
            problem = f"rank: expected {dialled} at its address, found {hello.rank}: check the addresses"
        else:
            ours = self.hello(current_round, reply=False)
            problem = handshake.mismatch(ours, hello, self._config.rounds, self._config.names) or ""
        problem = printable(problem)
        if problem and self._concerns_us(hello.rank, dialled):
            raise Refused(problem)
        if problem:
            raise ProtocolError("mismatch", problem)
        if hello.rank not in self._members:
            raise ProtocolError("not-a-neighbor", f"rank {hello.rank} shook hands")

    def part(self, hello: Hello, current_round: int, dialled: int | None) -> None:
        """Note that this peer cannot train with one that `judge` has refused; arguments as there."""
        if dialled is not None and hello.rank != dialled:
            self.apart = dialled, "another rank answers at its address"
        else:
            self.apart = hello.rank, handshake.in_short(self.hello(current_round, reply=False), hello)[:300]

    def _concerns_us(self, rank: int, dialled: int | None) -> bool:
        """Whether a mismatch with this rank ends our own run.

        It does only before the first round, and only if the rank is one of the federation. Once neighbors train
        together, a peer that comes with other settings is turned away; strangers always are.
        """
        one_of_us = dialled is not None or rank < self._size
        trains_with_us = rank in self._members and self._members[rank].status is not Status.UNSEEN
        return one_of_us and not trains_with_us and bool(self._members.missing())
