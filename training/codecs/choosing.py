"""Choosing a peer's codec."""

from __future__ import annotations

from dpeer.exceptions import ConfigurationError
from dpeer.privacy import ClientSession, Session
from dpeer.training.algorithms import Algorithm
from dpeer.training.algorithms.facts import facts_of
from dpeer.training.codecs import Codec, Dense, Private, Quantized
from dpeer.training.robust import Robust
from dpeer.training.trainer import Trainer


def choose_codec(algorithm: Algorithm, trainer: Trainer, session: Session | None, *, steady: bool) -> Codec:
    """The algorithm's own way to send bodies, or the one that the hyperparameters and the privacy ask for.

    Args:
        algorithm: The peer's algorithm.
        trainer: The trainer, whose body and extras travel.
        session: The privacy of the peer.
        steady: Whether the peer exchanges with the same neighbors in every round.

    Raises:
        ConfigurationError: Two of the settings do not go together.
    """
    h, body, rank = trainer.hyperparameters, trainer.shared, trainer.rank
    own = algorithm.codec(trainer)
    robust = Robust.parse(h.robust)
    if facts_of(type(algorithm)).shares == "nothing":
        return own or Dense(body, rank, h.wire_dtype)
    sends = f"{algorithm.name}, which sends {algorithm.leaves}"
    quantizes = f"--quantize {h.quantize}"
    guards = None if h.max_norm is None else f"--max-norm {h.max_norm:g}"
    if robust.rule != "none":
        guards = f"--robust {h.robust}"
        if h.quantize is not None:
            raise ConfigurationError(
                f"{guards} cannot be used with {quantizes}, whose sums must keep what was rounded away: leave one of "
                "them out; --wire-dtype bfloat16 halves the bytes and goes with it"
            )
        if trainer.extras:
            raise ConfigurationError(
                f"{guards} cannot be used with {algorithm.name}, which sends more than a body "
                f"({', '.join(trainer.extras)}): what it relies on of their sums holds for weighted means alone"
            )
    if guards is not None and own is not None:
        raise ConfigurationError(
            f"{guards} cannot be used with {sends}: bodies that are not all values of the model are not compared"
        )
    if isinstance(session, ClientSession):
        if own is not None or h.quantize is not None:
            what = quantizes if own is None else f"{algorithm.name} ({algorithm.leaves})"
            raise ConfigurationError(
                f"--privacy client cannot be used with {what}: not all that leaves the peer would carry noise"
            )
        return Private(body, rank, session, trainer.seed, h.wire_dtype, robust, h.max_norm)
    if h.wire_dtype != "float32" and (own is not None or h.quantize is not None):
        what = quantizes if own is None else sends
        raise ConfigurationError(f"--wire-dtype {h.wire_dtype} cannot be used with {what}")
    if h.quantize is None:
        return own or Dense(body, rank, h.wire_dtype, robust, h.max_norm)
    if own is not None:
        raise ConfigurationError(f"{quantizes} cannot be used with {sends}")
    if trainer.extras:
        raise ConfigurationError(
            f"{quantizes} cannot be used with {algorithm.name}, which sends more than a body "
            f"({', '.join(trainer.extras)}): values of another size would share its scales"
        )
    return Quantized(body, rank, h.quantize, steady=steady, max_norm=h.max_norm)
