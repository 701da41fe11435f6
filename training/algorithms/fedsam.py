"""FedSAM: federated averaging with sharpness-aware local steps.

Qu et al., Generalized Federated Learning via Sharpness Aware Minimization, ICML 2022, Algorithm 1. Round t of client k:

    w_k <- w
    repeat K times:
        g   <- gradient of the minibatch's loss at w_k
        w_k <- SGD step with the gradient at w_k + rho g / ||g||
    w <- 1/K sum_k w_k

as in `fedavg` by a server, or by neighbors. The paper steps without momentum (`--momentum 0`). With the same settings
on the same graph this is DFedSAM, to the bit.
"""

from __future__ import annotations

from dpeer.training.algorithms.dfedsam import DFedSAM


class FedSAM(DFedSAM):
    """All parameters trained jointly by SAM and all of them shared, as in DFedSAM."""

    name = "fedsam"
    summary = "fedavg with sharpness-aware (SAM) steps; --topology full --weights uniform is the server's form"
    paper = "Qu et al.: Generalized Federated Learning via Sharpness Aware Minimization, ICML 2022"
