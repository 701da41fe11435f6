"""Records of a peer that has ended: copies that follow from bytes, and receivers that follow from the graph."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file

from dpeer.api import run
from dpeer.federation.settings import Settings
from dpeer.federation.site_records import SiteRecords, read
from dpeer.results.records import Metrics, RoundRecord


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rank 0's folder of four rounds on a graph that changes, as a peer leaves it."""
    out = tmp_path_factory.mktemp("records") / "run"
    graph: dict[str, Any] = {"topology": "one-peer-exponential", "size": 4}
    run(Settings(**graph, rounds=3, local_steps=1, alone="never", out=out))
    (out / "disagreement.jsonl").unlink()
    return out / "rank-0"


def sent(records: SiteRecords, *lengths: int) -> SiteRecords:
    lines = tuple(RoundRecord(round=number, bytes_sent=length) for number, length in enumerate(lengths))
    return replace(records, metrics=Metrics(lines), body_bytes=1000)


def test_copies_follow_from_bytes_of_like_bodies_alone(folder: Path) -> None:
    found = read(folder)
    assert (found.releases, found.copies) == (3, 3)
    assert sent(found, 2000, 0, 995).copies == 3, "a header may be shorter by some bytes"
    assert sent(found, 2000, 0, 900).copies is None, "a body of another length"
    assert sent(found, 2000, 1000).copies is None, "a line is missing"
    assert sent(found, 40_000, 0, 0).copies is None, "so many that their slack is a copy"
    assert replace(found, body_bytes=None).copies is None


def test_receivers_are_those_of_all_rounds_by_a_graph_that_is_the_runs(folder: Path, tmp_path: Path) -> None:
    assert read(folder).receivers == (1, 2)
    other = Path(shutil.copytree(folder, tmp_path / "rank-0"))
    content = json.loads((other / "summary.json").read_text())
    content["settings"]["topology"] = "ring"
    (other / "summary.json").write_text(json.dumps(content))
    assert read(other).receivers == (1,), "those of the last body: the ring is another graph"
    shutil.rmtree(other / "checkpoint")
    assert read(other).receivers is None


def test_a_model_that_does_not_add_up_gives_no_tensors(folder: Path, tmp_path: Path) -> None:
    whole = read(folder)
    other = Path(shutil.copytree(folder, tmp_path / "rank-0"))
    shutil.rmtree(other / "checkpoint")
    found = read(other)
    assert (found.sent, found.stayed, found.troubles) == (whole.sent, whole.stayed, ("checkpoint/ is missing",))
    card = json.loads((other / "model.json").read_text())
    (other / "model.json").write_text(json.dumps(card | {"blend": {"weights": [0.5, 0.5]}}))
    values = load_file(other / "model.safetensors")
    blend = {f"members.{number}.{name}": value for number in range(2) for name, value in values.items()}
    save_file(blend, other / "model.safetensors")
    found = read(other)
    assert (found.sent, found.stayed) == (whole.sent, whole.stayed), "of a blend the federated member's"
    (other / "model.json").unlink()
    found = read(other)
    assert (found.sent, found.stayed) == (None, None), "which part is the head stands in the card"
