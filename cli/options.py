"""click options for all settings of a command, made from the fields of `Settings`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from dpeer.cli.click_from_setting import click_type, flag, in_words, without_none
from dpeer.cli.grouping import GroupedOption
from dpeer.federation.config import parse_option
from dpeer.federation.settings import TABLES, Settings, option_names
from dpeer.sections import meaning_of

F = TypeVar("F", bound=Callable[..., Any])

_KEYS = {name: flag(name).removesuffix("s") for name in TABLES}
"""Settings that are tables: their options take one KEY=VALUE at a time."""


def setting_options(*names: str) -> Callable[[F], F]:
    """Options for these settings. An option that is not given is None, so that the federation file's value counts."""

    def decorate(command: F) -> F:
        for name in reversed(names):
            command = _option(name)(command)
        return command

    return decorate


def run_options(*names: str) -> Callable[[F], F]:
    """Options for these settings, and what start, cluster and simulate have in common besides."""
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
        click.option(
            "--new-data", is_flag=True, group="The run",
            help="The training data are not those of earlier runs in the output folder, so that epsilon leaves out "
            "what these released.", **given,
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


def json_option(command: F) -> F:
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
    if field.default is not None and kind is not bool:
        text += f"  [default: {field.default}]"
    if kind is bool and field.default is None:  # unset: the default is decided elsewhere
        return click.option(f"{typed}/--no-{typed.removeprefix('--')}", name, help=text, **listed)
    if kind is bool:
        return click.option(typed, name, is_flag=True, help=text, **listed)
    return click.option(typed, name, type=click_type(kind), help=text, **listed)


def _table(option: str) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], dict[str, Any]]:
    def parse(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
        return dict(parse_option(value, option, _EXAMPLES[option]) for value in values)

    return parse


_EXAMPLES = {
    "--task-option": "data=/path/to/data", "--algorithm-option": "rho=0.1", "--model-option": "width=128",
}  # fmt: skip

__all__ = ["baseline_option", "json_option", "option_names", "run_options", "setting_options"]
