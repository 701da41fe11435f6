"""A run's folder, read in whatever state it is; its files and the texts of its figures."""

import json
import math
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dpeer.atomic import replacing
from dpeer.results.card import measured
from dpeer.results.figures import called, in_order, in_words, interval, value
from dpeer.results.files import make_folder, parse, rank_folder, write_json
from dpeer.results.records import RoundRecord
from dpeer.results.run_folders import (
    RunFolder,
    find_runs,
    read_metrics,
    read_peer_summary,
    read_run,
    read_run_summary,
)

LINE: dict[str, Any] = {
    "accuracy": 0.5, "accuracy_trained": 0.25, "test_loss": 1.5, "metrics": {"accuracy": 0.5}, "train_loss": 0.75,
    "bytes_sent": 10, "bytes_received": 20, "active": True, "diverged": False, "samples": 60,
}  # fmt: skip


def write_peer(out: Path, rank: int, rounds: int, summary: dict[str, Any] | None = None) -> Path:
    """A peer's files; without a summary where none is given."""
    folder = rank_folder(out, rank)
    folder.mkdir(parents=True)
    lines = [json.dumps({"round": number, **LINE}) + "\n" for number in range(rounds)]
    (folder / "metrics.jsonl").write_text("".join(lines))
    if summary is not None:
        write_json(folder / "summary.json", {"rank": rank, "status": "done", "completed_rounds": rounds, **summary})
    return folder


def write_summary(out: Path, **content: Any) -> None:
    write_json(out / "summary.json", {"algorithm": "dfedmdc", "size": 2, "status": "done", **content})


def read(folder: Path) -> RunFolder:
    run = read_run(folder)
    assert run is not None
    return run


def test_a_run_has_the_values_of_its_files(tmp_path: Path) -> None:
    for rank in range(2):
        own = {"accuracy": 0.5 + rank / 4, "training_samples": 7, "class_counts": [3, 4]}
        write_peer(tmp_path, rank, 3, own)
    write_summary(
        tmp_path, rounds=3, seed=5, completed_rounds=[3, 3], bytes_sent=4 * 10**9, settings={"partition": None},
        partition="iid", consensus_distance=1.25,
    )  # fmt: skip
    run = read(tmp_path)
    assert (run.status, run.notes(), run.size, run.completed, run.source) == ("done", [], 2, 3, 0)
    assert (run.summary.rounds, run.summary.bytes_sent, run.bytes_sent) == (3, 4 * 10**9, 4 * 10**9)
    assert run.settings == {"partition": "iid", "size": 2, "algorithm": "dfedmdc", "rounds": 3, "seed": 5}
    assert (run.finals("accuracy"), run.finals("test_loss")) == ({0: 0.5, 1: 0.75}, {0: 1.5, 1: 1.5})
    assert run.by_round("accuracy_trained") == {number: [0.25, 0.25] for number in range(3)}
    assert run.distance == 1.25
    one = run.peers[1].summary
    assert (one.training_samples, one.class_counts, one.accuracy_trained, one.lost) == (7, (3, 4), None, {})
    assert [line.samples for line in run.peers[0].entries.values()] == [60] * 3


def test_runs_are_found_once_and_know_which_folder_they_were_found_in(tmp_path: Path) -> None:
    for name in ("a/cell-10", "a/cell-2", "a/tune/trial", "b/run", "b/run/of-its-own"):
        (tmp_path / name).mkdir(parents=True)
        write_json(tmp_path / name / "summary.json", {"algorithm": "local", "size": 1})
    found = find_runs([tmp_path / "a", tmp_path / "b", tmp_path / "a" / "cell-2"])
    assert [(str(run.folder.relative_to(tmp_path)), run.source) for run in found] == [
        ("a/cell-2", 0), ("a/cell-10", 0), ("b/run", 1),
    ]  # fmt: skip


def test_a_line_is_read_as_a_peer_has_written_it() -> None:
    record = RoundRecord(
        round=4, accuracy=0.5, test_loss=1.5, metrics={"accuracy": 0.5}, accuracy_trained=0.25, train_loss=0.75,
        bytes_sent=10, bytes_received=20, heard=[1], missed=[], train_seconds=1.0, exchange_seconds=1.0,
        mix_seconds=1.0, samples=7, steps=[5], steps_asked=[6], epsilon=2.0, delta=1e-5, privacy={"epsilon": 2.0},
    )  # fmt: skip
    assert RoundRecord.of(record.as_dict()) == record
    assert RoundRecord.of({"round": 3}) == RoundRecord(round=3)
    damaged = {"round": 3, "accuracy": math.nan, "heard": [1, -2], "steps": None, "active": 0, "bytes_sent": 10**12}
    assert RoundRecord.of(damaged) == RoundRecord(round=3, bytes_sent=10**12)


def test_damaged_lines_are_counted_and_of_two_of_one_round_the_later_counts(tmp_path: Path) -> None:
    folder = write_peer(tmp_path, 0, 2)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('[]\n\n{"round": "x"}\n{"round": 1, "accuracy": 0.75}\n\x00\x00\n{"round": 2, "accu')
    metrics = read_metrics(folder)
    assert [line.round for line in metrics.lines] == [0, 1, 1]
    assert (metrics.damaged, metrics.torn) == (4, True)
    assert {number: line.accuracy for number, line in metrics.by_round.items()} == {0: 0.5, 1: 0.75}
    assert read(tmp_path).notes() == [
        "unfinished: 2 rounds completed by every peer that left files", "4 damaged lines left out (rank 0)",
    ]  # fmt: skip
    (folder / "metrics.jsonl").write_text('{"round": 0}')
    assert (len(read_metrics(folder).lines), read_metrics(folder).torn) == (1, False), "it can be read"


def test_a_file_of_rounds_that_cannot_be_opened_is_damage(tmp_path: Path) -> None:
    assert (read_metrics(tmp_path).lines, read_metrics(tmp_path).damaged) == ((), 0)
    (tmp_path / "metrics.jsonl").mkdir()
    assert (read_metrics(tmp_path).lines, read_metrics(tmp_path).damaged) == ((), 1)


def test_a_damaged_value_costs_only_itself(tmp_path: Path) -> None:
    for content in ("", "{", "[1]", "{}", "\x00"):
        (tmp_path / "summary.json").write_text(content)
        assert read_peer_summary(tmp_path) is read_run_summary(tmp_path) is None
    write_json(tmp_path / "summary.json", {"accuracy": "high", "class_counts": [1, -2], "task": 7, "bytes_sent": 5})
    summary = read_peer_summary(tmp_path)
    assert summary.accuracy is summary.class_counts is summary.task is None
    assert (summary.bytes_sent, summary.status, summary.settings) == (5, "done", {})


def test_the_summary_of_an_earlier_part_does_not_speak_of_a_run_that_went_on(tmp_path: Path) -> None:
    write_peer(tmp_path, 0, 3)
    write_peer(tmp_path, 1, 2, {})
    write_summary(tmp_path, status="stopped", completed_rounds=[2, 2])
    run, earlier = read(tmp_path), read_run_summary(tmp_path)
    assert (run.status, run.summary, run.completed) == ("unfinished", None, 2)
    assert earlier.completed_rounds == (2, 2)


def test_files_of_peers_on_many_hosts_are_a_run_without_a_summary(tmp_path: Path) -> None:
    write_peer(tmp_path, 0, 2, {"bytes_sent": 20, "wall_seconds": 3.0})
    write_peer(tmp_path, 2, 2, {"wall_seconds": 4.0, "status": "stopped"})
    run = read(tmp_path)
    assert (run.status, run.size, run.bytes_sent, run.wall_seconds) == ("stopped", 3, 40, 4.0)
    assert run.notes()[-1] == "1 of 3 peers left no files here (rank 1)"


def test_the_names_of_new_folders_are_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a power loss could take away what a rank has written of its releases."""
    flushed: list[int] = []
    real = os.fsync

    def noted(descriptor: int) -> None:
        found = os.fstat(descriptor)
        assert stat.S_ISDIR(found.st_mode)
        flushed.append(found.st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    make_folder(tmp_path / "run" / "of" / "rank-0")
    above = [tmp_path, tmp_path / "run", tmp_path / "run" / "of"]
    assert {one.stat().st_ino for one in above} == set(flushed)
    flushed.clear()
    make_folder(tmp_path / "run" / "of" / "rank-0")
    make_folder(tmp_path / "run" / "of" / "rank-1")
    assert flushed == [(tmp_path / "run" / "of").stat().st_ino]


@pytest.mark.parametrize("planted", [True, False])
def test_a_file_is_replaced_whole_and_a_planted_link_is_not_followed(tmp_path: Path, planted: bool) -> None:
    path, other = tmp_path / "worth-0.json", tmp_path / "other"
    other.write_text("another's")
    draft = tmp_path / ".worth-0.json.tmp"
    draft.symlink_to(other) if planted else draft.write_text("left by a killed process")
    write_json(path, {"gain": 0.1})
    assert parse(path.read_text()) == {"gain": 0.1}
    assert other.read_text() == "another's"
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)
    with suppress(ValueError), replacing(path) as draft:
        draft.write_text("new")
        raise ValueError
    assert parse(path.read_text()) == {"gain": 0.1}, "a draft that fails leaves the old file"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["other", "worth-0.json"], "and nothing else"


def test_figures_have_names_and_texts() -> None:
    assert [called(name) for name in ("auroc", "r2", "my_own")] == ["AUROC", "R2", "my own"]
    assert list(in_order({"mine": 1, "auroc": 2, "accuracy": 3})) == ["accuracy", "auroc", "mine"]
    assert interval({"low": 0.25, "high": 0.5}) == "0.2500 to 0.5000"
    assert interval({"value": 1.0, "low": None, "high": None}) == "-"
    assert [value({"value": one}) for one in (None, 0.5)] == ["undefined", "0.5000"]
    assert in_words({"auroc": 0.5, "dice": None, "f1": 1.0}) == "AUROC 0.5000, F1 1.0000"
    assert measured({"metrics": {"values": {"auroc": {"value": 0.5, "low": 0.1, "high": 0.9}}}}) == {"auroc": 0.5}
    assert measured({"metrics": None}) is measured({}) is None
