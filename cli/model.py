"""`dpeer model`: a peer's model from its checkpoint."""

from __future__ import annotations

from pathlib import Path

import click

from dpeer.cli.terminal import ended_at_once
from dpeer.exceptions import OutputError


@click.command(short_help="Make a peer's model from its checkpoint.")
@click.argument("folder", metavar="DIR/rank-R", type=click.Path(path_type=Path))
@click.option(
    "--output", type=click.Path(path_type=Path), metavar="FILE",
    help="Where the model goes, with its card (.json) beside it.  [default: DIR/rank-R/model.safetensors]",
)  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace an existing model.")
def model(folder: Path, output: Path | None, overwrite: bool) -> None:
    """Make the model of a peer that was killed, or lost its power, from its last checkpoint.

    No neighbor is needed, nothing is sent, and nothing is trained. The model, its card and summary.json are those of a
    peer that ends after the checkpoint's round; `status` says killed. Type it where the peer was started: it reads the
    same task and data. To go on training, start the peer with --resume instead.

    \b
    Example:
      dpeer model dpeer-run/rank-0
    """  # noqa: D301 - \b is click's
    if output is not None and (output.suffix != ".safetensors" or output.is_dir()):
        raise OutputError(f"--output {str(output)!r}: name a file that ends in .safetensors")
    if output is not None and not output.parent.is_dir():
        raise OutputError(f"--output {str(output)!r}: no such folder: {str(output.parent)!r}")
    with ended_at_once():
        from dpeer.federation.saved_models import make_model

        made = make_model(folder, output=output, overwrite=overwrite, say=lambda line: click.echo(line, err=True))
    click.echo(f"{made.path}: the model of {made.completed} of {made.rounds} rounds ({made.status})")
