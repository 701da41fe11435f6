"""A site's policy in a real process: a start that breaks it."""

import hashlib
import json
from pathlib import Path
from typing import Any

from tests.conftest import SMALL_TASK


def test_a_start_that_breaks_a_rule_ends_before_anything_is_read_or_removed(
    dpeer: Any, dpeer_command: Any, in_tmp_path: Path
) -> None:
    Path("mine.py").write_text(f"{SMALL_TASK}\nfrom pathlib import Path\nPath('read').touch()\n")
    Path("dpeer.toml").write_text("size = 2\ntask = 'mine.py:task'\n[rank.0]\nserve = '0'\n")
    digest = hashlib.sha256(Path("mine.py").read_bytes()).hexdigest()
    Path("site.toml").write_text(f"tasks = ['sha256:{digest}']\nserve = false\n")
    earlier = Path("dpeer-run/rank-0/metrics.jsonl")
    earlier.parent.mkdir(parents=True)
    earlier.write_text("{}\n")
    started = dpeer_command("start", "--rank", 0, "--policy", "site.toml", "--overwrite")
    assert started.wait() == 2
    assert started.output == (
        f'dpeer: policy {in_tmp_path}/site.toml: serve = false forbids serve = "0" ([rank.0] of dpeer.toml)\n'
    )
    checked = dpeer("check", "--rank", 0, "--policy", "site.toml", "--overwrite", "--json")
    assert checked.code == 1
    found = [one for one in json.loads(checked.out)["findings"] if one["check"] == "policy"]
    assert [one["level"] for one in found] == ["PASS", "FAIL"]
    assert json.loads(checked.out)["findings"][-1] == found[-1], "nothing else is looked at"
    assert earlier.exists()
    assert not Path("read").exists()
