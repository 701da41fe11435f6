"""FedRep: many head steps on the shared representation, then steps on the representation.

Collins et al., Exploiting Shared Representations for Personalized Federated Learning, ICML 2021, Algorithm 1. Round t
of client i:

    h_i <- tau SGD steps on the head, with the representation as it came
    phi <- SGD steps on the representation, with the new head
    phi <- average of everyone's phi

The round is DFedMDC's; what differs is how long the head is trained: 10 epochs (`--head-epochs`), as in the scripts of
the published code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dpeer.training.algorithms.dfedmdc import DFedMDC


class FedRep(DFedMDC):
    """First the head, for long, then the body, which is shared: DFedMDC with other epochs."""

    name = "fedrep"
    summary = "first many epochs of the head, then the body; the body is averaged"
    paper = "Collins et al.: Exploiting Shared Representations for Personalized Federated Learning, ICML 2021"
    defaults: ClassVar[Mapping[str, Any]] = {"head_epochs": 10}
