"""`dpeer predict`: a trained model on new rows; and the options that `evaluate` and `export` have, too."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from dpeer.exceptions import ConfigurationError, OutputError, TaskError
from dpeer.federation.saved_models import load_model

run_option = click.option(
    "--run", "run", required=True, type=click.Path(path_type=Path), metavar="DIR/rank-R",
    help="The peer's folder, with model.safetensors and model.json.",
)  # fmt: skip
input_option = partial(click.option, "--input", "data", required=True, type=click.Path(path_type=Path), metavar="FILE")
tokenizer_option = click.option(
    "--tokenizer", type=click.Path(path_type=Path), metavar="FILE",
    help="For texts: the tokenizer.json that the model was trained with; not needed for bytes.",
)  # fmt: skip


@click.command(short_help="Predict new rows with a trained model.")
@run_option
@input_option(
    help="New rows: csv or parquet for a table, a folder of images, .txt or .tsv of texts, or .npy/.npz with the "
    "inputs."
)
@tokenizer_option
@click.option(
    "--output", required=True, type=click.Path(path_type=Path), metavar="OUT.csv",
    help="csv file of the predictions; an existing file is replaced.",
)  # fmt: skip
@click.option("--flags", is_flag=True, help="Add a column that says what of a row was cut, unknown or a gap.")
@click.option("--strict", is_flag=True, help="Exit with 2 if rows of a table cannot be read and are left out.")
def predict(run: Path, data: Path, tokenizer: Path | None, output: Path, flags: bool, strict: bool) -> None:
    """Predict new rows with the model that a peer has ended with.

    Columns of a table are found by their names, whatever their order; the column that is predicted may be missing.
    OUT.csv has a row for each row: its number (or file) and the columns that are no inputs, the predicted class and a
    probability for each class, or the predicted value. Rows that cannot be read are named, and left out.

    \b
    Example:
      dpeer predict --run dpeer-run/rank-0 --input new.csv --output predictions.csv
    """  # noqa: D301 - \b is click's
    if output.is_dir():
        raise OutputError(
            f"--output {str(output)!r} is a folder: name a file, such as {str(output / 'predictions.csv')!r}"
        )
    if output.exists() and data.exists() and output.samefile(data):
        raise OutputError(f"--output {str(output)!r} is the input: name another file")
    model = load_model(run, tokenizer=tokenizer)
    from dpeer.training.use.model import write_predictions

    new = model.read(data, leave_out=True)
    if flags and not new.flags:
        raise ConfigurationError(f"--flags is for tables, and {str(data)!r} is none: leave it out")
    found = model.predict(new)
    write_predictions(found, output, flags=flags)
    for remark in found.remarks:
        click.echo(f"WARNING: {remark}", err=True)
    lines = f"{output}: {len(found)} {'row' if len(found) == 1 else 'rows'}"
    click.echo(lines, err=not output.is_file())  # else it would stand among rows that are written to /dev/stdout
    if strict and new.left_out:
        raise TaskError(f"{str(data)!r}: {new.left_out} of its rows cannot be read: {str(output)!r} has the others")
