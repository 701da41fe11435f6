"""FedAvg: federated averaging.

McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017, Algorithm 1.
Round t of client k:

    w_k <- w
    w_k <- w_k - lr g(w_k)      for E epochs of minibatches
    w   <- 1/K sum_k w_k        by the server

Here everyone computes that sum on the graph `full` with uniform weights, and one over its neighbors on any other. The
paper weighs clients by their number of samples and steps without momentum (`--momentum 0`); here W is all that
weighs, and with the same settings on the same graph this is DFedAvgM, to the bit. It has its own name for comparisons
with the server's form.
"""

from __future__ import annotations

from dpeer.training.algorithms.dfedavgm import DFedAvgM


class FedAvg(DFedAvgM):
    """All parameters trained jointly and all of them shared, as in DFedAvgM."""

    name = "fedavg"
    summary = "the whole model is trained by SGD and averaged; --topology full --weights uniform is the server's form"
    paper = "McMahan et al.: Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017"
