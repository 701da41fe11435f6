"""`dpeer algorithms`: what is listed, and with which numbers; and what of an algorithm all peers must share."""

from typing import Any

import pytest

from dpeer.federation.config import resolve
from dpeer.federation.fingerprint import fingerprint
from dpeer.federation.presets import PRESETS
from dpeer.federation.settings import Settings
from dpeer.peer.core.handshake import mismatch
from dpeer.peer.core.wire import Hello
from dpeer.training import ALGORITHMS
from dpeer.training.algorithms.options import about_options
from tests.cli.command import parsed, text, words

GRADIENTS = {
    "local": 5, "dfedavgm": 5, "dfedsam": 10, "dfedmdc": 6, "dfedsmdc": 11, "dis-pfl": 5, "fedavg": 5, "fedsam": 10,
    "fedper": 5, "fedrep": 15, "fedbabu": 5, "ditto": 10, "fedrod": 5, "scaffold": 5, "fedavg-ls": 5, "fedopt": 5,
    "fafed": 10, "fedlada": 5, "localadamw": 5, "fedadamw": 5,
}  # fmt: skip
"""With 5 epochs for the body and 1 for the head; fedrep has 10 for the head by default."""


def test_json_lists_every_algorithm_as_it_describes_itself() -> None:
    assert GRADIENTS.keys() == ALGORITHMS.keys()
    found = parsed("algorithms")
    assert [entry["name"] for entry in found] == list(ALGORITHMS)
    for entry in found:
        algorithm = ALGORITHMS[entry["name"]]
        assert entry == {
            "name": algorithm.name,
            "summary": algorithm.summary,
            "paper": algorithm.paper,
            "leaves": algorithm.leaves,
            "messages": 0 if algorithm.name == "local" else 1,
            "gradients": GRADIENTS[algorithm.name],
            "defaults": dict(algorithm.defaults),
            "options": list(algorithm.uses),
            "own": {
                name: {"default": getattr(algorithm().options, name), "text": one.words}
                for name, one in about_options(algorithm).items()
            },
        }
    assert "--algorithm-option ditto_lambda=0.75 (pull of the shared model on the personal one)" in words(
        "algorithms", "ditto"
    )


def test_the_table_says_the_same() -> None:
    printed = text("algorithms")
    rows = {row[0]: row[1:] for row in map(str.split, printed.partition("Gradients:")[0].splitlines()) if row}
    found = words("algorithms")
    for name, algorithm in ALGORITHMS.items():
        assert rows[name][:2] == [str(GRADIENTS[name]), "0" if name == "local" else "1"]
        assert algorithm.leaves in found
    assert len(printed.splitlines()) < 50


def test_an_algorithm_or_a_preset_is_described_where_it_is_named() -> None:
    found = words("algorithms", *ALGORITHMS, *PRESETS)
    for name, algorithm in ALGORITHMS.items():
        assert f"{name} {algorithm.summary} {algorithm.paper}" in found
    for name, preset in PRESETS.items():
        assert f"--preset {name} " in found
        assert name in words("algorithms")
        assert preset.remark in found
        for key, value in preset.values.items():
            assert f"{key.replace('_', '-')} {0 if value is None else value}" in found


def hello(rank: int, **values: Any) -> Hello:
    agreed = fingerprint(resolve(Settings(**values), 0))
    return Hello(rank=rank, next_round=0, fingerprint=agreed, manifest={}, digest="")


@pytest.mark.parametrize(
    ("name", "default", "other"),
    [
        ("algorithm", "dfedsmdc", "dfedmdc"),
        ("weight_decay", 0.0, 0.0005),
        ("grad_clip", 1.0, 10.0),
        ("optimizer", "sgd", "adamw"),
        ("lr_schedule", "exponential", "cosine+warmup:3"),
        ("sam", "body", "both"),
        ("participation", 1.0, 0.5),
        ("compress", "float32", "bfloat16"),
    ],
)
def test_peers_that_differ_in_it_refuse_each_other_and_name_it(name: str, default: object, other: object) -> None:
    # Each optimizer has learning rates of its own.
    both: dict[str, Any] = {"body_lr": 0.05, "head_lr": 0.05} if name == "optimizer" else {}
    assert mismatch(hello(0, **both), hello(1, **both), 20) is None
    problem = mismatch(hello(0, **both), hello(1, **both, **{name: other}), 20)
    assert problem is not None
    for part in (name, f"{default!r} here", f"{other!r} at rank 1"):
        assert part in problem
