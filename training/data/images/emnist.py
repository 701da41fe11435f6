"""EMNIST (Cohen, Afshar, Tapson and van Schaik, IJCNN 2017), digits and letters in the idx files that NIST gives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpeer.training.data.files import folder
from dpeer.training.data.images.idx import image_pool, read_idx
from dpeer.training.data.pool import Data, Pool

TASK = "emnist"
SOURCE = "https://www.nist.gov/itl/products-and-services/emnist-dataset (binary format, gzip.zip)"
CLASSES: Mapping[str, int] = {"byclass": 62, "bymerge": 47, "balanced": 47, "letters": 26, "digits": 10, "mnist": 10}
"""The number of classes of each split, by its name in the files."""
_FIRST = {"letters": 1}
"""The label of the first class, where that is not 0."""


def emnist(data: Any, split: str = "byclass") -> Data:
    """Images (1, 28, 28) of a split: white ink on black, upright, classes in the order of the files' labels.

    The classes of ``byclass`` are the digits, the capitals and the small letters: 697,932 images for training and
    116,323 for testing. ``bymerge``, as large, and ``balanced`` join the small letters that look like their capitals to
    them, ``letters`` joins all.

    Args:
        data: A folder with the split's four idx files (``.gz`` or not), or the one around NIST's ``gzip`` or
            torchvision's ``EMNIST/raw``.
        split: One of `CLASSES`.

    Raises:
        TaskError: A file is missing or damaged.
    """
    holds = f"emnist-{split}-train-images-idx3-ubyte.gz ..."
    where = folder(TASK, data, holds, SOURCE, "gzip", "raw", "EMNIST/raw", "emnist/gzip", "emnist")
    train, test = (_pool(where, split, part) for part in ("train", "test"))
    return Data(train, test, CLASSES[split], pixels=True, mirrored=False)


def _pool(where: Path, split: str, part: str) -> Pool:
    name = f"emnist-{split}-{part}"
    there = [other for other in CLASSES if any(where.glob(f"emnist-{other}-train-images*"))]
    otherwise = f" (of split={split}; there is split={', '.join(there)})" if there and split not in there else ""
    images = read_idx(TASK, where, f"{name}-images", 3, SOURCE, otherwise)
    labels = read_idx(TASK, where, f"{name}-labels", 1, SOURCE, otherwise)
    # These files hold each image column by column, not row by row as the format and MNIST's files have it: read as
    # they are, characters lie on their side, mirrored. Upright ones look as those of MNIST and FEMNIST do.
    return image_pool(
        TASK, where / f"{name}-images-idx3-ubyte", images.swapaxes(1, -1), labels, CLASSES[split], _FIRST.get(split, 0)
    )
