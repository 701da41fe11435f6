"""Outer steps: Nesterov's momentum along what training and mixing have changed, as in DiLoCo but without a server.

Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models", arXiv:2311.08105, Algorithm 1,
whose outer optimizer is SGD with Nesterov's momentum. Peer i has a base b_i, the body that it trains from, and a
velocity u_i, at first zero. A round with learning rate a and momentum m:

    z_i <- H local steps from b_i                           (train, release)
    x_i <- sum over j of W_ij z_j                           (mix: see `Gossip`)
    g_i <- b_i - x_i                                        the outer gradient
    u_i <- m u_i + g_i
    b_i <- b_i - a (g_i + m u_i)

W is doubly stochastic, so the means over the peers follow DiLoCo's outer step on the mean of all changes, whatever the
graph. On a full graph with uniform weights all peers have the same b and u: that is DiLoCo.

NoLoCo (Kolehmainen et al., arXiv:2506.10911) has no server either. There a peer averages with a random other one. It
takes a step along the mean of both changes and one towards the mean of both bases, for which both travel. Here one body
travels. Its g_i = sum_j W_ij (b_j - z_j) + (b_i - sum_j W_ij b_j) has both steps, at one rate and with one momentum. So
a body comes to rest where it does with plain gossip, at x_i = b_i, and momentum does not drive peers whose data differ
further apart. It would, 1 / (1 - m) times as far, if each peer took the step along its own change before sending.

What peers disagree about follows Nesterov's step on a quadratic loss of curvature 1 - l, l an eigenvalue of W. It
shrinks where a (1 - l) < (2 + 2m) / (1 + 2m), its slow parts faster than by plain gossip (`outer_stability.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from dpeer.training.flat import Exchanged
from dpeer.training.mixing.outer_setting import Outer

_BLOCK = 2**16
"""Values that are stepped together: three vectors of so many stay in a cache."""


class OuterStep:
    """The outer optimizer of one peer. All that it keeps is a function of releases, so it costs no privacy.

    Args:
        body: The values that are trained and mixed.
        outer: Learning rate and momentum.
    """

    def __init__(self, body: Exchanged, outer: Outer) -> None:
        self._body, self._outer = body, outer
        self._base, self._velocity = body.data.clone(), torch.zeros_like(body.data)

    def mixed(self) -> None:
        """Replace the body, which mixing has given, by the outer step's."""
        body, outer = self._body.data, self._outer
        with torch.no_grad():
            for start in range(0, body.numel(), _BLOCK):
                block = slice(start, start + _BLOCK)
                change, base, velocity = body[block], self._base[block], self._velocity[block]
                change.sub_(base)  # -g
                velocity.mul_(outer.momentum).sub_(change)
                base.add_(change, alpha=outer.lr).sub_(velocity, alpha=outer.lr * outer.momentum)
                change.copy_(base)

    def adopted(self) -> None:
        """Count from the body that was adopted, with no velocity: the own one is of rounds long ago."""
        with torch.no_grad():
            self._base.copy_(self._body.data)
            self._velocity.zero_()

    def state(self) -> Mapping[str, Tensor]:
        """The velocity; and the base where it is not the body, as after a round whose release was lost."""
        found = {"velocity": self._velocity}
        return found if torch.equal(self._base, self._body.data) else found | {"base": self._base}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take up what `state` gave; the body is as it was then.

        Raises:
            KeyError, ValueError: It is of another run.
        """
        base = state.get("base", self._body.data)
        if {state["velocity"].shape, base.shape} != {self._body.data.shape}:
            raise ValueError(f"a velocity of {state['velocity'].numel()} values")
        with torch.no_grad():
            self._velocity.copy_(state["velocity"])
            self._base.copy_(base)
