"""A rank's folder: which fingerprints a checkpoint goes on with."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import CheckpointError, TaskError
from dpeer.peer.config import PeerConfig
from dpeer.peer.core import wire
from dpeer.peer.core.bodies import Outbox
from dpeer.peer.learner import SaveCopy
from dpeer.peer.rank_folder import RankFolder

OURS = {"size": 2, "rounds": 4, "body_lr": 0.1}


class Silent:
    """A learner that has nothing to save."""

    best_round: int | None = None
    kept_point = "mixed"
    finite = True
    privacy = None

    def write_model(self, path: Path) -> None:
        path.touch()

    def card(self) -> dict[str, Any]:
        return {}

    def start_over(self) -> None: ...

    def copied(self) -> SaveCopy:
        return lambda directory: None

    def load(self, directory: Path) -> None: ...


def folder(
    out: Path, fingerprint: dict[str, Any], *, resume: bool = False, learner: Silent | None = None,
    warn: Callable[[str], None] = lambda message: None,
) -> RankFolder:  # fmt: skip
    config = PeerConfig(0, 4, None, fingerprint, out=out, resume=resume)
    return RankFolder(config, learner or Silent(), Outbox(), {}, {}, warn)


def run(files: RankFolder, *numbers: int) -> None:
    """Complete and save these rounds."""
    for number in numbers:
        files.complete({"round": number, "accuracy": number / 10, "bytes_sent": 5, "heard": [1]})
        files.save()


def of_summary(out: Path, *names: str) -> list[Any]:
    summary = json.loads((out / "summary.json").read_text())
    return [summary[name] for name in names]


def _delete(metrics: Path) -> None:
    metrics.unlink()


def _damage(metrics: Path) -> None:
    """The middle one of three lines."""
    metrics.write_bytes(metrics.read_bytes().replace(b'"round": 1', b'"rou\xff\xfe: 1'))


def _tear(metrics: Path) -> None:
    with metrics.open("a") as file:
        file.write('{"round": 3, "acc')


@pytest.mark.parametrize(
    ("change", "expected", "missing"),
    [
        (_delete, "it is not there any more", 3),
        (_damage, "1 damaged line is left out; it lacks the line of round 2", 1),
        (_tear, "its last line has no end .* and is cut", 0),
    ],
)
def test_a_resumed_run_goes_on_with_damaged_metrics_and_loses_no_figure(
    change: Callable[[Path], None], expected: str, missing: int, tmp_path: Path
) -> None:
    learner = Silent()
    first = folder(tmp_path, OURS)
    first.take_up()
    first.begin()
    run(first, 0, 1, 2)
    change(tmp_path / "metrics.jsonl")
    warnings: list[str] = []
    second = folder(tmp_path, OURS, resume=True, learner=learner, warn=warnings.append)
    assert second.take_up() == 3
    second.begin()
    assert second.completed == 3
    run(second, 3)
    second.conclude("done")
    assert of_summary(tmp_path, "completed_rounds", "bytes_sent", "rounds_mixed") == [4, 20, 4]
    assert of_summary(tmp_path, "metrics_missing", "accuracy") == [missing, 0.3]
    assert len(warnings) == 1
    assert re.search(f"metrics.jsonl': {expected}; the run goes on", warnings[0])
    lines = [json.loads(line)["round"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == {0: [0, 1, 2, 3], 1: [0, 2, 3], 3: [3]}[missing]


def test_what_happens_to_metrics_in_mid_run_is_said_once_counted_and_costs_no_figure(tmp_path: Path) -> None:
    learner, warnings = Silent(), list[str]()
    files = folder(tmp_path, OURS, learner=learner, warn=warnings.append)
    files.take_up()
    files.begin()
    learner.best_round = 0
    run(files, 0)
    (tmp_path / "metrics.jsonl").unlink()
    run(files, 1, 2)
    (tmp_path / "metrics.jsonl").rename(tmp_path / "metrics.jsonl.1")
    run(files, 3)
    files.conclude("done")
    assert of_summary(tmp_path, "completed_rounds", "metrics_missing", "bytes_sent") == [4, 3, 20]
    assert of_summary(tmp_path, "kept_round", "accuracy") == [0, 0.0], "the best round's line is known all the same"
    assert len(warnings) == 1
    assert re.search("metrics.jsonl' was deleted in mid-run: leave it alone until the run ends", warnings[0])


def test_what_happens_to_metrics_after_the_last_round_is_said_too(tmp_path: Path) -> None:
    warnings: list[str] = []
    files = folder(tmp_path, OURS, warn=warnings.append)
    files.take_up()
    files.begin()
    run(files, 0, 1, 2, 3)
    (tmp_path / "metrics.jsonl").unlink()
    files.conclude("done")
    assert of_summary(tmp_path, "metrics_missing") == [4]
    assert len(warnings) == 1


def test_a_run_that_failed_leaves_its_summary_also_where_the_model_cannot_be_measured(tmp_path: Path) -> None:
    class Failing(Silent):
        def card(self) -> dict[str, Any]:
            raise TaskError("the task's data cannot be read")

    files = folder(tmp_path, OURS, learner=Failing())
    files.take_up()
    files.begin()
    run(files, 0, 1)
    with pytest.raises(TaskError):
        files.conclude("done")
    assert not (tmp_path / "summary.json").exists()
    (tmp_path / "model.json").write_text("{}")  # of an earlier model
    with pytest.raises(TaskError):
        files.conclude("failed")
    assert of_summary(tmp_path, "status", "completed_rounds") == ["failed", 2]
    assert (tmp_path / "model.safetensors").exists()
    assert not (tmp_path / "model.json").exists()


@pytest.mark.parametrize(("more", "accepted"), [({}, True), ({"rounds": 3}, True), ({"body_lr": 0.2}, False)])
def test_a_run_goes_on_with_more_rounds_and_with_no_other_settings(
    more: dict[str, Any], accepted: bool, tmp_path: Path
) -> None:
    first = folder(tmp_path, OURS | more)
    first.take_up()
    first.begin()
    run(first, 0)
    second = folder(tmp_path, OURS, resume=True)
    if accepted:
        assert second.take_up() == 1
        return
    with pytest.raises(CheckpointError):
        second.take_up()
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 1


def test_a_body_that_is_sent_again_is_of_the_federation_as_it_is_resumed(tmp_path: Path) -> None:
    """Neighbors that have the same, larger number of rounds would drop one of another federation."""
    first = folder(tmp_path, OURS | {"rounds": 3})
    first.take_up()
    first.begin()
    sent = wire.encode(wire.body(wire.federation_id(OURS | {"rounds": 3}), 0, 0, [b"12345678", b"abc"]))
    first.outbox.add(0, sent, (1,))
    first.complete({"round": 0})
    first.save()
    second = folder(tmp_path, OURS, resume=True)
    second.take_up()
    found = wire.decode([bytes(frame) for frame in second.outbox.frames[0]], wire.Limits(payload_bytes=100))
    assert isinstance(found, wire.Body)
    assert (found.federation, found.rank, found.round) == (wire.federation_id(OURS), 0, 0)
    assert found.buffers is not None
    assert b"".join(bytes(part) for part in found.buffers) == b"12345678abc"  # pragma: allowlist secret
    again = folder(tmp_path, OURS | {"rounds": 3}, resume=True)
    again.take_up()
    assert [bytes(frame) for frame in again.outbox.frames[0]] == [bytes(frame) for frame in sent]
