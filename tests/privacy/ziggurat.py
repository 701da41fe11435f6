"""From what 32-bit words numpy's float32 ziggurat, under the old scheme, could have made a released value.

`standard_normal(dtype=np.float32)` takes a word r and reads from it a layer (8 bits), a sign (1 bit) and a number below
2^23. Number times the layer's width is the deviate, and 98.5 times in 100 it is returned at once. Else more words are
drawn; except in layer 0 (beyond 3.65), what is returned in the end is such a product too.
"""

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dpeer.privacy import Vector

Words = NDArray[np.uint32]

LAYERS = 256
_NUMBERS = 1 << 23


@cache
def tables() -> tuple[Vector, NDArray[np.int64]]:
    """For each layer its width / 2^23, and below which number a deviate is returned at once.

    Numpy does not show them, but a generator can be made to draw any word next: it keeps half of 64 bits for later.
    """
    source = np.random.SFC64(0)
    generator = np.random.Generator(source)
    fresh = source.state

    def drawn(layer: int, number: int) -> tuple[float, bool]:
        source.state = fresh | {"has_uint32": 1, "uinteger": number << 9 | layer}
        deviate = generator.standard_normal(dtype=np.float32)
        return deviate, np.array_equal(source.state["state"]["state"], fresh["state"]["state"])

    widths = np.array([drawn(layer, 1)[0] for layer in range(LAYERS)], dtype=np.float32)
    at_once = np.zeros(LAYERS, dtype=np.int64)
    for layer in range(LAYERS):
        for bit in reversed(range(23)):
            if drawn(layer, int(at_once[layer]) + (1 << bit) - 1)[1]:
                at_once[layer] += 1 << bit
    return widths, at_once


def outcomes(words: Words, base: np.float32, update: np.float32, std: float) -> Vector:
    """What the old scheme releases of a coordinate with each of these words."""
    widths, _ = tables()
    deviates = (words >> 9).astype(np.float32) * widths[words & 255]
    noise = np.where(words >> 8 & 1, -deviates, deviates) * np.float32(std)
    return base + (update + noise)


def explanations(
    released: np.float32, base: np.float32, update: np.float32, std: float, *, at_once: bool = True
) -> Words:
    """All words with which the old scheme releases this value.

    Args:
        released: Of one coordinate.
        base: Of that coordinate.
        update: What was added to the base before the noise.
        std: The noise's standard deviation.
        at_once: Only words that are all that is drawn; otherwise also those after which more are, layer 0's excepted.
    """
    widths, limits = tables()
    noise = float(released) - float(base) - float(update)
    # Five roundings lie between the exact product and the value: of the deviate, the standard deviation, the noise and
    # two sums. Together they move it by less than four units of the last place.
    total = np.float32(abs(released) + abs(base) + abs(update))
    slack = 4 * float(np.spacing(total))
    around = math.ceil(slack / (std * float(widths.min()))) + 1
    nearest = np.rint(abs(noise) / (std * widths.astype(np.float64)))
    numbers = nearest[:, None] + np.arange(-around, around + 1)
    below = limits if at_once else np.full(LAYERS, _NUMBERS)
    layers, places = np.nonzero((numbers >= 0) & (numbers < below[:, None]))
    words = numbers[layers, places].astype(np.uint32) << 9 | layers.astype(np.uint32)
    signs = (0, 1) if abs(noise) <= slack else (int(noise < 0),)
    words = np.concatenate([words | np.uint32(sign << 8) for sign in signs]).astype(np.uint32)
    return np.asarray(words[outcomes(words, base, update, std) == released], np.uint32)
