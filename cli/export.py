"""`dpeer export`: a trained model as ONNX, for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpeer.cli.predict import run_option
from dpeer.exceptions import OutputError
from dpeer.federation.saved_models import load_model
from dpeer.optional_libraries import check_libraries


@click.command(short_help="Write a trained model as ONNX.")
@run_option
@click.option(
    "--output", required=True, type=click.Path(path_type=Path), metavar="FILE.onnx",
    help="The file, ONNX, which needs pip install 'dpeer[onnx]'; replaced if it exists.",
)  # fmt: skip
def export(run: Path, output: Path) -> None:
    """Write the model that a peer has ended with as ONNX, for programs that do not have dpeer.

    What was written is run once and held against the model. It says what inputs must be; the same is in the file, as
    JSON under the name dpeer of its metadata.

    \b
    Example:
      dpeer export --run dpeer-run/rank-0 --output model.onnx
    """  # noqa: D301 - \b is click's
    if output.is_dir():
        raise OutputError(f"--output {str(output)!r} is a folder: name a file")
    if output.suffix not in ("", ".onnx"):  # a device has no ending
        raise OutputError(f"--output {str(output)!r}: the model is written as ONNX: name a file that ends in .onnx")
    check_libraries("dpeer export", "onnx", onnx="ONNX", onnxscript="ONNX Script", onnxruntime="ONNX Runtime")
    model = load_model(run)
    from dpeer.training.use.exporting import export as write

    usage = write(model, output)
    for line in _lines(output, usage):
        click.echo(line, err=not output.is_file())  # else it would stand behind a model in /dev/stdout


def _lines(output: Path, usage: dict[str, Any]) -> list[str]:
    shape = ", ".join(map(str, usage["input"]["shape"]))
    lines = [f"{output}: the same as the model for 1 and for 5 rows"]
    lines.append(f"{usage['input']['name']}: {usage['input']['dtype']}, shape ({shape})")
    if usage["input_names"]:
        lines.append(f"names of the inputs, in order: {', '.join(usage['input_names'])}")
    lines += [f"before: {step}" for step in usage["before"]]
    classes = f" {', '.join(usage['classes'])}" if usage["classes"] else ""
    lines.append(f"{usage['output']['name']}: {usage['output']['is']}{classes}")
    return lines
