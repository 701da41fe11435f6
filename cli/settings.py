"""`dpeer settings`: all settings by heading, who must agree on each, and where the values of one rank come from."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from dpeer.cli.click_from_setting import NumberOr, click_type, without_none
from dpeer.cli.options import GroupedOption, option_of, setting_options
from dpeer.cli.tables import filled, json_option, plain_table, print_table, table_width
from dpeer.exceptions import ConfigurationError, did_you_mean
from dpeer.federation.removed_names import KEYS
from dpeer.federation.run_settings import DURATION
from dpeer.federation.settings import TABLES, Settings, default_of, option_names
from dpeer.federation.starting import own_rank
from dpeer.sections import Mark, in_short, in_words, meaning_of

_AGREE = {
    Mark.SHARED: "all peers",
    Mark.FOLLOWS: "all peers",
    Mark.OWN: "this site",
    Mark.ASIDE: "this site",
}


@dataclass(frozen=True)
class Listed:
    """A setting as it is listed; `rank` is whether `[rank.N]` of a federation file may have it."""

    name: str
    flag: str
    heading: str
    type: str
    default: Any
    agree: str
    rank: bool
    short: str
    text: str

    def has(self, words: str, *, whole: bool = False) -> bool:
        """Whether the name, the heading or the text has these words; as `whole` words `dp` is not in `dpeer`."""
        names = (self.name, self.name.replace("_", "-"), self.name.replace("_", " "))
        found = re.compile(rf"(?<![a-z0-9]){re.escape(words)}(s|ed|ing)?(?![a-z0-9])" if whole else re.escape(words))
        return any(found.search(one.lower()) for one in (*names, self.heading, self.text))


@click.command("settings", short_help="List all settings, or say where values come from.")
@click.argument("word", nargs=-1)
@click.option(
    "--of", "federation", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Print the values that this federation file, and flags beside it, give a rank, and where each comes from.",
)  # fmt: skip
@click.option("--rank", metavar="R", help="The rank of --of, or `env`.")
@click.option("--all", "every", is_flag=True, help="With --of: also print the values that are defaults.")
@json_option
@setting_options(*option_names(), listed=False)
def settings(
    word: tuple[str, ...], federation: Path | None, rank: str | None, every: bool, as_json: bool, **flags: Any
) -> None:
    """List all settings by heading: type, default, and who must agree. Every setting is a flag, and a key of the file.

    WORD, or several, chooses those whose name or text has it, and prints what the texts say in full.

    \b
    Examples:
      dpeer settings epsilon
      dpeer settings learning rate
      dpeer settings --of dpeer.toml --rank 3
    """  # noqa: D301 - \b is click's
    chosen = _chosen(" ".join(word).strip().lower())
    if federation is not None:
        number = own_rank("0" if rank is None else rank)
        from dpeer.federation.config import origins  # torch: not for a list

        _print_values(chosen, origins(federation, flags, number), as_json=as_json, every=every or bool(word))
        return
    if rank is not None or every or any(value not in (None, {}) for value in flags.values()):
        raise ConfigurationError("--rank, --all and flags of settings say what a file's values come to: give --of FILE")
    if as_json:
        click.echo(
            json.dumps([{name: value for name, value in vars(one).items() if name != "short"} for one in chosen])
        )
        return
    (_print_whole if word else _print_list)(chosen)


for _option in settings.params:  # the listing itself has them
    if isinstance(_option, GroupedOption):
        _option.hidden = True


def all_settings() -> list[Listed]:
    """Every setting, those of a heading side by side."""
    found = [_listed(name) for name in option_names()]
    headings = list(dict.fromkeys(one.heading for one in found))
    return sorted(found, key=lambda one: headings.index(one.heading))


def _listed(name: str) -> Listed:
    field = Settings.model_fields[name]
    meaning, default = meaning_of(field), default_of(name)
    plain = default if isinstance(default, str | int | float | None) else str(default) if default else None
    kind = "KEY=VALUE" if name in TABLES else "TIME" if DURATION in field.metadata else _type(field.annotation)
    return Listed(
        name, option_of(name), meaning.group, kind, plain, _AGREE[meaning.mark], meaning.of_rank, in_short(field),
        in_words(field),
    )  # fmt: skip


def _type(annotation: Any) -> str:
    kind = without_none(annotation)
    if kind is bool:
        return "yes or no"
    made = click_type(kind)
    if isinstance(made, click.Choice):
        return "|".join(made.choices)
    if isinstance(made, NumberOr):
        return made.name.replace("NUMBER", "number")
    return {int: "integer", float: "number", str: "text"}.get(made, "path")


def _chosen(words: str) -> list[Listed]:
    """The settings that have these words, side by side or each somewhere; those whose name has them first.

    Raises:
        ConfigurationError: No setting has them, or they are the name of one of an earlier version.
    """
    every, key = all_settings(), words.replace("-", "_").replace(" ", "_")
    if key in KEYS:
        raise ConfigurationError(f"{key} has been removed: {KEYS[key]}")
    found = (
        [one for one in every if one.has(words, whole=True)]
        or [one for one in every if one.has(words)]
        or [one for one in every if all(one.has(part) for part in words.split())]
    )
    if words:
        found.sort(key=lambda one: key not in one.name)
    if not found:
        near = did_you_mean(words.replace(" ", "-"), [one.flag.removeprefix("--") for one in every])
        raise ConfigurationError(
            f"no setting has {words!r}: {near}options of one command, such as --resume, are in `dpeer start --help`"
        )
    return found


def _print_values(chosen: list[Listed], values: dict[str, tuple[Any, str]], *, as_json: bool, every: bool) -> None:
    shown = [(one, *values[one.name]) for one in chosen if every or values[one.name][1] != "default"]
    if as_json:
        click.echo(json.dumps({one.name: {"value": value, "from": origin} for one, value, origin in shown}))
        return
    rows = [(one.name, _shown(value), origin) for one, value, origin in shown]
    print_table(filled(plain_table(), dict.fromkeys(("setting", "value", "from"), "words"), rows))
    if not every:
        click.echo("\nAll others are defaults: --all prints them, too.")


def _print_list(chosen: list[Listed]) -> None:
    """A table of one line for each setting, heading by heading."""
    table = plain_table(gap=1)
    for column in ("flag", "type", "default", "agree"):
        table.add_column(column, no_wrap=True)
    table.add_column("what it is")
    heading = ""
    for one in chosen:
        if one.heading != heading:
            heading = one.heading
            table.add_row(Text(heading, "bold"))
        kind = "choice" if "|" in one.type else one.type
        table.add_row(one.flag, kind, Text(_shown(one.default)), one.agree, Text(one.short))
    print_table(table)
    click.echo("\n`dpeer settings WORD` has a setting's choices, limits and details.")


def _print_whole(chosen: list[Listed]) -> None:
    """A paragraph for each setting, with all that its text says."""
    for one in chosen:
        ranked = ", in [rank.N], too" if one.rank else ""
        click.echo(f"{one.flag}  {one.type}")
        click.echo(f"    key {one.name}{ranked}; default {_shown(one.default)}; must agree: {one.agree}")
        for line in Text(one.text).wrap(Console(), table_width() - 4):
            click.echo(f"    {line.plain.rstrip()}")


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict | list):
        return json.dumps(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
