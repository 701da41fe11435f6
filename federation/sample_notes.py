"""What a user is told about privacy at sample level before a peer starts."""

from __future__ import annotations

from dpeer.exceptions import ConfigurationError
from dpeer.federation.sample_protection import check_units
from dpeer.federation.settings import Settings
from dpeer.privacy import planning
from dpeer.privacy.groups import of_group
from dpeer.privacy.sample import noise_ratio
from dpeer.privacy.step_protection import StepProtection
from dpeer.privacy.steps import charges
from dpeer.results.costs import cost

_MANY = 10
"""Records of the patient that is taken as an example."""

_GROUPS = "--privacy-unit group protects all records of a patient together"
_ADVICE = (
    "use fewer trained parameters (a small body on a frozen public one, --dp-head frozen), fewer rounds, or larger "
    "batches in as many steps (--sampling-rate together with --local-steps)"
)
_HEADS = {
    "joint": "the head is trained in the same steps as the body and is as private as it",
    "alternate": "the head has steps of its own, which are charged too, and is as private as the body",
    "frozen": "the head stays as it was initialised",
    "post": "the head stays as it was initialised until no message leaves this peer any more; then it is trained at "
    "home without noise, so model.safetensors must not be given away",
}


def sample_notes(protection: StepProtection, settings: Settings, parameters: int, units: int) -> list[str]:
    """Notes to the user at the start.

    Args:
        protection: The peer's.
        settings: As this rank uses them.
        parameters: The most parameters that are trained together.
        units: How many records or groups the peer has.
    """
    m, rounds = protection.mechanism, protection.rounds
    a_round = sum(phase.steps for phase in protection.phases)
    steps = protection.ledger.steps + a_round * rounds
    promised = protection.epsilon(rounds)
    lines = [
        f"privacy of {m.words}: {cost({'epsilon': promised})} at delta {m.delta:.3g} after {steps:,} steps "
        f"({a_round:,} a round, noise multiplier {m.noise_multiplier:.10g}, clip norm {m.clip_norm:g}, sampling rate "
        f"{m.sampling_rate:.4g}, about {m.units:,} {m.unit}s)",
        *_of_a_patient(protection, rounds),
        f"--dp-head {m.head}: {_HEADS[m.head]}",
    ]
    if protection.ledger.earlier:
        lines.append(_earlier(protection))
    if protection.ledger.not_new:
        lines.append(
            "WARNING: --new-data, but earlier runs in this folder have used these very data (their SHA-256 is the "
            "same): what they have cost is not counted, and what is promised here is too little"
        )
    if protection.ended:
        lines.append("the budget has ended: no step is taken any more, and the last body is sent again")
    elif rounds < protection.planned and protection.budget is not None:
        more = "more " if protection.ledger.steps else ""
        lines.append(
            f"the budget of epsilon {protection.budget:g} allows {rounds:,} {more}rounds: from then on the last body "
            "is sent again" + (", and the head goes on training at home" if m.head == "post" else "")
        )
    if warning := check_units(settings, units):
        lines.append(warning)
    if settings.records is None and settings.algorithm != "local":
        lines.append(
            f"--records is not given, so N is this peer's own number of {m.unit}s, rounded to {m.units:,}: where peers "
            "have different numbers, the smallest adds most noise to what all mix; agree on one, about the mean"
        )
    # A step moves the model by the mean of clipped gradients, so by at most C, as a release does at client level.
    ratio = noise_ratio(m, parameters, m.units)
    lines.append(
        f"the noise of a step is {ratio:,.4g} times as long as the longest mean of a batch's clipped gradients "
        f"({parameters:,} parameters, {m.sampling_rate * m.units:,.4g} {m.unit}s a batch)"
    )
    if planning.drowning(ratio, settings.size, a_round * rounds) > 1:
        lines.append(f"training cannot survive this noise: {_ADVICE}")
    return lines


def way_notes(one_by_one: bool) -> list[str]:
    """What to say about the time that gradients take.

    Args:
        one_by_one: Whether each record is computed by itself because of the task's model or loss.
    """
    if not one_by_one:
        return []
    return [
        "each record's gradient is computed by itself, which takes about three times as long: of this model's or "
        "loss's code it is not known that records stay apart (models made of torch's own modules are computed "
        "together; Task(vmap=True) says it of yours, see docs/tasks.md)"
    ]


def _of_a_patient(protection: StepProtection, rounds: int) -> list[str]:
    """What somebody has who has several records, in words; nothing where that is not counted."""
    m, many = protection.mechanism, _MANY
    if m.unit == "group":
        return ["a patient, or whoever a group is, is protected by this however many records the group has"]
    own = (*protection.ledger.charges, *charges(m, protection.phases, rounds))
    try:
        epsilon = of_group(own, m.delta, many)
    except ConfigurationError:
        return [f"a patient with several records is protected less: {_GROUPS}"]
    return [f"a patient with {many} of the records has epsilon {epsilon:.4g} in this run: {_GROUPS}"]


def _earlier(protection: StepProtection) -> str:
    """A note on what earlier runs in the same folder have spent."""
    spent = protection.spent()
    if spent["released_without_noise"]:
        return (
            "WARNING: earlier runs in this folder have released bodies without noise that protects these records, so "
            "nothing is promised about them; if this run's data are others, start it with --overwrite --new-data"
        )
    return (
        f"earlier runs in this folder charged {spent['earlier_steps']:,} steps and made {spent['earlier_releases']:,} "
        "releases, which are counted in; if this run's data are others, start it with --overwrite --new-data"
    )
