"""What a site gives away of its gain, and what it does not."""

import json
from pathlib import Path

import pytest

from dpeer.exceptions import CheckpointError, ConfigurationError
from dpeer.federation.baseline.after_run import give_away


@pytest.mark.parametrize(("rows", "refused"), [(3, ConfigurationError), (9, ConfigurationError), (10, CheckpointError)])
def test_a_gain_on_few_rows_tells_of_single_ones_and_stays_at_home(
    rows: int, refused: type[Exception], tmp_path: Path
) -> None:
    worth = {"measure": "test_loss", "rows": rows, "gain": 0.4, "low": -0.1, "high": 1.1, "verdict": "inconclusive"}
    (tmp_path / "summary.json").write_text(json.dumps({"rank": 0, "size": 2, "worth": worth}))
    # With rows enough it goes on, to the checkpoint that this folder has not.
    with pytest.raises(refused, match="below 10 a gain tells of single rows" if rows < 10 else "has no checkpoint"):
        give_away(tmp_path, tmp_path / "worth-0.json")
    assert not (tmp_path / "worth-0.json").exists()
