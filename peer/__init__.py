"""The daemon: wire, transports, inbox, liveness, the round loop, checkpoints, metrics. Knows no tensors."""

from dpeer.peer.background_work import IdleWork
from dpeer.peer.config import LivenessConfig, PeerConfig
from dpeer.peer.core.limits import Limits
from dpeer.peer.learner import Evaluation, Learner, Payload
from dpeer.peer.peer import Outcome, Peer
from dpeer.peer.transports import InProcessTransport, Network, Transport, ZeroMQTransport
from dpeer.peer.worker import Worker

__all__ = [
    "Evaluation",
    "IdleWork",
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
