"""click options for all settings of a command, made from the fields of `Settings`, and their headings in the help."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dpeer.cli.click_from_setting import F, Time, click_type, flag, without_none
from dpeer.federation.config import parse_option
from dpeer.federation.run_settings import DURATION
from dpeer.federation.settings import TABLES, Settings
from dpeer.sections import in_words, meaning_of
from dpeer.training.compress_setting import OLDER

MOST_USED = "Most used"
_OTHERS = "Other options"

_KEYS = {name: flag(name).removesuffix("s") for name in TABLES}
"""Settings that are tables: their options take one KEY=VALUE at a time."""

_REPEATED = {"log_to": "TRACKER"}
"""Settings that are lists: their options take one value at a time, and its name in the help."""

_EXAMPLES = {
    "--task-option": "data=/path/to/data", "--algorithm-option": "rho=0.1", "--model-option": "width=128",
}  # fmt: skip


class GroupedOption(click.Option):
    """An option with a heading, under which the help lists it.

    Args:
        group: The heading; without one the option is listed last.
        first: Whether the option is one of those that most people need.
    """

    def __init__(self, *args: Any, group: str = _OTHERS, first: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = MOST_USED if first else group


class GroupedCommand(click.Command):
    """A command that lists its options by heading, in the order in which headings first come up."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, heading by heading."""
        groups: dict[str, list[tuple[str, str]]] = {MOST_USED: []}
        others: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            group = getattr(parameter, "group", _OTHERS)
            (others if group == _OTHERS else groups.setdefault(group, [])).append(record)
        for heading, records in {**groups, _OTHERS: others}.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def setting_options(*names: str) -> Callable[[F], F]:
    """Options for these settings. An option that is not given is None, so that the federation file's value counts."""

    def decorate(command: F) -> F:
        for name in reversed(names):
            command = _option(name)(command)
        for name in OLDER if "compress" in names else ():
            command = click.option(flag(name), name, type=int if name == "quantize" else str, hidden=True)(command)
        return command

    return decorate


def run_options(*names: str) -> Callable[[F], F]:
    """Options for these settings, and further ones that start, cluster and simulate have in common."""
    given: dict[str, Any] = {"cls": GroupedOption}
    besides = [
        click.option(
            "--federation", type=click.Path(dir_okay=False, path_type=Path), first=True,
            help="File with settings and the peers' addresses (TOML); ./dpeer.toml is used when it exists.", **given,
        ),
        click.option(
            "--resume", is_flag=True, first=True, help="Continue a stopped run from its last completed round.", **given
        ),
        click.option(
            "--overwrite", is_flag=True, group="The run", help="Remove an earlier run from the output folder.", **given
        ),
    ]  # fmt: skip

    def decorate(command: F) -> F:
        for decorator in reversed(besides):
            command = decorator(command)
        return setting_options(*names)(command)

    return decorate


def baseline_option(command: F) -> F:
    """`--baseline`, of the commands that run a whole federation."""
    return click.option(
        "--baseline", metavar="ALGORITHM", cls=GroupedOption, group="The run",
        help="Afterwards train the same peers with this algorithm and compare; local is --alone always, but with "
        "--privacy, --preset or --alone never a run of its own.",
    )(command)  # fmt: skip


def members_option(command: F) -> F:
    """`--members`, of the commands of one peer."""
    return click.option(
        "--members", type=click.Path(dir_okay=False, path_type=Path), cls=GroupedOption, group="The run",
        metavar="FILE",
        help="The member list that an operator has sent, for a rank that the federation file has not (dpeer members "
        "add), or on a new disk.",
    )(command)  # fmt: skip


def resume_or_start_option(command: F) -> F:
    """`--resume-or-start`, of the commands of one peer."""
    return click.option(
        "--resume-or-start", is_flag=True, cls=GroupedOption, group="The run",
        help="--resume where the output folder holds a run of this rank, else a start: for services, which begin again "
        "by themselves.",
    )(command)  # fmt: skip


def json_summary_option(command: F) -> F:
    """`--json`, of the commands that run peers."""
    return click.option(
        "--json", "as_json", is_flag=True, cls=GroupedOption, group="The run",
        help="Print the summary as JSON in place of the table; progress goes to stderr as ever.",
    )(command)  # fmt: skip


def _option(name: str) -> Callable[[F], F]:
    field = Settings.model_fields[name]
    meaning = meaning_of(field)
    listed: dict[str, Any] = {"cls": GroupedOption, "group": meaning.group, "first": meaning.first, "default": None}
    text = in_words(field)
    if name in _KEYS:
        return click.option(
            _KEYS[name], name, multiple=True, metavar="KEY=VALUE", callback=_table(_KEYS[name]),
            help=text.replace("KEY=VALUE for an", "An"), **listed,
        )  # fmt: skip
    kind, typed = without_none(field.annotation), flag(name)
    if name in _REPEATED:
        return click.option(typed, name, multiple=True, metavar=_REPEATED[name], callback=_list, help=text, **listed)
    if field.default is not None and kind is not bool:
        text += f"  [default: {field.default}]"
    if kind is bool and field.default is None:  # unset: the default is decided elsewhere
        return click.option(f"{typed}/--no-{typed.removeprefix('--')}", name, help=text, **listed)
    if kind is bool:
        return click.option(typed, name, is_flag=True, help=text, **listed)
    timed = DURATION in field.metadata
    return click.option(typed, name, type=Time() if timed else click_type(kind), help=text, **listed)


def _list(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> str | None:
    """The values of a repeated option, as a federation file may also state them; None without any."""
    return ",".join(values) or None


def _table(option: str) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], dict[str, Any]]:
    def parse(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
        return dict(parse_option(value, option, _EXAMPLES[option]) for value in values)

    return parse
