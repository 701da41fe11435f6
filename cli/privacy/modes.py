"""The options of commands that know both levels of privacy, and which belong to which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import click
from click.core import ParameterSource

from dpeer.cli.privacy.options import DELTA, F, count, flag, number, privacy_options, require
from dpeer.exceptions import ConfigurationError
from dpeer.privacy import SampleGuarantee, sample
from dpeer.privacy.accounting import ACCOUNTANTS, Accountant
from dpeer.privacy.groups import of_group
from dpeer.privacy.guarantee import check_delta, default_delta
from dpeer.privacy.sample import Head

EXAMPLES = {
    "noise_multiplier": "1", "target_epsilon": "8", "sampling_rate": "0.05", "steps": "20", "rounds": "20",
    "records": "2000", "size": "8", "parameters": "60000",
}  # fmt: skip

_SAMPLE = ("sampling_rate", "steps", "dp_head", "head_steps", "records")

_OPTIONS = {
    "privacy": click.option(
        "--privacy", type=click.Choice(["client", "sample"]), default="client", show_default=True,
        help="What is protected; client: a peer's whole data set; sample: one record.",
    ),
    "sampling_rate": click.option(
        "--sampling-rate", type=number("--sampling-rate", "0.05", 1e-9, 1.0), metavar="Q",
        help="The probability with which each record is in a step's batch; for --privacy sample.",
    ),
    "steps": click.option(
        "--steps", type=count("--steps", 20), metavar="K",
        help="Local steps of a peer in a round, with --dp-head alternate those of the body; for --privacy sample.",
    ),
    "dp_head": click.option(
        "--dp-head", type=click.Choice(get_args(Head)), default="joint", show_default=True,
        help="joint: one noise over body and head; alternate: steps of the head, then of the body; frozen: the head "
        "is not trained; post: it is trained when nothing leaves the peer any more; for --privacy sample.",
    ),
    "head_steps": click.option(
        "--head-steps", type=count("--head-steps", 5), metavar="K",
        help="Local steps of the head in a round; for --dp-head alternate.",
    ),
    "records": click.option(
        "--records", type=count("--records", 2000), metavar="N",
        help="Records of a peer, a public or rounded number: for the batch size, and delta's default and limit; for "
        "--privacy sample.",
    ),
    "patient_records": click.option(
        "--patient-records", type=count("--patient-records", 10), metavar="M",
        help="Print the epsilon of a patient (or of any group) with M records, too; for --privacy sample.",
    ),
    "accountant": click.option(
        "--accountant", type=click.Choice(ACCOUNTANTS), default="exact", show_default="exact; pld for sample",
        help="exact: closed form; pld: also knows sampling; rdp: the same, an upper bound.",
    ),
}  # fmt: skip

_OF_SAMPLE = (*_SAMPLE, "patient_records")
_CLIENT = ("dp_adversary", "dp_adjacency", "dp_min_honest", "size")


def patient_option(command: F) -> F:
    """The option of commands that know the epsilon of a patient with several records."""
    return _OPTIONS["patient_records"](command)


def options_of_both(*left_out: str) -> Callable[[F], F]:
    """The options of the group and those of sample level, but these."""

    def decorate(command: F) -> F:
        for name in reversed(_SAMPLE):
            command = command if name in left_out else _OPTIONS[name](command)
        command = command if "accountant" in left_out else _OPTIONS["accountant"](command)
        command = privacy_options("privacy", "accountant", *left_out)(command)
        return _OPTIONS["privacy"](command)

    return decorate


def of_mode(options: dict[str, Any], *both: str) -> dict[str, Any]:
    """The values of the options that belong to the level of privacy that was asked for.

    Args:
        options: All values of the command that is running.
        both: Options that this command has for both levels.

    Raises:
        ConfigurationError: One was given that belongs to the other level only.
    """
    private = options["privacy"]
    others = [name for name in (_OF_SAMPLE if private == "client" else _CLIENT) if name in options and name not in both]
    for name in filter(_typed, others):
        said = f"{flag(name)} {options[name]}"
        if private == "client":
            raise ConfigurationError(f"{said}: it belongs to --privacy sample, which protects one record: say so too")
        if name == "size":
            raise ConfigurationError(
                f"{said}: with --privacy sample records are protected, not peers: say how many a peer has, for example "
                "--records 2000"
            )
        raise ConfigurationError(
            f"{said}: it belongs to --privacy client; one record is protected against everyone, by whether it is there "
            "or not: leave it out"
        )
    kept = {name: value for name, value in options.items() if name not in others}
    if private == "sample" and not _typed("accountant"):
        kept["accountant"] = "pld"
    return kept


def _typed(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is not ParameterSource.DEFAULT


@dataclass(frozen=True)
class SampleAsked:
    """The values of the options at sample level as they were typed."""

    privacy: str
    accountant: Accountant
    dp_head: Head
    clip_norm: float
    sampling_rate: float | None = None
    steps: int | None = None
    head_steps: int | None = None
    records: int | None = None
    patient_records: int | None = None
    noise_multiplier: float | None = None
    target_epsilon: float | None = None
    rounds: int | None = None
    delta: float | None = None
    size: int | None = None
    parameters: int | None = None

    def require(self, command: str, *names: str) -> None:
        """Refuse a missing value of those that every command needs, or of these.

        Args:
            command: Its name.
            names: What else must be given; `a|b` means one of the two or both.

        Raises:
            ConfigurationError: Something is missing.
        """
        require(self, f"{command} --privacy sample", EXAMPLES, *names, "sampling_rate", "steps", "rounds")

    @property
    def planned(self) -> int:
        """The number of planned rounds."""
        assert self.rounds is not None
        return self.rounds

    def warnings(self) -> list[str]:
        """Warnings about the delta.

        Raises:
            ConfigurationError: It is too large to mean anything.
        """
        warning = None if self.records is None else check_delta(self._delta, self.records, "record")
        return [] if warning is None else [warning]

    @property
    def _delta(self) -> float:
        if self.delta is not None:
            return self.delta
        return DELTA if self.records is None else default_delta(self.records)

    def patient_epsilon(self, guarantee: SampleGuarantee) -> float:
        """Epsilon of a patient with as many records as were asked for, after the planned rounds.

        Raises:
            ConfigurationError: The accountant cannot compute it.
        """
        assert self.patient_records is not None
        return of_group(guarantee.charges(self.planned), guarantee.delta, self.patient_records, self.accountant)

    def guarantee(self, target_epsilon: float | None = None) -> SampleGuarantee:
        """The guarantee with the noise multiplier that was given, else with the least noise for the target epsilon.

        Args:
            target_epsilon: Another target than the one that was given; the noise then follows from it.

        Raises:
            ConfigurationError: The options contradict each other.
        """
        assert self.sampling_rate is not None
        assert self.steps is not None
        multiplier = 1.0 if self.noise_multiplier is None else self.noise_multiplier
        asked = SampleGuarantee(
            self.sampling_rate, multiplier, self.clip_norm, self._delta, self.steps, self.dp_head, self.head_steps or 0
        )
        target = target_epsilon
        if target is None and self.noise_multiplier is None:
            target = self.target_epsilon
        return asked if target is None else sample.calibrated(asked, target, self.planned, self.accountant)
