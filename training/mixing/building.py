"""Builds a peer's gossip step from its algorithm, its settings and its privacy."""

from __future__ import annotations

from dpeer.exceptions import ConfigurationError
from dpeer.privacy import ClientSession, Session
from dpeer.training.algorithms import Algorithm
from dpeer.training.algorithms.base import facts_of
from dpeer.training.codecs import Codec, Dense, Masked, Quantized, new_codec
from dpeer.training.mixing.gossip import Gossip
from dpeer.training.mixing.guard import Guard
from dpeer.training.mixing.private import PrivateGossip
from dpeer.training.mixing.robust_setting import Robust
from dpeer.training.mixing.sparse import SparseGossip
from dpeer.training.settings import Hyperparameters
from dpeer.training.trainer import Trainer


def build_gossip(algorithm: Algorithm, trainer: Trainer, session: Session | None) -> Gossip:
    """The gossip step of a peer.

    Args:
        algorithm: The peer's algorithm, which may bring a codec of its own.
        trainer: The trainer, whose body and extras travel.
        session: The privacy of the peer.

    Raises:
        ConfigurationError: Two of the settings do not go together.
    """
    h, body, rank = trainer.hyperparameters, trainer.shared, trainer.rank
    own = algorithm.codec(trainer)
    guard = Guard(rank, Robust.parse(h.robust), h.max_norm)
    if facts_of(type(algorithm)).shares == "nothing":
        return Gossip(body, rank, own or Dense(body.data, rank), guard)
    flag = _asked(h)
    codec = own
    if codec is None:
        codec = new_codec(h.compress, body.data, rank)
    _check(algorithm, trainer, codec, own, flag, private=isinstance(session, ClientSession))
    if isinstance(session, ClientSession):
        assert isinstance(codec, Dense)
        return PrivateGossip(body, rank, codec, guard, session, trainer.seed)
    return (SparseGossip if isinstance(codec, Masked) else Gossip)(body, rank, codec, guard)


def _asked(h: Hyperparameters) -> str | None:
    """The flag that asks for the codec; None for the default."""
    return None if h.compress == "float32" else f"--compress {h.compress}"


def _furthest(h: Hyperparameters) -> str | None:
    return None if h.max_norm is None else f"--max-norm {h.max_norm:g}"


def _check(
    algorithm: Algorithm, trainer: Trainer, codec: Codec, own: Codec | None, flag: str | None, *, private: bool
) -> None:
    h, extras = trainer.hyperparameters, ", ".join(trainer.extras)
    sends = f"{algorithm.name}, which sends {algorithm.leaves}"
    more = f"{algorithm.name}, which sends more than a body ({extras})"
    guards = _furthest(h)
    if h.robust != "none":
        guards = f"--robust {h.robust}"
        if codec.error_feedback:
            raise ConfigurationError(
                f"{guards} cannot be used with {flag}, whose sums must keep what was rounded away: leave one of "
                "them out; --compress bfloat16 halves the bytes and goes with it"
            )
        if extras:
            raise ConfigurationError(
                f"{guards} cannot be used with {more}: what it relies on of their sums holds for weighted means alone"
            )
    if guards is not None and own is not None:
        raise ConfigurationError(
            f"{guards} cannot be used with {sends}: bodies that are not all values of the model are not compared"
        )
    if private and (own is not None or not isinstance(codec, Dense)):
        what = flag if own is None else f"{algorithm.name} ({algorithm.leaves})"
        raise ConfigurationError(
            f"--privacy client cannot be used with {what}: not all that leaves the peer would carry noise"
        )
    if own is not None and flag is not None:
        raise ConfigurationError(f"{flag} cannot be used with {sends}")
    if isinstance(codec, Quantized) and extras:
        raise ConfigurationError(f"{flag} cannot be used with {more}: values of another size would share its scales")
