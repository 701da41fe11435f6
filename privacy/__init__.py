"""Differential privacy: mechanisms, ledger and accounting. Knows no network and no training loop."""

from __future__ import annotations

from dpeer.privacy.accounting import Charge
from dpeer.privacy.guarantee import Adjacency, Adversary, Guarantee
from dpeer.privacy.ledger import Ledger
from dpeer.privacy.mechanism import Clipped, Sparsifier, Vector, clip, norm, privatize
from dpeer.privacy.noiseless_runs import Unprotected
from dpeer.privacy.protection import Protection
from dpeer.privacy.sample import SampleGuarantee
from dpeer.privacy.step_ledger import StepLedger

__all__ = [
    "Adjacency",
    "Adversary",
    "Charge",
    "Clipped",
    "Guarantee",
    "Ledger",
    "Protection",
    "SampleGuarantee",
    "Sparsifier",
    "StepLedger",
    "Unprotected",
    "Vector",
    "clip",
    "norm",
    "privatize",
]
