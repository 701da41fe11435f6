"""--wire-dtype through the whole command."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.peer.core import wire

Command = Callable[..., Any]

BODY = 4 * 6 + 6


@pytest.fixture
def simulate(dpeer: Command, small_task: Path) -> Command:
    def run(*arguments: object) -> Any:
        return dpeer(
            "simulate", "--task", "mine.py:task", "--size", 2, "--rounds", 2, "--body-epochs", 1, "--overwrite",
            *arguments,
        )  # fmt: skip

    return run


@pytest.mark.parametrize("dtype", ["bfloat16"])
@pytest.mark.parametrize(("arguments", "other"), [(("--quantize", 8), "--quantize 8"),
                                                  (("--algorithm", "dis-pfl"), "dis-pfl")])  # fmt: skip
def test_halves_are_refused_where_no_floats_travel(
    simulate: Command, dtype: str, arguments: tuple[object, ...], other: str
) -> None:
    ended = simulate("--wire-dtype", dtype, *arguments)
    assert ended.code == 2
    (line,) = ended.complaints
    assert line.startswith("dpeer: ")
    assert f"--wire-dtype {dtype} cannot be used with {other}" in line


@pytest.mark.parametrize(("dtype", "width"), [("float32", 4), ("bfloat16", 2)])
def test_halves_take_half_the_bytes(simulate: Command, in_tmp_path: Path, dtype: str, width: int) -> None:
    assert simulate("--wire-dtype", dtype, "--out", "run").code == 0
    for rank in range(2):
        text = (in_tmp_path / "run" / f"rank-{rank}" / "metrics.jsonl").read_text()
        for number, line in enumerate(map(json.loads, text.splitlines())):
            whole = wire.size(wire.encode(wire.body(b"f" * 16, rank, number, [bytes(width * BODY)], bytes(8))))
            assert line["bytes_sent"] == line["bytes_received"] == whole
            assert 0 < whole - width * BODY < 150, "the header"
