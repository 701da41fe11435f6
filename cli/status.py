"""`dpeer status`: where the peers of a run folder are, whom they wait for, and how their neighbors are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from dpeer.cli.peers_table import peers_table
from dpeer.cli.tables import print_table
from dpeer.exceptions import ConfigurationError
from dpeer.federation.control_client import Place, look
from dpeer.federation.snapshot_words import WITHIN, unready

DEFAULT = Path("dpeer-run")
"""The folder of a run that names no other."""

runs_argument = click.argument("runs", nargs=-1, type=click.Path(path_type=Path), metavar="[RUN]...")


@click.command(short_help="Show where running peers are, and whom they wait for.")
@runs_argument
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an object for each rank's folder.")
@click.option("--check", is_flag=True, help="Say whether each peer takes part, and exit with 1 if one does not.")
@click.option(
    "--within", type=click.IntRange(1), metavar="K", show_default=str(WITHIN),
    help="Rounds within which a peer that takes part has mixed, for --check.",
)  # fmt: skip
def status(runs: Sequence[Path], as_json: bool, check: bool, within: int | None) -> int:
    """Show where the peers of a run folder, or of a rank's, are, whom they wait for and why; by default of dpeer-run.

    A running peer is asked by its control socket; the others are shown as their summary has them. It holds rounds,
    times and liveness, and no result of the training.

    --check is for probes of containers and for scripts: 0 if all peers run, are in their rounds, and have mixed with a
    neighbor within the last K of them.

    \b
    Examples:
      dpeer status dpeer-run
      dpeer status dpeer-run/rank-0 --json
      dpeer status dpeer-run/rank-0 --check --within 5
    """  # noqa: D301 - \b is click's
    if check and as_json:
        raise ConfigurationError("--check and --json: give one of them; the exit code is what --check is for")
    if within is not None and not check:
        raise ConfigurationError(f"--within {within}: it is for --check")
    found = look(runs or [DEFAULT])
    if check:
        return _check(found, within or WITHIN)
    if as_json:
        click.echo(json.dumps([one.as_json() for one in found], indent=1))
    else:
        print_table(peers_table(found))
    return 0


def _check(found: Sequence[Place], within: int) -> int:
    """Print whether each peer takes part; returns the exit code."""
    code = 0
    for one in found:
        why = one.state if one.answer is None else unready(one.answer, within)
        click.echo(f"{one.name}: {'takes part' if why is None else f'does not take part: {why}'}")
        code |= why is not None
    return int(code)
