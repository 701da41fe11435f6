"""`dpeer privacy audit --privacy sample`: the worst case through the product's own learner, and steps with defects."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from dpeer.exceptions import TaskError
from dpeer.privacy import Charge, Ledger, SampleGuarantee, mechanism, noise, sampling
from dpeer.privacy.mechanism import ClippedSum
from dpeer.privacy.randomness import KEY_BYTES, Keystream
from dpeer.privacy.sample_level import Head, phases_of
from dpeer.privacy.sampling import Poisson
from dpeer.training.dpsgd.gradient import GroupSums, PrivateGradient
from dpeer.training.dpsgd.gradient_factors import ExampleGradients
from dpeer.training.dpsgd.poisson_batches import PoissonBatches
from dpeer.training.dpsgd.sampled_releases import SampledReleases
from dpeer.training.dpsgd.trainer import DPSGDTrainer
from dpeer.training.gradients import plain
from dpeer.training.trainer import Trainer
from tests.federation.audit_suite import by_hand, sample_attacks
from tests.federation.audit_suite.disclosing_peer import Setting, view
from tests.federation.audit_suite.echo import BODY
from tests.federation.audit_suite.records import FAR, WIDTH, Records, canary, others
from tests.federation.audit_suite.sample_attacks import examine
from tests.federation.defects import Constant, noise_changed, scaled, spared

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread", "fixed_private_bits")]

ROUNDS = 2
CLAIMED = SampleGuarantee(0.25, 1.0, 0.7, 1e-5, phases_of(4))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit of a second, of fewer steps and lengths."""
    for name, value in (("EMPTY", 100), ("BY_HAND", 4), ("DRAWN", 48), ("LIFE", 4)):
        monkeypatch.setattr(sample_attacks, name, value)
    monkeypatch.setattr(by_hand, "LENGTHS", (0.5, 1.1))
    monkeypatch.setattr(by_hand, "BAD", (float("nan"),))
    sides = by_hand.sides()[:2]
    monkeypatch.setattr(by_hand, "sides", lambda: sides)


def guarantee(head: Head) -> SampleGuarantee:
    return SampleGuarantee(0.25, 1.0, 0.7, 1e-5, phases_of(4, 2 if head == "alternate" else 0), head)


def along(noise_multiplier: float, rate: float, there: bool, count: int) -> np.ndarray:
    """What a neighbor sees along the canary's gradient in so many steps, shape (count,)."""
    setting = Setting(SampleGuarantee(rate, noise_multiplier, 1.0, 1e-5, phases_of(count)))
    inputs = [others(1.0), *([FAR * canary()[None]] if there else [])]
    return view(setting, Records(np.vstack(inputs)), 1).sums[0] @ canary()


@pytest.mark.long
def test_the_attack_is_as_strong_as_the_claim_says() -> None:
    """Sums along the canary are what the claim is computed from: noise alone, or moved by one clip norm at the rate."""
    without, within = (along(2.0, 0.5, there, 600) for there in (False, True))
    assert without.mean() == pytest.approx(0.0, abs=5 * 2 / 600**0.5)
    assert within.mean() == pytest.approx(0.5, abs=5 * (4.25 / 600) ** 0.5)
    assert without.var() == pytest.approx(4.0, rel=5 * (2 / 600) ** 0.5)
    assert within.var() == pytest.approx(4.25, rel=5 * (2 / 600) ** 0.5)
    exact = along(1e-6, 0.5, there=True, count=80)
    assert np.abs(exact - np.rint(exact)).max() < 2e-3
    assert set(np.rint(exact).ravel()) == {0.0, 1.0}


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    "head", ["alternate", *(pytest.param(head, marks=pytest.mark.long) for head in ("joint", "frozen", "post"))]
)
def test_nothing_is_wrong_with_the_steps_as_they_are(head: Head) -> None:
    found = examine(guarantee(head), ROUNDS, 20)
    assert [check for check in found if not check.held] == []


# Defects. -------------------------------------------------------------------------------------------------------


def none_for_empty_batches(drawn: np.ndarray, plain: np.ndarray, here: slice) -> np.ndarray:
    return drawn * bool(plain.any())


def on_the_body_alone(drawn: np.ndarray, plain: np.ndarray, here: slice) -> np.ndarray:
    return drawn * (np.arange(here.start, here.stop) < BODY) if len(drawn) == WIDTH else drawn


class Numbered(Keystream):
    """The noise of each peer's first step is that of another one's, as from a public seed and the step's number."""

    made = 0

    def __init__(self) -> None:
        super().__init__()
        self._key = bytearray((Numbered.made % 40).to_bytes(KEY_BYTES, "big"))
        Numbered.made += 1


OF, DRAW, POISSON = PoissonBatches.of, Poisson.draw, Poisson.__init__
GRADIENT = PrivateGradient.__call__
CHARGE, FIT, FACTORS = Ledger.charge, DPSGDTrainer.fit, ClippedSum.factors


def without_the_empty(batches: PoissonBatches, *arguments: Any) -> Iterator[Any]:
    return (batch for batch in OF(batches, *arguments) if batch.size)


def drawn_privately() -> np.random.Generator:
    return np.random.default_rng(Keystream().words(0, 4))


def never_empty(poisson: Poisson) -> Any:
    while not len(found := DRAW(poisson)):
        pass
    return found


def of_a_fixed_size(poisson: Poisson) -> Any:
    size = max(1, round(poisson.rate * poisson.units))
    return np.sort(drawn_privately().permutation(poisson.units)[:size])


def shuffled(poisson: Poisson) -> Any:
    """Passes over the data, in parts of about the right size, which vary."""
    left = getattr(poisson, "left", None)
    if left is None or not len(left):
        parts = round(1 / poisson.rate)
        whose = drawn_privately().integers(parts, size=poisson.units)
        left = [np.flatnonzero(whose == part) for part in range(parts)]
    poisson.left = left[1:]
    return left[0]


def at_twice_the_rate(poisson: Poisson, units: int, rate: float) -> None:
    POISSON(poisson, units, rate if rate == 1.0 else min(0.99, 2 * rate))
    poisson.rate = rate


def by_the_actual_batch(rule: PrivateGradient, peer: Any, part: Any, batch: Any) -> Any:
    loss = GRADIENT(rule, peer, part, batch)
    part.grad.mul_(rule._mechanism.expected / max(1, batch.size))
    return loss


def by_the_number_of_records(trainer: DPSGDTrainer, planned: Any) -> None:
    prepare = trainer.session.prepare

    def counting(phases: Any) -> None:
        prepare(phases)
        trainer.session.guarantee = replace(trainer.session.guarantee, units=trainer.figures.units)

    trainer.session.prepare = counting
    PREPARE(trainer, planned)


PREPARE = DPSGDTrainer.prepare


def clipped_by_layer(rule: PrivateGradient, found: Any, count: int, total: Any) -> None:
    for place, part in found.parts:
        factors = torch.zeros(1, found.examples, dtype=torch.float64)
        factors[0, :count] = rule._factors(part.squares().double().sqrt()[:count])
        part.drop(factors[0] == 0.0)
        total[place] += part.sums(factors)[0]


def clipped_as_a_mean(rule: PrivateGradient, found: Any, count: int, total: Any) -> None:
    shares = (torch.arange(found.examples) < count)[None].double() / count
    mean = found.sums(shares)[0].nan_to_num(0.0)
    total += count * mean * rule._factors(mean.norm()[None])


def records_of_groups_by_themselves(groups: GroupSums, found: Any, count: int, factors: Any) -> None:
    weights = torch.zeros(1, found.examples, dtype=torch.float64)
    weights[0, :count] = factors(found.norms()[:count])
    groups._total += found.sums(weights)[0]


def trained_before(trainer: DPSGDTrainer, part: Any, **how: Any) -> None:
    """The head is trained as without privacy, and then as it should be."""
    if part is trainer.head and not trainer._free and trainer._planned is None:
        with trainer.freely():
            Trainer.fit(trainer, part, epochs=1, lr=how["lr"], gradient=plain)
    FIT(trainer, part, **how)


def trained_though_frozen(trainer: DPSGDTrainer, **how: Any) -> None:
    if trainer._planned is None:
        with trainer.freely():
            Trainer.fit(trainer, trainer.head, epochs=1, lr=how["lr"], gradient=plain)


def every_other(ledger: Ledger, number: int, charge: Charge) -> None:
    if number % 2 == 0:
        CHARGE(ledger, number, charge)


def at_half_the_rate(mechanism: SampleGuarantee, steps: int, looks: int = 1) -> Charge:
    return Charge(mechanism.sampling_rate / 2, mechanism.noise_multiplier / looks**0.5, steps)


def whatever_the_looks(mechanism: SampleGuarantee, steps: int, looks: int = 1) -> Charge:
    return Charge(mechanism.sampling_rate, mechanism.noise_multiplier, steps)


def in_float32(mechanism: ClippedSum, total: np.ndarray, threads: int = 1) -> np.ndarray:
    drawn = drawn_privately().standard_normal(total.size, dtype=np.float32) * np.float32(mechanism.noise_std)
    return ((total.astype(np.float32) + drawn) / np.float32(mechanism.expected)).astype(np.float32)


DEFECTS: dict[str, tuple[tuple[Any, str, Any], str]] = {
    "half the noise": ((mechanism, "noised", scaled(0.5)), "noise by coordinate"),
    "one coordinate without noise": ((mechanism, "noised", noise_changed(spared)), "empty batches"),
    "no noise for empty batches": ((mechanism, "noised", noise_changed(none_for_empty_batches)), "empty batches"),
    "noise on the body alone": ((mechanism, "noised", noise_changed(on_the_body_alone)), "noise by coordinate"),
    "a seed from the number of the step": ((noise, "Keystream", Numbered), "fresh noise"),
    "noise in float32": ((ClippedSum, "released", in_float32), "grid"),
    "empty batches are left out": ((PoissonBatches, "of", without_the_empty), "empty batches"),
    "batches are never empty": ((Poisson, "draw", never_empty), "batch sizes"),
    "batches of a fixed size": ((Poisson, "draw", of_a_fixed_size), "batch sizes"),
    "shuffled passes": ((Poisson, "draw", shuffled), "passes"),
    "twice the sampling rate": ((Poisson, "__init__", at_twice_the_rate), "sampling rate"),
    "draws from a public seed": ((sampling, "Keystream", Constant), "fresh draws"),
    "division by the actual batch": ((PrivateGradient, "__call__", by_the_actual_batch), "by hand, joint"),
    "division by the number of records": ((DPSGDTrainer, "prepare", by_the_number_of_records), "by hand, joint"),
    "a clip norm for each layer": ((PrivateGradient, "_add_examples", clipped_by_layer), "by hand, joint"),
    "clipping of the batch's mean": ((PrivateGradient, "_add_examples", clipped_as_a_mean), "by hand, joint"),
    "clipping at 1.1": (
        (ClippedSum, "factors", lambda self, norms: FACTORS(self, norms / 1.1)), "clipping, without noise",
    ),
    "clipping of records where groups are protected": (
        (GroupSums, "add", records_of_groups_by_themselves), "by hand, groups",
    ),
    "a head trained without noise before the body": ((DPSGDTrainer, "fit", trained_before), "by hand, joint"),
    "a frozen head that is trained": ((DPSGDTrainer, "_fit_head_at_home", trained_though_frozen), "by hand, frozen"),
    "a body after the end": ((SampledReleases, "before", lambda self: None), "after the end"),
    "steps that are not charged": ((Ledger, "charge", every_other), "ledger"),
    "a ledger with another rate": ((SampleGuarantee, "charge", at_half_the_rate), "ledger"),
    "two gradients of a batch charged as one": (
        (SampleGuarantee, "charge", whatever_the_looks), "SAM on the same batch",
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.usefixtures("few")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of gradients that are not finite
@pytest.mark.parametrize("defect", DEFECTS)
def test_steps_with_a_defect_are_refuted(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (where, name, instead), check = DEFECTS[defect]
    monkeypatch.setattr(where, name, instead)
    found = examine(CLAIMED, ROUNDS, 12)
    assert check in {one.name for one in found if not one.held}, found


@pytest.mark.long
@pytest.mark.usefixtures("few")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_what_is_not_finite_cannot_be_released_even_by_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExampleGradients, "drop", lambda self, examples: None)
    with pytest.raises(TaskError):
        examine(CLAIMED, ROUNDS, 12)


@pytest.mark.usefixtures("few")
def test_a_head_without_noise_is_found_where_it_has_steps_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    silenced = noise_changed(lambda drawn, plain, here: drawn * (len(drawn) != WIDTH - BODY))
    monkeypatch.setattr(mechanism, "noised", silenced)
    found = examine(guarantee("alternate"), ROUNDS, 12)
    assert {"noise by coordinate, head", "normal noise, head"} <= {one.name for one in found if not one.held}
    assert all(one.held for one in found if one.name.endswith(", body"))
