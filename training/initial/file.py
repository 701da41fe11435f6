"""A file of weights: its hash, the shapes in it, and its tensors one by one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from dpeer.exceptions import ConfigurationError
from dpeer.training.store import Origin

_PICKLED = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
"""How files begin that torch.save writes; a safetensors file begins with the length of its header."""


class Weights:
    """An open file.

    Args:
        source: What reads it.
        sha256: Of its content, hex.

    Attributes:
        shapes: By name, the shape of each tensor.
        origin: What the file says of the records that its values were trained on.
    """

    def __init__(self, source: Any, sha256: str) -> None:
        self._source, self.sha256 = source, sha256
        self.shapes: Mapping[str, tuple[int, ...]] = {
            name: tuple(source.get_slice(name).get_shape()) for name in source.keys()  # noqa: SIM118 - no mapping
        }  # fmt: skip
        self.origin = Origin.of_file(source.metadata())

    def tensor(self, name: str) -> Tensor:
        """One tensor, in the type in which it is in the file."""
        found: Tensor = self._source.get_tensor(name)
        return found


@contextmanager
def opened(path: Path) -> Iterator[Weights]:
    """Open a safetensors file.

    Raises:
        ConfigurationError: There is none, or it is something else or damaged.
    """
    path = path.expanduser()
    try:
        if path.is_dir():
            raise ConfigurationError(f"--init-from {path}: it is a folder; name the .safetensors file in it")
        with path.open("rb") as file:
            start = file.read(4)
        if start.startswith(_PICKLED):
            raise ConfigurationError(_pickled(path))
        stat = path.stat()
        sha256 = _hash(path.resolve(), stat.st_size, stat.st_mtime_ns)
        with safe_open(path, framework="pt") as source:
            yield Weights(source, sha256)
    except OSError as error:
        raise ConfigurationError(f"--init-from {path}: {error.strerror or error}") from error
    except SafetensorError as error:
        raise ConfigurationError(
            f"--init-from {path}: it is damaged, or no safetensors file ({error}); expected one, such as "
            "model.safetensors"
        ) from error


def _pickled(path: Path) -> str:
    to = path.with_suffix(".safetensors").name
    return (
        f"--init-from {path}: it is a file of torch.save, which may run code when it is read: convert it where you "
        f"trust it, with safetensors.torch.save_file(torch.load({path.name!r}, weights_only=True), {to!r})"
    )


@lru_cache(maxsize=16)
def _hash(path: Path, size: int, changed: int) -> str:
    """SHA-256 of a file, hex; once for all peers of a process, as long as its size and time stay.

    Args:
        path: The file.
        size: Its size, and `changed` when it was changed: with others the file is another one.
        changed: See `size`.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
