"""Counts of a trainer for the peer's own files: samples, units, gradients, and gradients that clipping shortened."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Met:
    """What clipping met in a step; for the peer's own files, never for others.

    Attributes:
        units: How many units were drawn.
        clipped: How many had a gradient longer than the clip norm.
        not_finite: How many had one that was not finite, and counted as zero; of a group only such examples do.
    """

    units: int = 0
    clipped: int = 0
    not_finite: int = 0

    def add(self, other: Met) -> None:
        """Count what another step met, too."""
        self.units += other.units
        self.clipped += other.clipped
        self.not_finite += other.not_finite


@dataclass(frozen=True)
class Figures:
    """True figures about a peer's data.

    Attributes:
        samples: How many training samples there are.
        units: How many units of protection, samples or groups of them.
        gradients: For how many samples a gradient of the loss has been computed so far in this process.
        loss: Sample-weighted mean of the (unperturbed) minibatch losses of the last epoch; None where there was none.
        met: What clipping met in the round so far; None where nothing is clipped.
    """

    samples: int
    units: int
    gradients: int
    loss: float | None
    met: Met | None = None
