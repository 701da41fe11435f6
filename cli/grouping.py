"""click commands whose help lists options under headings."""

from __future__ import annotations

from typing import Any

import click

MOST_USED = "Most used"
_OTHERS = "Other options"


class GroupedOption(click.Option):
    """An option that knows under which heading it is listed.

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
