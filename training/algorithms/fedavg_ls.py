"""FedAvg with Laplacian smoothing: what a round has changed is smoothed, which takes noise off it.

Liang et al., Differentially Private Federated Learning with Laplacian Smoothing, Applied and Computational Harmonic
Analysis 72 (2024); it is "FedAvg-LS" in the paper of DP-FedAdamW. Its server adds the smoothed average of the clients'
updates, w <- w + (I - sigma L)^-1 mean_k (w_k - w); see `smoothed`. Round t of peer i, with x_i the
body as the last round left it:

    z_i <- K SGD steps on the whole model, from x_i
    y_i <- sum_l W_il z_l
    x_i <- x_i + (I - sigma L)^-1 (y_i - x_i)

On the graph `full` with uniform weights that is the server's step, to rounding. On any other graph the mean over all
peers makes that step, too (where W is doubly stochastic), but y_i - x_i also has in it what peers disagree on, and the
rough part of that is taken over more slowly, by 1 / (1 + 4 sigma) at worst: on sparse graphs peers stay farther apart
than with `fedavg`. Smoothing what a peer sends, in place of what it gets, would not have that, but would leave the
noise of `--privacy client` as it is, which is added to what is sent.

Each parameter tensor is smoothed by itself. In one long vector the last weights of a layer would be neighbors of its
bias, and that of the next layer: values of other meaning and other size, of which the larger would leak into the
smaller. (Published code of Laplacian smoothing goes tensor by tensor, too.) What stays at home is not smoothed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from dpeer.training.algorithms.fedper import FedPer
from dpeer.training.algorithms.options import option
from dpeer.training.trainer import Trainer


def smoothed(values: Tensor, strength: float) -> Tensor:
    """A smooth version of a vector, with the same sum; noise of variance s^2 on it keeps less than that.

    Args:
        values: Shape (n,), float32; each value is a neighbor of the next, the last one of the first.
        strength: sigma, 0 or more; 0 changes nothing.

    Returns:
        Shape (n,): for each frequency k, values' part times 1 / (1 + 2 sigma (1 - cos(2 pi k / n))).
    """
    count = values.numel()
    if count < 2 or not strength:
        return values.clone()
    # In float64, and on the host, where every device's gains are the same.
    frequencies = torch.arange(count // 2 + 1, dtype=torch.float64, device="cpu") * (2 * math.pi / count)
    gains = 1 / (1 + 2 * strength * (1 - torch.cos(frequencies)))
    # A copy begins where memory is aligned, on which the last bits of a transform may depend.
    parts = torch.fft.rfft(values.clone()) * gains.to(device=values.device, dtype=values.dtype)
    result: Tensor = torch.fft.irfft(parts, n=count)
    return result


class FedAvgLS(FedPer):
    """Body and head trained jointly; the body is shared, and what mixing changes of it is smoothed."""

    name = "fedavg-ls"
    summary = "body and head are trained at once; the body is averaged, and what a round has changed of it is smoothed"
    paper = "Liang et al.: Differentially Private Federated Learning with Laplacian Smoothing, ACHA 2024"
    mixed_uses_data: ClassVar[bool] = False

    @dataclass(frozen=True)
    class Options:
        """sigma of the paper of DP-FedAdamW is the noise, so that the strength of smoothing has another name."""

        smoothing: float = option(1.0, "how strongly a round's change is smoothed (sigma); 0 for fedper", ge=0)

    def start(self, peer: Trainer) -> None:
        """Remember the body, from which the first change is counted."""
        self.state["left"] = peer.body.data.clone()

    def mixed(self, peer: Trainer) -> None:
        """Smooth what has changed since the last mixing.

        That is counted from what `mixed` left, and not from where `train` began: between two mixings a body may have
        been trained and never sent, and nothing of it must be in what the next update is counted from.
        """
        left = self.state["left"]
        change = peer.body.data - left
        for _, _, here in peer.body.layout:
            change[here] = smoothed(change[here], self.options.smoothing)
        peer.body.data.copy_(left.add_(change))

    def adopted(self, peer: Trainer) -> None:
        """The next change is counted from here."""
        self.state["left"].copy_(peer.body.data)
