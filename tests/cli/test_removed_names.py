"""Names of earlier versions are refused in one line that says what to do instead, and none of them is in use."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.federation.removed_names import COMMANDS, FLAGS, KEYS, VALUES
from tests.surface import FILE

LINES = FILE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_went_says_what_to_do_instead(name: str, dpeer: Callable[..., Any]) -> None:
    for more in ((), ("--json",), ("--size", "8")):
        ended = dpeer(*name.split(), *more)
        (line,) = ended.complaints
        assert (ended.code, ended.out) == (2, "")
        assert line == f"dpeer: {name} has been removed: {COMMANDS[name]}"
    assert f"command {name}" not in LINES


@pytest.mark.parametrize("name", [*FLAGS, *(f"--{name.replace('_', '-')}" for name in KEYS)])
def test_a_flag_that_went_says_what_to_do_instead(name: str, dpeer: Callable[..., Any]) -> None:
    command = "compare" if f"flag compare {name}" not in LINES else "start"
    ended = dpeer(command, name, "1")
    (line,) = ended.complaints
    assert ended.code == 2
    assert line.startswith(f"dpeer: {name} has been removed: ")
    assert len(line) <= 200


@pytest.mark.parametrize("name", KEYS)
def test_a_key_that_went_says_what_to_do_instead(name: str, dpeer: Callable[..., Any], in_tmp_path: Path) -> None:
    Path("dpeer.toml").write_text(f"{name} = 1\n")
    ended = dpeer("simulate", "--size", 2)
    (line,) = ended.complaints
    assert (ended.code, line) == (2, f"dpeer: {name} in dpeer.toml has been removed: {KEYS[name]}")
    assert f"setting {name}" not in LINES


@pytest.mark.parametrize(("name", "value"), VALUES)
def test_a_value_that_went_says_what_to_do_instead(
    name: str, value: str, dpeer: Callable[..., Any], in_tmp_path: Path
) -> None:
    flag = f"--{name.replace('_', '-')}"
    (line,) = dpeer("simulate", "--size", 2, flag, value).complaints
    assert line == f"dpeer: {flag} {value} has been removed: {VALUES[name, value]}"
    Path("dpeer.toml").write_text(f'{name} = "{value}"\n')
    (line,) = dpeer("simulate", "--size", 2).complaints
    assert line == f"dpeer: {name} in dpeer.toml = {value!r} has been removed: {VALUES[name, value]}"
