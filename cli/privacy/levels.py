"""Options of the `dpeer privacy` commands by level (client, sample), and refusing those of the other level."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click
from click.core import ParameterSource

from dpeer.cli.click_from_setting import F, flag, stated
from dpeer.cli.privacy.options import EXAMPLES as OF_CLIENT
from dpeer.cli.privacy.options import count, number, privacy_options, require
from dpeer.exceptions import ConfigurationError
from dpeer.privacy.accounting import ACCOUNTANTS
from dpeer.privacy.plan import ClientPlan, SamplePlan
from dpeer.privacy.settings import CLIENT_ONLY, SAMPLE_ONLY, PrivacySettings

EXAMPLES = {
    "noise_multiplier": "1", "target_epsilon": "8", "sampling_rate": "0.05", "steps": "20", "rounds": "20",
    "records": "2000", "size": "8", "parameters": "60000",
}  # fmt: skip

_OPTIONS: Mapping[str, Callable[[Any], Any]] = {
    "sampling_rate": stated(
        PrivacySettings, "sampling_rate", planned=True, type=number("--sampling-rate", "0.05", 1e-9, 1.0), metavar="Q"
    ),
    "steps": click.option(
        "--steps", type=count("--steps", 20), metavar="K",
        help="Sample: local steps of a peer in a round, with --dp-head alternate those of the body.",
    ),
    "dp_head": stated(PrivacySettings, "dp_head"),
    "head_steps": click.option(
        "--head-steps", type=count("--head-steps", 5), metavar="K",
        help="Sample: local steps of the head in a round; for --dp-head alternate.",
    ),
    "records": stated(PrivacySettings, "records", planned=True, type=count("--records", 2000), metavar="N"),
    "accountant": click.option(
        "--accountant", type=click.Choice(ACCOUNTANTS), default="exact", show_default="exact; pld for sample",
        help="exact: a closed form, without sampling; pld: privacy loss distributions, with sampling; rdp: Renyi, an "
        "upper bound.",
    ),
}  # fmt: skip

_LEVEL = click.option(
    "--privacy", type=click.Choice(["client", "sample"]), default="client", show_default=True,
    help="What is protected; client: a peer's whole data set; sample: one record.",
)  # fmt: skip

patient_option = click.option(
    "--patient-records", type=count("--patient-records", 10), metavar="M",
    help="Sample: print the epsilon of a patient (or of any group) with M records, too.",
)  # fmt: skip
"""Of commands that know the epsilon of a patient with several records."""

_OF_SAMPLE = (*SAMPLE_ONLY, "steps", "head_steps", "patient_records")
_OF_PEERS = (*CLIENT_ONLY, "size")


def options_of_both(*left_out: str) -> Callable[[F], F]:
    """The options of the group and those of sample level, but these."""

    def decorate(command: F) -> F:
        for name in reversed([name for name in _OPTIONS if name not in left_out]):
            command = _OPTIONS[name](command)
        return _LEVEL(privacy_options("privacy", "accountant", *left_out)(command))

    return decorate


def planned(command: str, options: Mapping[str, Any], *both: str) -> ClientPlan | SamplePlan:
    """What was typed, as a plan at the level of privacy that was asked for.

    Args:
        command: Its name.
        options: All values of the command that is running.
        both: Options that this command has for both levels.

    Raises:
        ConfigurationError: An option was given that belongs to the other level only.
    """
    private = options["privacy"]
    others = [name for name in (_OF_SAMPLE if private == "client" else _OF_PEERS) if name in options]
    others = [name for name in others if name not in both]
    for name in filter(_typed, others):
        _refuse(name, options[name], private)
    kept = {name: value for name, value in options.items() if name not in (*others, "privacy")}
    if private == "client":
        return ClientPlan(**kept)
    if not _typed("accountant"):
        kept.pop("accountant", None)
    return SamplePlan(**kept)


def require_of_client(plan: ClientPlan, command: str, *names: str) -> None:
    """Refuse a plan that lacks one of these values; see `require`."""
    require(plan, command, OF_CLIENT, *names)


def require_of_sample(plan: SamplePlan, command: str, *names: str) -> None:
    """Refuse a plan that lacks one of these values, or of those that every command needs; see `require`."""
    require(plan, f"{command} --privacy sample", EXAMPLES, *names, "sampling_rate", "steps", "rounds")


def _refuse(name: str, value: Any, private: str) -> None:
    option = f"{flag(name)} {value}"
    if private == "client":
        raise ConfigurationError(
            f"{option}: it belongs to --privacy sample, which protects one record: add --privacy sample"
        )
    if name == "size":
        raise ConfigurationError(
            f"{option}: with --privacy sample records are protected, not peers: give their number, for example "
            "--records 2000"
        )
    raise ConfigurationError(
        f"{option}: it belongs to --privacy client; for one record adversary and adjacency are fixed: leave it out"
    )


def _typed(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source not in (None, ParameterSource.DEFAULT)
