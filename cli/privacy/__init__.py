"""`dpeer privacy`: commands on guarantees and their costs, before anything is trained."""

from __future__ import annotations

import click

from dpeer.cli.privacy.calibrate import calibrate
from dpeer.cli.privacy.epsilon import epsilon
from dpeer.cli.privacy.matrix import matrix
from dpeer.cli.privacy.plan import plan


@click.group()
def privacy() -> None:
    """Compute what privacy promises, to whom, and for how much noise."""


privacy.add_command(epsilon)
privacy.add_command(calibrate)
privacy.add_command(matrix)
privacy.add_command(plan)
