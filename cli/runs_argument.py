"""The argument of `dpeer status`, `top` and `dashboard` that names run folders."""

from __future__ import annotations

from pathlib import Path

import click

DEFAULT = Path("dpeer-run")
"""The folder of a run that names no other."""

runs_argument = click.argument("runs", nargs=-1, type=click.Path(path_type=Path), metavar="[RUN]...")
