"""Whether inputs are scaled where nobody says: by task, and never under privacy."""

from pathlib import Path
from typing import Any

import pytest

from dpeer.federation.build import build
from dpeer.federation.config import resolve
from dpeer.federation.settings import Settings

PRIVATE: dict[str, Any] = {"privacy": "client", "noise_multiplier": 2.0}


def scales(folder: Path, **values: Any) -> bool:
    """Whether a peer's model scales its inputs by own statistics; what peers compare must say the same."""
    (folder / "x.csv").write_text("a,b,y\n" + "".join(f"{n},{1000 * n},{n % 2}\n" for n in range(40)))
    options = {"path": str(folder / "x.csv"), "target": "y", "columns": "a,b", "classes": "0,1"}
    if values.get("task", "csv") != "csv":
        options = {}
    settings = Settings(**{"task": "csv", "task_options": options, "size": 2, "out": folder / "run", **values})
    parts = build(resolve(settings, 0))
    found = any(name.endswith("input_mean") for name, _ in parts.learner.trainer.module.named_buffers())
    assert parts.fingerprint["standardize"] is found
    return found


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, True),
        ({"standardize": False}, False),
        (PRIVATE, False),
        (PRIVATE | {"standardize": True}, True),
        ({"task": "digits"}, False),
        ({"task": "digits", "standardize": True}, True),
    ],
)
def test_inputs_of_tables_are_scaled_unless_somebody_says_otherwise(
    tmp_path: Path, values: dict[str, Any], expected: bool
) -> None:
    assert scales(tmp_path, **values) is expected


def test_large_values_to_predict_are_said(tmp_path: Path) -> None:
    for largest, expected in ((1000, True), (2, False)):
        path = tmp_path / f"{largest}.csv"
        path.write_text("a,cost\n" + "".join(f"{n},{largest * n / 39}\n" for n in range(40)))
        options = {"path": str(path), "target": "cost", "kind": "regression"}
        parts = build(resolve(Settings(task="csv", task_options=options, size=2, out=tmp_path / "run"), 0))
        assert any(note.startswith("cost goes up to ") for note in parts.notes) is expected
