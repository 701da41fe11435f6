"""Output of a command that ends well: as text, as words and as JSON."""

import json
import os
from typing import Any
from unittest.mock import patch

from click.testing import CliRunner

from dpeer.cli.main import group


def output(*arguments: object, columns: int = 80) -> str:
    """All of stdout, with COLUMNS set."""
    with patch.dict(os.environ, {"COLUMNS": str(columns)}):
        result = CliRunner().invoke(group, list(map(str, arguments)))
    assert result.exception is None, result.exception
    return result.stdout


def text(*arguments: object, columns: int = 80) -> str:
    """What is printed on stdout at this width: no line is wider, and nothing is cut."""
    found = output(*arguments, columns=columns)
    assert max(len(line.rstrip()) for line in found.splitlines()) <= columns
    assert "…" not in found
    return found


def words(*arguments: object) -> str:
    """The words on stdout, with one space between."""
    return " ".join(text(*arguments).split())


def parsed(*arguments: object) -> Any:
    """The JSON on stdout with --json, which must be strict."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(output(*arguments, "--json"), parse_constant=refuse)
