"""click options for all settings of a command, made from the fields of `Settings`, and their headings in the help."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dpeer.cli.click_from_setting import F, Time, click_type, flag, without_none
from dpeer.federation.config import parse_option
from dpeer.federation.run_settings import DURATION
from dpeer.federation.settings import TABLES, Settings
from dpeer.sections import in_short, meaning_of

_EVERYTHING = "Every other setting is a flag, too: `dpeer settings [WORD]` lists them all."

KEYS = {name: flag(name).removesuffix("s") for name in TABLES}
"""Settings that are tables: their options take one KEY=VALUE at a time."""

_REPEATED = {"log_to": "TRACKER"}
"""Settings that are lists: their options take one value at a time, and its name in the help."""

_EXAMPLES = {
    "--task-option": "data=/path/to/data", "--algorithm-option": "ditto_lambda=1", "--model-option": "width=128",
}  # fmt: skip


class GroupedOption(click.Option):
    """An option with a heading, under which the help lists it.

    Args:
        group: The heading; without one the option is listed below the first.
        shown: Whether the help lists it; one that it does not list is taken, and completed by a shell, all the same.
    """

    def __init__(self, *args: Any, group: str | None = None, shown: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group, self.shown = group, shown


class GroupedCommand(click.Command):
    """A command that lists its options by heading, in the order in which headings first come up."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, heading by heading, and where all others are listed."""
        groups: dict[str | None, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if isinstance(parameter, click.Option) and record and getattr(parameter, "shown", True):
                groups.setdefault(getattr(parameter, "group", None), []).append(record)
        others = groups.pop(None, [])
        for heading, records in groups.items():
            with formatter.section(heading or ""):
                formatter.write_dl(records + others)
            others = []
        formatter.write_paragraph()
        formatter.write_text(_EVERYTHING)


def setting_options(*names: str, listed: bool = True) -> Callable[[F], F]:
    """Options for these settings. An option that is not given is None, so that the federation file's value counts.

    Args:
        names: The settings, in the order of the help.
        listed: Whether the help lists those that most people need; the others it never lists.
    """

    def decorate(command: F) -> F:
        for name in reversed(names):
            command = _option(name, listed=listed)(command)
        return command

    return decorate


def _use_policy(context: click.Context, option: click.Parameter, file: Path | None) -> None:
    """Name the file in the environment, for all that the command starts."""
    if file is not None:
        from dpeer.federation.policy import ENVIRONMENT  # ZeroMQ, which most commands do without

        before = os.environ.get(ENVIRONMENT, "")
        context.call_on_close(lambda: os.environ.update({ENVIRONMENT: before}))
        os.environ[ENVIRONMENT] = str(file.absolute())


def run_options(*names: str, listed: bool = True) -> Callable[[F], F]:
    """Options for these settings (see `setting_options`), and further ones that all commands that run peers have."""
    given: dict[str, Any] = {"cls": GroupedOption}
    besides = [
        click.option(
            "--federation", type=click.Path(dir_okay=False, path_type=Path), group="The run", metavar="FILE",
            help="Settings and addresses; ./dpeer.toml if it exists.", **given,
        ),
        click.option(
            "--resume", is_flag=True, group="The run", help="Continue a stopped run after its last round.", **given
        ),
        click.option(
            "--overwrite", is_flag=True, group="The run", help="Remove an earlier run from --out.", **given
        ),
        click.option(
            "--policy", type=click.Path(path_type=Path), group="The run", metavar="FILE", expose_value=False,
            callback=_use_policy, shown=False, help="This site's own rules (docs/security.md).", **given,
        ),
    ]  # fmt: skip

    def decorate(command: F) -> F:
        for decorator in reversed(besides):
            command = decorator(command)
        return setting_options(*names, listed=listed)(command)

    return decorate


members_option = click.option(
    "--members", type=click.Path(dir_okay=False, path_type=Path), cls=GroupedOption, shown=False,
    group="The run", metavar="FILE",
    help="A member list, for a rank that the federation file has not, or a new disk.",
)  # fmt: skip
resume_or_start_option = click.option(
    "--resume-or-start", is_flag=True, cls=GroupedOption, group="The run",
    help="Resume a run, if any: for services, after reboots.",
)  # fmt: skip
json_summary_option = click.option(
    "--json", "as_json", is_flag=True, cls=GroupedOption, group="The run", help="Print the summary as JSON."
)


def _option(name: str, *, listed: bool) -> Callable[[F], F]:
    field = Settings.model_fields[name]
    meaning = meaning_of(field)
    kind, typed, text = without_none(field.annotation), option_of(name), in_short(field)
    if field.default is not None and kind is not bool and name not in KEYS:
        text += f"  [default: {field.default:g}]" if kind is float else f"  [default: {field.default}]"
    given: dict[str, Any] = {
        "cls": GroupedOption, "group": meaning.group, "shown": listed and meaning.first, "default": None, "help": text,
    }  # fmt: skip
    if name in KEYS:
        return click.option(typed, name, multiple=True, metavar="KEY=VALUE", callback=_table(typed), **given)
    if name in _REPEATED:
        return click.option(typed, name, multiple=True, metavar=_REPEATED[name], callback=_list, **given)
    if kind is bool and field.default is None:  # unset: the default is decided elsewhere
        return click.option(f"{typed}/--no-{typed.removeprefix('--')}", name, **given)
    if kind is bool:
        return click.option(typed, name, is_flag=True, **given)
    timed = DURATION in field.metadata
    return click.option(typed, name, type=Time() if timed else click_type(kind), **given)


def option_of(name: str) -> str:
    """A setting's option, as it is typed."""
    return KEYS.get(name, flag(name))


def _list(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> str | None:
    """The values of a repeated option, as a federation file may also state them; None without any."""
    return ",".join(values) or None


def _table(option: str) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], dict[str, Any]]:
    def parse(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
        return dict(parse_option(value, option, _EXAMPLES[option]) for value in values)

    return parse
