"""Options of `dpeer members`: the arguments RUN and FILE, and the `Order` of a change (folder, signer, destination)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

run_argument = click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
file_argument = click.argument("file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
federation_option = click.option(
    "--federation",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The federation file, where no running peer is asked.  [default: ./dpeer.toml]",
)
WEIGHT = click.option(
    "--weight", type=float, metavar="N", help="What it brings (rows, patients, votes), where weights are declared."
)
RANK = click.IntRange(0, 2**16 - 1)


@dataclass(frozen=True)
class Order:
    """Which run a change is of, who signs it, and where its list goes.

    Attributes:
        place: The folder of a run of which a peer runs here, or a file with a list.
        operator: The file of an operator's secret key; None to leave it to others to sign.
        settle: Whether the list takes the place of one that waits.
        out: The file to write the list to; None to hand it over.
        dry_run: Whether only to print what changes.
        federation: The federation file, where RUN is a file.
    """

    place: Path
    operator: Path | None
    settle: bool
    out: Path | None
    dry_run: bool
    federation: Path | None


def change_options(command: Callable[..., int]) -> Callable[..., int]:
    """RUN and the options of an `Order`, which is the command's first argument."""

    @click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
    @click.option(
        "--operator",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Your secret key, which signs the list (dpeer keygen --operator).",
    )
    @click.option(
        "--settle",
        is_flag=True,
        help="Replace a list that waits and does not come to count, such as one of two that were made at a time.",
    )
    @click.option(
        "--out",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Write the list to a file, for other operators to sign (dpeer members sign); then dpeer members hand.",
    )
    @click.option("--dry-run", is_flag=True, help="Print what would change, and change nothing.")
    @federation_option
    @wraps(command)
    def with_order(
        run: Path,
        operator: Path | None,
        settle: bool,
        out: Path | None,
        dry_run: bool,
        federation: Path | None,
        **given: Any,
    ) -> int:
        return command(Order(run, operator, settle, out, dry_run, federation), **given)

    return with_order
