"""Helpers of data set readers: find a folder or file, read .npz arrays and images, and report damage in one line."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpeer.cores import own_cores
from dpeer.exceptions import TaskError, describe
from dpeer.training.errors import blame

if TYPE_CHECKING:
    from PIL.Image import Image

_LISTED = 10
_PACKED = (".zip", ".tar", ".tgz", ".gz", ".bz2")


@dataclass(frozen=True)
class Source:
    """The files of a task's published data set, and the place where people get them.

    Every error is a TaskError of one line, which names the task and the file, or the place.
    """

    task: str
    place: str

    def folder(self, data: str | None, holds: str, *places: str) -> Path:
        """The folder of the data: one of the `places` in ``--task-option data=``, or that folder itself."""
        if not data:
            asked = f"--task-option data=DIR, the folder that holds {holds}; from {self.place}"
            raise TaskError(f"task {self.task!r} needs {asked}")
        path = Path(data).expanduser()
        for place in places:
            if (path / place).is_dir():
                return path / place
        if path.is_dir():
            return path
        if path.is_file() and path.suffix in _PACKED:
            raise TaskError(
                f"task {self.task!r}: data = {data!r} is not a folder: unpack it and give the folder around {holds}"
            )
        raise TaskError(
            f"task {self.task!r}: data = {data!r} is not a folder; expected one that holds {holds}, from {self.place}"
        )

    def need(self, path: Path, where: str = "") -> Path:
        """The path of a file that must exist; `where` says where in the source it is."""
        if not path.is_file():
            raise TaskError(
                f"task {self.task!r}: expected the file {path.name} in {path.parent}; from {self.place}{where}"
            )
        return path

    def reading(self, path: Path) -> AbstractContextManager[None]:
        """A context in which every error of another library becomes a TaskError."""
        return blame(f"task {self.task!r}: {path} cannot be read", lambda: f"get it anew from {self.place}")

    def arrays(self, path: Path, names: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, NDArray[Any]]:
        """Arrays of an .npz file, by name: those that it must have, and that it may have; others are not read."""
        with self.reading(path), np.load(path, allow_pickle=False) as found:
            there = ", ".join(found.files[:_LISTED]) + (", ..." if len(found.files) > _LISTED else "")
            self.check(path, {*names} <= {*found.files}, f"arrays {', '.join(names)}; it has {there or 'none'}")
            return {name: found[name] for name in (*names, *optional) if name in found.files}

    def check(self, path: Path, fits: bool, expected: str) -> None:
        """Refuse content of another shape."""
        if not fits:
            raise TaskError(f"task {self.task!r}: {path} does not hold what was expected: {expected}")


def whole(values: Any) -> NDArray[np.int64]:
    """Class numbers as int64; TypeError where they are not whole numbers."""
    array = np.asarray(values)
    return array.astype(np.int64, casting="same_kind" if array.size else "unsafe")  # an empty list has floats


_AT_ONCE = 256  # images a thread reads before it asks for more: 100,000 tasks of one would take memory


class Images(NamedTuple):
    """Images of one size."""

    pixels: Tensor
    """uint8, shape (images, channels, side, side)."""
    remarks: tuple[str, ...]
    """A sentence on those with transparent pixels; empty without one."""


def read_images(task: str, paths: Sequence[Path], channels: int, side: int, *, resize: bool) -> Images:
    """Decode image files, in threads: as RGB (3 channels; grey images get them, too), or as grey (1).

    With `resize` other sizes are scaled to `side` (antialiased; what is not square is distorted), else refused.

    Raises:
        TaskError: An image is damaged or does not fit, or Pillow is missing.
    """
    try:
        import PIL.Image  # noqa: F401
    except ImportError as error:
        raise TaskError(f"task {task!r} reads images with Pillow: pip install 'dpeer[images]'") from error
    found = np.empty((len(paths), channels, side, side), np.uint8)
    transparent = np.zeros(len(paths), bool)

    def some(start: int) -> None:
        for number, path in enumerate(paths[start : start + _AT_ONCE], start):
            try:
                found[number], transparent[number] = _image(path, channels, side, resize)
            except Exception as error:
                raise TaskError(f"task {task!r}: the image {path} cannot be read: {describe(error)}") from error

    with warnings.catch_warnings(), ThreadPoolExecutor(len(own_cores())) as pool:
        warnings.simplefilter("ignore")  # Pillow's, of damage in EXIF and of images that it takes for an attack
        [*pool.map(some, range(0, len(paths), _AT_ONCE))]
    pixels = torch.from_numpy(found)
    if not transparent.any():
        return Images(pixels, ())
    count, first = transparent.sum(), paths[int(transparent.argmax())]
    line = f"{count} of {len(paths)} images have transparent pixels, laid on white (such as {first.name})"
    return Images(pixels, (line,))


_ORIENTATION = 0x0112
"""Its number in EXIF."""


def _image(path: Path, channels: int, side: int, resize: bool) -> tuple[NDArray[np.uint8], bool]:
    """An image's pixels, and whether some of them were transparent."""
    from PIL import Image

    try:
        file = Image.open(path)
    except Image.DecompressionBombError as error:
        raise ValueError(f"it is larger than {2 * (Image.MAX_IMAGE_PIXELS or 0)} pixels: scale or tile it") from error
    with file as opened:
        frames = getattr(opened, "n_frames", 1)
        if frames > 1 and opened.format != "MPO":  # photographs of phones have a preview behind the image
            raise ValueError(f"it has {frames} frames; save the one that counts")
        if opened.mode.startswith(("I", "F")):  # Pillow would cut what is above 255
            raise ValueError("it has more than 8 bits a pixel; save it with 8")
        image = _upright(opened)
        if image.mode == "P" or image.mode.endswith("A") or "transparency" in image.info:
            image = image.convert("RGBA")
        # The colors that transparent pixels hide differ by the program that wrote them.
        transparent = image.mode == "RGBA" and image.getchannel("A").getextrema() != (255, 255)
        if transparent:
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
        image = image.convert("RGB" if channels == 3 else "L")
    if image.size != (side, side):
        if not resize:
            raise ValueError(f"it has {image.width}x{image.height} pixels, not {side}x{side}")
        image = image.resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(image).reshape(side, side, channels).transpose(2, 0, 1), transparent


def _upright(opened: Image) -> Image:
    """The image as EXIF says it is held; nothing else is read from there, for other entries are often damaged."""
    from PIL.Image import Transpose

    opened.load()
    try:
        orientation = opened.getexif().get(_ORIENTATION)
    except (SyntaxError, ValueError, OSError, struct.error):  # no program would show the image in another way
        orientation = None
    ways = {
        2: Transpose.FLIP_LEFT_RIGHT, 3: Transpose.ROTATE_180, 4: Transpose.FLIP_TOP_BOTTOM, 5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270, 7: Transpose.TRANSVERSE, 8: Transpose.ROTATE_90,
    }  # fmt: skip
    way = ways.get(orientation or 0)
    return opened if way is None else opened.transpose(way)
