"""Codecs: values to bytes and back, nothing else; `dpeer.training.mixing` averages what they decode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from dpeer import plugins
from dpeer.exceptions import ConfigurationError, UnknownName, describe
from dpeer.training.codecs.base import Codec, Undecodable
from dpeer.training.codecs.contraction import Contraction
from dpeer.training.codecs.dense import Dense
from dpeer.training.codecs.masked import Masked
from dpeer.training.codecs.powersgd import PowerSGD
from dpeer.training.codecs.quantized import Quantized
from dpeer.training.codecs.sizes import Shape, compressed_bytes
from dpeer.training.codecs.topk import TopK
from dpeer.training.compress_setting import FORMS, Compression, Kind
from dpeer.training.randomness import LOCK

__all__ = [
    "CODECS",
    "PLUGIN",
    "Codec",
    "Contraction",
    "Dense",
    "Masked",
    "PowerSGD",
    "Quantized",
    "TopK",
    "Undecodable",
    "compressed_bytes",
    "find_codec",
    "identity",
    "new_codec",
]

CODECS: dict[Kind, Callable[..., Codec]] = {
    "float32": lambda start, rank, **_: Dense(start, rank),
    "bfloat16": lambda start, rank, **_: Dense(start, rank, "bfloat16"),
    "float16": lambda start, rank, **_: Dense(start, rank, "float16"),
    "int4": lambda start, rank, *, steady, **_: Quantized(start, rank, 4, steady=steady),
    "int8": lambda start, rank, *, steady, **_: Quantized(start, rank, 8, steady=steady),
    "int16": lambda start, rank, *, steady, **_: Quantized(start, rank, 16, steady=steady),
    "topk": lambda start, rank, *, asked, **_: TopK(start, rank, asked.share, asked.step),
    "powersgd": lambda start, rank, *, asked, shapes, seed, **_: PowerSGD(
        start, rank, shapes, asked.rank, asked.step, seed=seed
    ),
}
"""Every built-in codec by its kind; an algorithm may bring another (`Algorithm.codec`)."""

PLUGIN = plugins.Kind(
    "codec", "class", "CLASS", ConfigurationError, lambda thing: isinstance(thing, type) and issubclass(thing, Codec)
)


def find_codec(name: str) -> type[Codec] | None:
    """A user's class, ``path/to/file.py:CLASS`` or ``package.module:CLASS``; None for a built-in name.

    Raises:
        UnknownName: No built-in codec has that name.
        ConfigurationError: The class cannot be imported, or is no codec.
    """
    try:
        if Compression.parse(name).kind != "class":
            return None
    except ValueError as error:
        raise UnknownName("codec", name, FORMS) from error
    with LOCK, plugins.load(PLUGIN, name) as found:
        if not (isinstance(found, type) and issubclass(found, Codec)):
            raise ConfigurationError(f"codec {name!r} must be a subclass of dpeer.training.Codec")
        if missing := sorted(getattr(found, "__abstractmethods__", ())):
            raise ConfigurationError(f"codec {name!r}: {found.__name__} does not define {', '.join(missing)}")
        return found


def identity(name: str) -> dict[str, Any]:
    """The facts of a codec that peers compare.

    The first two are what peers of earlier versions say of it, with whom this one may train.
    """
    floats, bits = {"wire_dtype": "float32"}, {"quantize": None}
    if (found := find_codec(name)) is not None:  # its file may lie elsewhere
        return {**bits, **floats, "codec": found.__name__, "codec's source": plugins.source_hash(found)}
    asked = Compression.parse(name)
    if asked.kind.startswith("int"):
        return {"quantize": int(asked.kind.removeprefix("int")), **floats}
    if asked.kind in ("topk", "powersgd"):
        return {**bits, **floats, "compress": asked.text}
    return {**bits, "wire_dtype": asked.kind}


def new_codec(
    name: str, start: Tensor, rank: int, *, steady: bool, shapes: Sequence[Shape] = (), seed: int = 0
) -> Codec:
    """The codec of this name.

    Args:
        name: What `Compression.parse` reads: a built-in codec, or a user's class.
        start: The common start of all peers, shape (count,).
        rank: This peer.
        steady: Whether the same neighbors exchange in every round.
        shapes: The shapes of the parameters, in their order; without them they are one vector.
        seed: The federation's seed.

    Raises:
        ConfigurationError: The codec needs the same neighbors in every round, or the user's class cannot be made.
    """
    found = find_codec(name)
    if found is None:
        asked = Compression.parse(name)
        if asked.kind in ("topk", "powersgd") and not steady:
            raise ConfigurationError(
                f"--compress {name} needs the same neighbors in every round, who know all that was sent before: use "
                "--compress int8 where graphs change or --participation draws peers"
            )
        return CODECS[asked.kind](
            start, rank, steady=steady, asked=asked, shapes=shapes or [(start.numel(),)], seed=seed
        )
    try:
        return found(start, rank)
    except Exception as error:
        raise ConfigurationError(f"codec {name!r} cannot be made: {describe(error)}") from error
