"""Handwritten digits: real data that comes with scikit-learn.

1797 images of 8x8 pixels by 43 writers (Alpaydin and Kaynak, UCI Optical Recognition of Handwritten Digits).
"""

from __future__ import annotations

import numpy as np
import torch

from dpeer.training.data.pool import Data, Pool

_TEST_SHARE = 0.2
_POOL_SEED = 0  # the test pool is the same whatever the federation's seed, so that runs can be compared


def digits() -> Data:
    """Training and test pool (a fixed stratified fifth); images in 0..1."""
    from sklearn.datasets import load_digits  # over a second to import: only for those who use this task

    pixels, numbers = load_digits(return_X_y=True)
    images = torch.from_numpy((pixels / 16).astype(np.float32)).view(-1, 1, 8, 8)
    labels = torch.from_numpy(numbers.astype(np.int64))
    rng = np.random.default_rng(_POOL_SEED)
    test = np.zeros(len(numbers), dtype=bool)
    for digit in range(10):
        members = np.flatnonzero(numbers == digit)
        test[rng.permutation(members)[: round(_TEST_SHARE * len(members))]] = True
    chosen = torch.from_numpy(test)
    train, rest = (Pool(images[rows], labels[rows]) for rows in (~chosen, chosen))
    return Data(train, rest, classes=10, mirrored=False, background=0.0)
