"""Differential privacy: `open` gives a peer's session; mechanisms, ledger, accounting; no network, no training loop."""

from __future__ import annotations

from dpeer.privacy.accounting import Charge
from dpeer.privacy.client_level import ClientSession, Guarantee
from dpeer.privacy.config import PeerData, PrivacyConfig
from dpeer.privacy.ledger import Ledger
from dpeer.privacy.mechanism import Clipped, Sparsifier, Vector, clip, norm, privatize
from dpeer.privacy.sample_level import SampleGuarantee
from dpeer.privacy.sample_session import SampleSession
from dpeer.privacy.session import NoiselessSession, Session, open  # noqa: A004 - as gzip.open and others are called

__all__ = [
    "Charge",
    "ClientSession",
    "Clipped",
    "Guarantee",
    "Ledger",
    "NoiselessSession",
    "PeerData",
    "PrivacyConfig",
    "SampleGuarantee",
    "SampleSession",
    "Session",
    "Sparsifier",
    "Vector",
    "clip",
    "norm",
    "open",
    "privatize",
]
