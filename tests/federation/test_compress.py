"""--compress, and the settings of earlier versions that it replaces, through the whole command."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.experiments.grid_search import parse_axis
from dpeer.experiments.variants import parse_variant
from dpeer.federation.config import load
from dpeer.federation.settings import Settings
from dpeer.peer.core import wire
from dpeer.training.codecs import identity
from dpeer.training.compress_setting import OLDER

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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--compress", "bfloat16", "--algorithm", "dis-pfl"), "--compress bfloat16 cannot be used with dis-pfl"),
        (("--wire-dtype", "bfloat16", "--quantize", 8), "--wire-dtype bfloat16 cannot be used with --quantize 8"),
        (("--compress", "int4", "--quantize", 8), "--compress int4 cannot be used with --quantize 8"),
        (("--codec", "int8", "--wire-dtype", "float16"), "--codec int8 cannot be used with --wire-dtype float16"),
        (("--compress", "int3"), "--compress = 'int3': expected float32, "),
        (("--compress", "topk:0.05"), "--compress = 'topk:0.05': expected float32, "),
        (("--compress", "powersgd:4"), "--compress = 'powersgd:4': expected float32, "),
        (("--quantize", 3), "--quantize 3: expected 4, 8, 16, or --compress in its place"),
        (
            ("--wire-dtype", "int8"),
            "--wire-dtype int8: expected float32, bfloat16, float16, or --compress in its place",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(simulate: Command, arguments: tuple[object, ...], message: str) -> None:
    ended = simulate(*arguments)
    assert ended.code == 2
    (line,) = ended.complaints
    assert line.startswith(f"dpeer: {message}")


@pytest.mark.parametrize(
    ("older", "today"),
    [
        ({"quantize": 8}, "int8"),
        ({"wire_dtype": "float16"}, "float16"),
        ({"wire_dtype": "float32", "quantize": 4}, "int4"),
        ({"codec": "int16", "quantize": 16}, "int16"),
        ({"codec": "mine.py:Mine"}, "mine.py:Mine"),
        ({"compress": "int8", "quantize": 8}, "int8"),
        ({}, "float32"),
    ],
)
def test_settings_of_earlier_versions_say_what_they_said(older: dict[str, Any], today: str, in_tmp_path: Path) -> None:
    assert Settings(**older).compress == today
    flags = {**dict.fromkeys(("compress", *OLDER)), **older}
    assert load(None, flags).compress == today
    Path("dpeer.toml").write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in older.items()))
    assert load(None, {}).compress == today
    assert load(None, {"compress": "bfloat16"}).compress == "bfloat16", "a flag wins over the file"
    assert load(None, {"quantize": 8}).compress == "int8"


def test_rows_and_grids_of_a_comparison_take_them_too() -> None:
    assert parse_variant("dfedavgm:quantize=8").changes == {"compress": "int8"}
    assert parse_variant("dfedavgm:compress=int4:rho=0.2").changes == {"compress": "int4", "rho": 0.2}
    axis = parse_axis("quantize=4,8")
    assert (axis.names, axis.values) == (("compress",), ("int4", "int8"))


def test_peers_compare_the_name_of_a_codec_and_the_source_of_a_class() -> None:
    assert identity("int8") == {"compress": "int8"}
    own = identity(f"{Path(__file__).parents[2] / 'examples' / 'own_codec.py'}:OneByte")
    assert own["compress"] == "OneByte"
    assert len(own["codec's source"]) == 64


@pytest.mark.parametrize(("dtype", "width"), [("float32", 4), ("bfloat16", 2)])
def test_halves_take_half_the_bytes(simulate: Command, in_tmp_path: Path, dtype: str, width: int) -> None:
    assert simulate("--compress", dtype, "--out", "run").code == 0
    for rank in range(2):
        text = (in_tmp_path / "run" / f"rank-{rank}" / "metrics.jsonl").read_text()
        for number, line in enumerate(map(json.loads, text.splitlines())):
            body = wire.body(b"f" * 16, rank, number, [bytes(width * BODY)], bytes(16), bytes(8), uses=b"0")
            whole = wire.size(wire.encode(body))
            assert line["bytes_sent"] == line["bytes_received"] == whole
            assert 0 < whole - width * BODY < 150, "the header"
