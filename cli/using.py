"""What predict, evaluate, export and card have in common: naming a run, and a model from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def run_option(command: F) -> F:
    """`--run`: the folder of the peer whose model is used."""
    return click.option(
        "--run", "run", required=True, type=click.Path(path_type=Path), metavar="DIR/rank-R",
        help="The peer's folder, with model.safetensors and model.json.",
    )(command)  # fmt: skip


def input_option(words: str) -> Callable[[F], F]:
    """`--input`: the data that the model is given."""
    return click.option("--input", "data", required=True, type=click.Path(path_type=Path), metavar="FILE", help=words)
