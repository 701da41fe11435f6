"""Codecs: values to bytes and back, nothing else; `dpeer.training.mixing` averages what they decode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from dpeer import plugins
from dpeer.exceptions import ConfigurationError, UnknownName
from dpeer.training.codecs.base import Codec, Dense, Masked, Undecodable, check_size
from dpeer.training.codecs.quantized import Quantized
from dpeer.training.errors import blame
from dpeer.training.randomness import LOCK
from dpeer.training.setting_texts import BUILT_IN, is_class

__all__ = [
    "CODECS",
    "PLUGIN",
    "Codec",
    "Dense",
    "Masked",
    "Quantized",
    "Undecodable",
    "find_codec",
    "identity",
    "new_codec",
]

CODECS: dict[str, Callable[[Tensor, int], Codec]] = {
    "float32": Dense,
    "bfloat16": lambda start, rank: Dense(start, rank, "bfloat16"),
    "float16": lambda start, rank: Dense(start, rank, "float16"),
    "int4": lambda start, rank: Quantized(start, rank, 4),
    "int8": lambda start, rank: Quantized(start, rank, 8),
    "int16": lambda start, rank: Quantized(start, rank, 16),
}
"""Every built-in codec by its name; an algorithm may bring another (`Algorithm.codec`)."""

PLUGIN = plugins.Kind(
    "codec", "class", "CLASS", ConfigurationError, lambda thing: isinstance(thing, type) and issubclass(thing, Codec)
)


def find_codec(name: str) -> type[Codec] | None:
    """A user's class, ``path/to/file.py:CLASS`` or ``package.module:CLASS``; None for a built-in name.

    Raises:
        UnknownName: No built-in codec has that name.
        ConfigurationError: The class cannot be imported, or is no codec.
    """
    if name in CODECS:
        return None
    if not is_class(name):
        raise UnknownName("codec", name, BUILT_IN)
    with LOCK, plugins.load(PLUGIN, name) as found:
        if not (isinstance(found, type) and issubclass(found, Codec)):
            raise ConfigurationError(f"codec {name!r} must be a subclass of dpeer.training.Codec")
        if missing := sorted(getattr(found, "__abstractmethods__", ())):
            raise ConfigurationError(f"codec {name!r}: {found.__name__} does not define {', '.join(missing)}")
        return found


def identity(name: str) -> dict[str, Any]:
    """The facts of a codec that peers compare: of a class its own name, since its file may lie elsewhere."""
    if (found := find_codec(name)) is None:
        return {"compress": name}
    return {"compress": found.__name__, "codec's source": plugins.source_hash(found)}


def new_codec(name: str, start: Tensor, rank: int) -> Codec:
    """The codec of this name, a built-in one or a user's class, for the common start of all peers, shape (count,).

    Raises:
        ConfigurationError: The user's class cannot be made, or does not encode and decode the start.
    """
    found = find_codec(name)
    if found is None:
        return CODECS[name](start, rank)
    with blame(f"codec {found.__name__} cannot encode and decode the common start", kind=ConfigurationError):
        _try_out(found(start.clone(), rank), found.__name__, start.clone())
        return found(start, rank)


def _try_out(codec: Codec, name: str, values: Tensor) -> None:
    payload = codec.encode(values, 0)
    vectors = codec.decode(payload)
    for member, made in (("encode", payload), ("decode", vectors)):
        if not isinstance(made, list | tuple):
            raise ConfigurationError(f"codec {name}: its {member} gave a {type(made).__name__}; it must give a list")
    if (count := sum(vector.numel() for vector in vectors)) != codec.count:
        raise ConfigurationError(f"codec {name}: its decode gave {count:,} values, must be {codec.count:,}")
    if type(codec.payload_bytes) is not int:
        raise ConfigurationError(f"codec {name}: its payload_bytes must be a property that gives a whole number")
    check_size(codec, payload)
