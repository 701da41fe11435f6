"""Daemon of a peer: wire format, transports, round loop, liveness, checkpoints and metrics; imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpeer.lazy import lazily

if TYPE_CHECKING:
    from dpeer.peer.config import LivenessConfig, PeerConfig
    from dpeer.peer.core.limits import Limits
    from dpeer.peer.learner import Evaluation, Learner, Payload
    from dpeer.peer.peer import Outcome, Peer
    from dpeer.peer.transport import Transport
    from dpeer.peer.transports import InProcessTransport, Network, ZeroMQTransport
    from dpeer.peer.worker import Worker

_PLACES = {
    "Evaluation": "dpeer.peer.learner",
    "InProcessTransport": "dpeer.peer.transports",
    "Learner": "dpeer.peer.learner",
    "Limits": "dpeer.peer.core.limits",
    "LivenessConfig": "dpeer.peer.config",
    "Network": "dpeer.peer.transports",
    "Outcome": "dpeer.peer.peer",
    "Payload": "dpeer.peer.learner",
    "Peer": "dpeer.peer.peer",
    "PeerConfig": "dpeer.peer.config",
    "Transport": "dpeer.peer.transport",
    "Worker": "dpeer.peer.worker",
    "ZeroMQTransport": "dpeer.peer.transports",
}
"""A program that asks a peer for its status must not wait for graphs and transports."""

__getattr__ = lazily(__name__, _PLACES)

__all__ = [
    "Evaluation",
    "InProcessTransport",
    "Learner",
    "Limits",
    "LivenessConfig",
    "Network",
    "Outcome",
    "Payload",
    "Peer",
    "PeerConfig",
    "Transport",
    "Worker",
    "ZeroMQTransport",
]
