"""Says who we are, and judges who shakes hands with us."""

from __future__ import annotations

from dpeer.exceptions import ProtocolError, Refused
from dpeer.peer import handshake
from dpeer.peer.config import PeerConfig
from dpeer.peer.learner import Learner
from dpeer.peer.membership import Membership, Status
from dpeer.peer.schedule import Schedule
from dpeer.peer.wire import Hello


class Admission:
    """This peer's part in every handshake.

    Args:
        config: What must be equal on both sides.
        learner: Asked for manifest and digest.
        members: Who our neighbors are and which of them are there.
        schedule: In which rounds they are.
        size: Number of peers in the federation.
    """

    def __init__(
        self, config: PeerConfig, learner: Learner, members: Membership, schedule: Schedule, size: int
    ) -> None:
        self._config = config
        self._learner = learner
        self._members = members
        self._schedule = schedule
        self._size = size

    def hello(self, next_round: int, *, reply: bool) -> Hello:
        """What we say of ourselves."""
        return Hello(
            rank=self._config.rank,
            next_round=next_round,
            reply=reply,
            fingerprint=dict(self._config.fingerprint),
            manifest=dict(self._learner.manifest),
            digest=self._learner.digest,
        )

    def judge(self, hello: Hello, next_round: int, dialled: int | None) -> None:
        """Let a neighbor in, or raise.

        Args:
            hello: What the other side says of itself.
            next_round: Where we are.
            dialled: Which rank we dialled on this link; None if we were dialled.

        Raises:
            Refused: it does not fit, and our own run must not begin.
            ProtocolError: it does not fit, and is turned away.
        """
        if dialled is not None and hello.rank != dialled:
            problem = f"rank: expected {dialled} at its address, found {hello.rank}: check the addresses"
        else:
            problem = handshake.mismatch(self.hello(next_round, reply=False), hello, self._schedule) or ""
        if problem and self._concerns_us(hello.rank, dialled):
            raise Refused(problem)
        if problem:
            raise ProtocolError("mismatch", problem)
        if hello.rank not in self._members:
            raise ProtocolError("not-a-neighbor", f"rank {hello.rank} shook hands")

    def _concerns_us(self, rank: int, dialled: int | None) -> bool:
        """Whether a mismatch with this rank ends our own run.

        Only before the first round, and only if it can be one of us: once neighbors train together, whoever comes with
        other settings is turned away, and strangers always are.
        """
        one_of_us = dialled is not None or rank < self._size
        trains_with_us = rank in self._members and self._members[rank].status is not Status.UNSEEN
        return one_of_us and not trains_with_us and bool(self._members.missing())
