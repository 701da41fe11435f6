"""Records of a peer that has ended: receivers that follow from the graph."""

import json
from pathlib import Path

from dpeer.api import run
from dpeer.exceptions import ConfigurationError
from dpeer.federation.settings import Settings
from dpeer.federation.site_records import read
from tests.error_texts import refused


def test_receivers_are_those_of_all_rounds_by_a_graph_that_is_the_runs(task: str, in_tmp_path: Path) -> None:
    out = in_tmp_path / "run"
    run(Settings(task=task, topology="one-peer-exponential", size=4, rounds=3, local_steps=1, alone="never", out=out))
    (out / "disagreement.jsonl").unlink()  # a simulation's, without which the folder is as a peer leaves it
    found = read(out / "rank-0")
    assert (found.receivers, found.releases) == ((1, 2), 3)
    summary = out / "rank-0" / "summary.json"
    content = json.loads(summary.read_text())
    content["settings"]["topology"] = "ring"
    summary.write_text(json.dumps(content))
    with refused(ConfigurationError, "'ring' is another graph than that of the run"):
        read(out / "rank-0")
