"""The comparison of two checkouts' results finds a bit of a model, a number and a line of a ledger."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from dpeer.training import ALGORITHMS
from tests.sameness import STATED, compare, settings


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    """Results of a private run with a checkpoint, twice."""
    old, new = tmp_path / "old", tmp_path / "new"
    rank = old / "run/rank-0"
    (rank / "checkpoint/round-00000001").mkdir(parents=True)
    (old / "done.json").write_text(json.dumps({"commands": ["simulate --privacy client"], "codes": [0]}))
    (old / "private-reads-0.json").write_text('{"0": [32, 32]}')
    for name in ("output-0.err", "output-0.txt"):
        (old / name).write_text("words for people\n")
    save_file({"body": torch.ones(3), "head": torch.zeros(2, 2)}, rank / "model.safetensors")
    (rank / "checkpoint/round-00000001/released-1.bin").write_bytes(b"\x00\x01")
    (rank / "metrics.jsonl").write_text('{"round": 0, "accuracy": 0.5, "train_seconds": 1.0}\n')
    (rank / "ledger.jsonl").write_text('{"round": 0, "time": 1.0, "sha256": "ab"}\n')
    shutil.copytree(old, new)
    return old, new


def changed(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda side: (side / name).write_bytes(change((side / name).read_bytes()))


@pytest.mark.parametrize(
    ("change", "kind", "named"),
    [
        (lambda side: None, "same", "values"),
        (changed("run/rank-0/ledger.jsonl", lambda text: text.replace(b"1.0", b"2.0")), "same", "values"),
        (
            changed("run/rank-0/model.safetensors", lambda data: data[:-1] + bytes([data[-1] ^ 1])),
            "differs",
            "rank-0/model.safetensors head",
        ),
        (changed("run/rank-0/metrics.jsonl", lambda text: text.replace(b"0.5", b"0.51")), "differs", "0.accuracy: 0.5"),
        (changed("run/rank-0/ledger.jsonl", lambda text: text + text), "differs", "ledger.jsonl.1.sha256: lacking"),
        (changed("private-reads-0.json", lambda _: b"{}"), "not comparable", "new: no private bits"),
        (changed("done.json", lambda text: text.replace(b"[0]", b"[1]")), "differs", "ends with 0 -> 1"),
    ],
)
def test_what_differs_is_named(
    change: Callable[[Path], object], kind: str, named: str, sides: tuple[Path, Path]
) -> None:
    change(sides[1])
    found, more = compare(*sides)
    assert found == kind
    assert named in more


def test_an_option_that_one_side_lacks_is_not_compared(sides: tuple[Path, Path]) -> None:
    (sides[0] / "done.json").write_text(json.dumps({"commands": ["simulate --new"], "codes": [2]}))
    (sides[0] / "output-0.err").write_text("dpeer: No such option '--new'.\n")
    assert compare(*sides) == ("not comparable", "old: dpeer: No such option '--new'.")


def test_every_algorithm_is_among_the_settings() -> None:
    assert set(ALGORITHMS) <= settings(None).keys()


def test_what_is_listed_as_gone_may_be_lacking_and_not_be_new_or_another(
    sides: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(STATED, "gone", {r"metrics\.jsonl\.0\.accuracy$": "no longer measured"})
    old, new = sides
    changed("run/rank-0/metrics.jsonl", lambda text: text.replace(b'"accuracy": 0.5, ', b""))(new)
    left_out = Counter[str]()
    assert compare(old, new, left_out=left_out)[0] == "same"
    assert left_out == {r"gone: no longer measured (metrics\.jsonl\.0\.accuracy$)": 1}
    assert compare(new, old)[0] == "differs"
    changed("run/rank-0/metrics.jsonl", lambda text: text.replace(b'"round": 0, ', b'"accuracy": 0.6, '))(new)
    assert compare(old, new)[0] == "differs"
