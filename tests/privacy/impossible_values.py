"""The second attack on the old scheme: a release that one data set can give is impossible with another.

A neighbor replays a peer's training on two candidate data sets and so knows the update under each to the last bit.
Under the right one, what is left of the release is noise that the old scheme can draw. Float32 has many numbers that it
cannot draw, and under the wrong one, where the noise is small, what is left is often such a number. A single one proves
that data set wrong, however much noise there is and whatever epsilon is claimed.
"""

import numpy as np
from numpy.typing import NDArray

from dpeer.privacy import Vector
from dpeer.privacy.noise import grid

from .old_scheme import clip
from .ziggurat import explanations


def clipped_update(base: Vector, body: Vector, clip_norm: float) -> Vector:
    """The update under the old scheme, to the last bit."""
    update = body - base
    clip(update, clip_norm)
    return update


def impossible(base: Vector, update: Vector, released: Vector, std: float, near: float) -> NDArray[np.bool_]:
    """Where the old scheme cannot have released this.

    Args:
        base: What the neighbor knows.
        update: What the data set in question gives.
        released: What was received.
        std: The noise's standard deviation.
        near: Only coordinates with noise below so many standard deviations are looked at.

    Returns:
        For each of these coordinates whether no noise explains it.
    """
    noise = np.subtract(released, base, dtype=np.float64) - update
    return np.array(
        [
            explanations(released[place], base[place], update[place], std, at_once=False).size == 0
            for place in np.flatnonzero(np.abs(noise) < near * std).tolist()
        ],
        dtype=np.bool_,
    )


def steps(base: Vector, released: Vector, std: float) -> NDArray[np.float64]:
    """How many steps of the grid from the base's grid point a release of the scheme of today is, exactly.

    Every whole number is possible, whatever the update is; any other is impossible.
    """
    unit = grid(std)
    return np.divide(released, unit, dtype=np.float64) - np.rint(np.divide(base, unit, dtype=np.float64))
