"""Daemon of a peer: wire format, transports, round loop, liveness, checkpoints and metrics; imports no torch."""

from dpeer.peer.config import LivenessConfig, PeerConfig
from dpeer.peer.core.limits import Limits
from dpeer.peer.learner import Evaluation, Learner, Payload
from dpeer.peer.peer import Outcome, Peer
from dpeer.peer.transport import Transport
from dpeer.peer.transports import InProcessTransport, Network, ZeroMQTransport
from dpeer.peer.worker import BackgroundWork, Worker

__all__ = [
    "BackgroundWork",
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
