"""A file with an algorithm that cannot be used is said in one line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MINE = """
from dataclasses import dataclass

from dpeer.training import Algorithm


class Prox(Algorithm):
    shares = "body"

    @dataclass(frozen=True)
    class Options:
        mu: float = 0.1

    def train(self, peer):
        pass
"""


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ("def (", "Prox", "cannot be imported: SyntaxError"),
        ("import nothing_of_that_name", "Prox", "cannot be imported: ModuleNotFoundError"),
        (MINE, "Pox", "did you mean 'Prox'?"),
        ("class Prox: pass", "Prox", "Prox"),
        (None, "Prox", "there is no file 'own.py'"),
        (MINE.replace('"body"', '"everything"'), "Prox", "shares"),
        (MINE.replace("frozen=True", "frozen=False"), "Prox", "@dataclass(frozen=True)"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(
    content: str | None, name: str, message: str, dpeer: Callable[..., Any], small_task: Path
) -> None:
    path = small_task.with_name("own.py")
    if content is not None:
        path.write_text(content)
    ended = dpeer("simulate", "--size", 2, "--task", "mine.py:task", "--algorithm", f"own.py:{name}")
    assert (ended.code, ended.out) == (2, "")
    (line,) = ended.complaints
    assert line.startswith("dpeer: ")
    assert message in line
