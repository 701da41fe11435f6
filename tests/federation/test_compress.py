"""--compress through the whole command."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.training.codecs import identity

Command = Callable[..., Any]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--compress", "bfloat16", "--algorithm", "dis-pfl"), "--compress bfloat16, --robust none"),
        (("--compress", "int3"), "--compress = 'int3': expected float32, "),
        (("--compress", "topk:0.05"), "--compress = 'topk:0.05': expected float32, "),
        (("--compress", "powersgd:4"), "--compress = 'powersgd:4': expected float32, "),
    ],
)
def test_what_contradicts_itself_is_refused(dpeer: Command, arguments: tuple[object, ...], message: str) -> None:
    ended = dpeer("simulate", "--size", 2, *arguments)
    assert ended.code == 2
    (line,) = ended.complaints
    assert line.startswith(f"dpeer: {message}")


def test_peers_compare_the_name_of_a_codec_and_the_source_of_a_class() -> None:
    assert identity("int8") == {"compress": "int8"}
    own = identity(f"{Path(__file__).parents[2] / 'examples' / 'own_codec.py'}:OneByte")
    assert own["compress"] == "OneByte"
    assert len(own["codec's source"]) == 64
