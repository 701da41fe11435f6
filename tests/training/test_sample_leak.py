"""Nothing but noised sums reaches what leaves a peer: other data behind the same sums, and not a bit differs.

The sums that steps get are replaced by numbers that no data have anything to do with. Two peers that have quite
different records then do the same, as far as anybody else can see; what they send can only differ where something of
the data goes past the sums: a head without noise, a statistic, a count.
"""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch.utils.data import TensorDataset

from dpeer.exceptions import ConfigurationError
from dpeer.privacy.mechanism import ClippedSum
from dpeer.training import ALGORITHMS, TorchLearner
from dpeer.training.state.store import Origin
from tests.training.dp_learners import sampled
from tests.training.small import mix, small_task

pytestmark = pytest.mark.slow


HEADS = ("joint", "alternate", "post")
ROUNDS = 2


@pytest.fixture(autouse=True)
def sums_without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each mechanism gives the same numbers in the same order, whatever it is given."""
    made: dict[int, np.random.Generator] = {}

    def released(self: ClippedSum, total: Any, threads: int = 1) -> Any:
        generator = made.setdefault(id(self), np.random.default_rng(1))
        return generator.normal(size=total.size).astype(np.float32)

    monkeypatch.setattr(ClippedSum, "released", released)


def other_data(samples: int, seed: int) -> TensorDataset:
    rng = np.random.default_rng(seed)
    return TensorDataset(
        torch.tensor(rng.normal(seed, 3.0, size=(samples, 6)), dtype=torch.float32),
        torch.tensor(rng.integers(0, 3, samples)),
    )


def seen(learner: TorchLearner, rounds: int = ROUNDS) -> list[bytes]:
    """What a neighbor gets: the first weights, the manifest, and each round's bytes; the end of a run included."""
    found = [
        learner.about.digest.encode(),
        repr(learner.about.manifest).encode(),
        str(learner.about.payload_bytes).encode(),
    ]
    for number in range(rounds):
        learner.train(number)
        payload = learner.release(number)
        found.append(b"".join(bytes(buffer) for buffer in payload or ()))
        learner.evaluate()
        if learner.about.shares:
            mix(learner, {}, {0: 1.0})
        learner.evaluate()
    learner.fine_tune(rounds - 1)
    # A run that is continued after its end must not send what was trained at home in the end.
    learner.train(rounds)
    payload = learner.release(rounds)
    found.append(b"".join(bytes(buffer) for buffer in payload or ()))
    return found


SETTINGS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"optimizer": "adamw", "weight_decay": 0.1, "grad_clip": 1.0}, {"ascent": "same-batch"}),
    ({"momentum": 0.9, "compress": "int8", "finish": "all:1"}, {"microbatch": 7, "training_accuracy": True}),
    ({"compress": "bfloat16", "local_steps": 3, "finish": "head:1", "lr_schedule": "cosine"}, {"budget": 0.9}),
    ({"robust": "clip:1.0", "max_norm": 100.0}, {"groups": True}),
]
ALL = ("dfedmdc", "dfedsmdc", "fedper", "ditto")
"""Algorithms that are tried with all settings; the others, whose rounds are made of the same parts, with two."""


def left_out(name: str, at: int, settings: int) -> bool:
    """Whether `make test` leaves a way to `make test-all`: it takes one of the two, and one of `ALL` with all."""
    return name != "dfedsmdc" and settings != 1 + at % 4


WAYS = [
    pytest.param(name, head, settings, marks=[pytest.mark.long] if left_out(name, at, settings) else [])
    for at, (name, head) in enumerate(itertools.product(sorted(ALGORITHMS), HEADS))
    for settings in range(len(SETTINGS))
    if name in ALL or settings in (0, 1 + at % 4)
]


@pytest.mark.parametrize(("name", "head", "settings"), WAYS)
def test_what_leaves_is_the_same_whatever_the_data(name: str, head: str, settings: int, tmp_path: Path) -> None:
    hyper, more = SETTINGS[settings]
    sent: list[str | list[bytes]] = []
    more = dict(more)
    grouped, budget = more.pop("groups", False), more.pop("budget", None)
    for seed, samples in ((0, 9), (5, 14)):
        task = small_task(train=other_data(samples, seed), test=other_data(30, seed + 1))
        groups = np.arange(samples) % (4 + seed) if grouped else None
        try:
            learner = sampled(
                task, tmp_path / str(seed), name, rate=0.5, noise=20.0, units=8, head=head, groups=groups,
                budget=budget, hyper={"body_lr": 0.1, **hyper}, rounds=ROUNDS + 1, **more,
            )  # fmt: skip
        except ConfigurationError as error:
            sent.append(str(error))
        else:
            sent.append(seen(learner))
    assert sent[0] == sent[1]  # the refusal as well
    refusals = ("--dp-head", "fedrod", "dis-pfl", "--compress", "--robust", "--finish", "--grad-clip")
    assert isinstance(sent[0], list) or any(word in sent[0] for word in refusals)


@pytest.mark.parametrize(
    ("head", "finish", "private"),
    [("joint", "none", True), ("alternate", "none", True), ("post", "none", True), ("post", "head:1", False)],
)
@pytest.mark.parametrize("budget", [None, 1.2])
def test_the_model_at_home_is_as_private_as_the_notes_and_its_file_say(
    head: str, finish: str, private: bool, budget: float | None, tmp_path: Path
) -> None:
    """Also where the budget ends before the rounds do: of a private one nothing is trained from then on."""
    kept, said, origins = [], [], []
    for seed, samples in ((0, 17), (5, 24)):
        task = small_task(train=other_data(samples, seed), test=other_data(30, seed + 1))
        learner = sampled(
            task, tmp_path / str(seed), rate=0.5, noise=4.0, units=16, head=head, budget=budget,
            hyper={"finish": finish}, rounds=ROUNDS + 4,
        )  # fmt: skip
        said.append(not any("must not be given away" in line for line in learner.session.notes(10)))
        seen(learner, ROUNDS + 3)
        assert learner.session.ended is (budget is not None)
        learner.fine_tune(ROUNDS + 3)
        learner.keeping.write(tmp_path / f"{seed}.safetensors")
        kept.append(load_file(tmp_path / f"{seed}.safetensors"))
        with safe_open(tmp_path / f"{seed}.safetensors", framework="pt") as file:
            origins.append(Origin.of_file(file.metadata()))
    same = all(torch.equal(one, other) for one, other in zip(kept[0].values(), kept[1].values(), strict=True))
    assert same is private
    assert said == [private] * 2
    assert origins == [None if private else Origin.POST] * 2


def test_the_test_would_see_a_head_without_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a sum that follows from the data, what is sent does, too."""
    monkeypatch.setattr(ClippedSum, "released", lambda self, total, threads=1: total.astype(np.float32))
    sent = []
    for seed, samples in ((0, 17), (5, 24)):
        task = small_task(train=other_data(samples, seed), test=other_data(30, seed + 1))
        sent.append(seen(sampled(task, tmp_path / str(seed), rate=0.5, units=16)))
    assert sent[0][:3] == sent[1][:3]
    assert sent[0][3] != sent[1][3]
