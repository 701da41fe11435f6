"""The shared options of predict, evaluate and export: run, input, tokenizer."""

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


def tokenizer_option(command: F) -> F:
    """`--tokenizer`: what makes token numbers of texts."""
    return click.option(
        "--tokenizer", type=click.Path(path_type=Path), metavar="FILE",
        help="For texts: the tokenizer.json that the model was trained with; not needed for bytes.",
    )(command)  # fmt: skip
