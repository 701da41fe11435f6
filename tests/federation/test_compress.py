"""--compress through the whole command."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.peer.core import wire
from dpeer.training.codecs import identity

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
        (("--compress", "int3"), "--compress = 'int3': expected float32, "),
        (("--compress", "topk:0.05"), "--compress = 'topk:0.05': expected float32, "),
        (("--compress", "powersgd:4"), "--compress = 'powersgd:4': expected float32, "),
    ],
)
def test_what_contradicts_itself_is_refused(simulate: Command, arguments: tuple[object, ...], message: str) -> None:
    ended = simulate(*arguments)
    assert ended.code == 2
    (line,) = ended.complaints
    assert line.startswith(f"dpeer: {message}")


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


def test_other_floats_on_the_wire_and_other_seeds_give_other_models(simulate: Command, in_tmp_path: Path) -> None:
    def model(*arguments: object) -> bytes:
        assert simulate(*arguments, "--alone", "never").code == 0
        return (in_tmp_path / "dpeer-run" / "rank-0" / "model.safetensors").read_bytes()

    first = model()
    assert first == model("--compress", "float32", "--seed", 0)
    assert len({first, model("--compress", "bfloat16"), model("--compress", "float16"), model("--seed", 4)}) == 4
