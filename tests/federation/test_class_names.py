"""The names of classes stay in the peer's own summary."""

from pathlib import Path

import pytest

from dpeer.federation.build import build
from dpeer.federation.config import resolve
from dpeer.federation.settings import Settings


@pytest.mark.parametrize("algorithm", ["dfedmdc", "dfedavgm"])
def test_a_summary_names_the_classes_and_a_hello_does_not(tmp_path: Path, algorithm: str) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("age,outcome\n" + "".join(f"{n},{('went-home', 'came-back')[n % 2]}\n" for n in range(20)))
    settings = Settings(
        size=2, task="csv", task_options={"path": str(path), "target": "outcome"}, algorithm=algorithm,
        out=tmp_path / "run",
    )  # fmt: skip
    parts = build(resolve(settings, 0))
    assert parts.facts["class_names"] == ["came-back", "went-home"]
    assert sum(parts.facts["class_counts"]) + sum(parts.facts["evaluated_class_counts"]) == 20
    message = repr((parts.fingerprint, parts.learner.manifest, parts.learner.digest))
    assert "home" not in message
