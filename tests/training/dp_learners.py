"""Sessions of client-level DP, and learners with sample-level DP (DP-SGD)."""

from pathlib import Path
from typing import Any

from dpeer.privacy import ClientSession, Guarantee, Ledger, PeerData, PrivacyConfig, SampleTerms, Sparsifier
from dpeer.privacy.settings import PrivacySettings
from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner


def sample_terms(
    folder: Path,
    *,
    rate: float = 0.5,
    noise: float = 1.0,
    clip_norm: float = 1.0,
    units: int = 32,
    delta: float = 1e-5,
    budget: float | None = None,
    rounds: int = 3,
    resume: bool = False,
    groups: Any = None,
    head: Any = "joint",
    ascent: Any = "previous",
    microbatch: int = 64,
    trains_last: bool = False,
) -> SampleTerms:
    """What is asked of a peer's steps; the learner opens its session."""
    asked = PrivacySettings(
        privacy="sample", noise_multiplier=noise, clip_norm=clip_norm, delta=delta, records=units,
        target_epsilon=budget, privacy_unit="record" if groups is None else "group", dp_head=head,
        dp_sam=ascent, microbatch=microbatch,
    )  # fmt: skip
    data = PeerData(records=units, groups=groups)
    return SampleTerms(
        PrivacyConfig(asked, rounds=rounds, batch_size=rate * units, finish="head:1" if trains_last else "none"),
        folder,
        data,
        resume=resume,
    )


def sampled(
    task: Task,
    folder: Path,
    algorithm: Any = "dfedmdc",
    *,
    rounds: int = 3,
    rank: int = 0,
    options: Any = None,
    hyper: dict[str, Any] | None = None,
    training_accuracy: bool = False,
    **session: Any,
) -> TorchLearner:
    """A learner; what it takes besides is `sample_terms`'s."""
    h = Hyperparameters(
        **{"body_epochs": 1, "head_epochs": 1, "grad_clip": None, "finish": "none", "rounds": rounds, **(hyper or {})}
    )
    return build_learner(
        task,
        algorithm,
        h,
        rank=rank,
        seed=0,
        options=options,
        training_accuracy=training_accuracy,
        session=sample_terms(
            folder, rounds=rounds, trains_last=h.finish != "none" or algorithm == "fedbabu", **session
        ),
    )


def client(
    folder: Path,
    sigma: float = 3.0,
    clip_norm: float = 0.05,
    *,
    budget: float | None = None,
    resume: bool = False,
    sparsify: str | None = None,
) -> ClientSession:
    """A session with its ledger in a folder."""
    ledger = Ledger(folder, {}, resume=resume)
    return ClientSession(Guarantee(sigma, clip_norm, 1e-5), ledger, budget, sparsifier=Sparsifier.parse(sparsify))
