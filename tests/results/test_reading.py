"""A run's folder, read in whatever state it is."""

import json
from pathlib import Path
from typing import Any

import pytest

from dpeer.results.files import rank_folder, write_json
from dpeer.results.reading import read_distances, read_metrics, read_peer_summary, read_run, read_run_summary
from dpeer.results.records import Line, RoundRecord

LINE: dict[str, Any] = {
    "accuracy": 0.5, "accuracy_trained": 0.25, "test_loss": 1.5, "metrics": {"accuracy": 0.5}, "train_loss": 0.75,
    "bytes_sent": 10, "bytes_received": 20, "active": True, "diverged": False, "samples": 60,
}  # fmt: skip


def write_peer(out: Path, rank: int, rounds: int, summary: dict[str, Any] | None = None, **line: Any) -> Path:
    """A peer's files; without a summary where none is given."""
    folder = rank_folder(out, rank)
    folder.mkdir(parents=True)
    lines = [json.dumps({"round": number, **LINE, **line}) + "\n" for number in range(rounds)]
    (folder / "metrics.jsonl").write_text("".join(lines))
    if summary is not None:
        write_json(folder / "summary.json", {"rank": rank, "status": "done", "completed_rounds": rounds, **summary})
    return folder


def write_summary(out: Path, **content: Any) -> None:
    write_json(out / "summary.json", {"algorithm": "dfedmdc", "size": 2, "status": "done", **content})


def test_a_run_is_what_its_files_say(tmp_path: Path) -> None:
    for rank in range(2):
        write_peer(
            tmp_path,
            rank,
            3,
            {
                "accuracy": 0.5 + rank / 4,
                "training_samples": 7,
                "class_counts": [3, 4],
                "class_names": ["ill", "well"] if rank else ["ill", 3],
            },
        )
    write_summary(
        tmp_path, rounds=3, seed=5, completed_rounds=[3, 3], bytes_sent=4 * 10**9, settings={"partition": None},
        partition="iid", consensus_distance=1.25,
    )  # fmt: skip
    run = read_run(tmp_path)
    assert run is not None
    assert run.summary is not None
    assert (run.status, run.notes, run.size, run.completed, run.source) == ("done", (), 2, 3, 0)
    assert (run.summary.rounds, run.summary.bytes_sent, run.bytes_sent) == (3, 4 * 10**9, 4 * 10**9)
    assert run.settings == {"partition": "iid", "size": 2, "algorithm": "dfedmdc", "rounds": 3, "seed": 5}
    assert (run.finals("accuracy"), run.finals("test_loss")) == ({0: 0.5, 1: 0.75}, {0: 1.5, 1: 1.5})
    assert run.by_round("accuracy_trained") == {number: [0.25, 0.25] for number in range(3)}
    assert run.distance == 1.25
    one = run.peers[1].summary
    assert one is not None
    assert (one.training_samples, one.class_counts, one.accuracy_trained, one.lost) == (7, (3, 4), None, {})
    assert [run.peers[rank].summary.class_names for rank in range(2)] == [None, ("ill", "well")]
    assert [line.samples for line in run.peers[0].entries.values()] == [60] * 3


def test_a_folder_without_a_run_holds_none(tmp_path: Path) -> None:
    assert read_run(tmp_path) is None
    assert read_run(tmp_path / "nowhere") is None
    (tmp_path / "summary.json").write_text('{"title": "of another program"}')
    (tmp_path / "rank-0").mkdir()
    assert read_run(tmp_path) is None
    assert read_run_summary(tmp_path) is None


def test_what_a_peer_writes_is_what_is_read() -> None:
    record = RoundRecord(
        round=4, accuracy=0.5, test_loss=1.5, metrics={"accuracy": 0.5}, accuracy_trained=0.25, train_loss=0.75,
        bytes_sent=10, bytes_received=20, heard=[1], missed=[], train_seconds=1.0, exchange_seconds=1.0,
        mix_seconds=1.0, samples=7, epsilon=2.0, delta=1e-5, privacy={"epsilon": 2.0},
    )  # fmt: skip
    line = Line.of(record.as_dict())
    assert (line.round, line.accuracy, line.accuracy_trained, line.test_loss) == (4, 0.5, 0.25, 1.5)
    assert (line.metrics, line.train_loss, line.bytes_sent, line.bytes_received) == ({"accuracy": 0.5}, 0.75, 10, 20)
    assert (line.active, line.diverged, line.epsilon, line.privacy) == (True, False, 2.0, {"epsilon": 2.0})


def test_a_line_that_lacks_keys_has_not_diverged() -> None:
    line = Line.of({"round": 3})
    assert (line.active, line.diverged, line.samples, line.privacy, line.metrics) == (True, False, None, None, None)


@pytest.mark.parametrize("value", ["0.5", True, [0.5], float("nan"), float("inf"), 1e200, {}])
def test_a_figure_that_cannot_have_been_measured_is_none(value: Any) -> None:
    line = Line.of({"round": 0, "accuracy": value, "metrics": {"accuracy": value}})
    assert line.accuracy is None
    assert line.metrics == {"accuracy": None}


@pytest.mark.parametrize("value", [-1, 1.5, "7", True, None])
def test_what_cannot_be_counted_is_none(value: Any) -> None:
    line = Line.of({"round": 0, "bytes_sent": value, "samples": value})
    assert line.bytes_sent is line.samples is None


def test_damaged_lines_are_counted_and_of_two_of_one_round_the_later_counts(tmp_path: Path) -> None:
    folder = write_peer(tmp_path, 0, 2)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('[]\n\n{"round": "x"}\n{"round": 1, "accuracy": 0.75}\n\x00\x00\n{"round": 2, "accu')
    metrics = read_metrics(folder)
    assert [line.round for line in metrics.lines] == [0, 1, 1]
    assert (metrics.damaged, metrics.torn) == (4, True)
    assert {number: line.accuracy for number, line in metrics.by_round.items()} == {0: 0.5, 1: 0.75}
    run = read_run(tmp_path)
    assert run is not None
    assert run.notes == (
        "unfinished: 2 rounds completed by every peer that left files", "4 damaged lines left out (rank 0)"
    )  # fmt: skip


def test_a_last_line_without_an_end_is_torn_only_if_it_cannot_be_read(tmp_path: Path) -> None:
    folder = write_peer(tmp_path, 0, 1)
    (folder / "metrics.jsonl").write_text('{"round": 0}')
    assert (len(read_metrics(folder).lines), read_metrics(folder).torn) == (1, False)


def test_rounds_that_cannot_be_opened_are_damage_and_not_nothing(tmp_path: Path) -> None:
    assert (read_metrics(tmp_path).lines, read_metrics(tmp_path).damaged) == ((), 0)
    (tmp_path / "metrics.jsonl").mkdir()
    assert (read_metrics(tmp_path).lines, read_metrics(tmp_path).damaged) == ((), 1)


@pytest.mark.parametrize("content", ["", "{", "[1]", "{}", "\x00"])
def test_a_summary_that_cannot_be_read_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "summary.json").write_text(content)
    assert read_peer_summary(tmp_path) is read_run_summary(tmp_path) is None


def test_a_damaged_value_costs_only_itself(tmp_path: Path) -> None:
    write_json(tmp_path / "summary.json", {"accuracy": "high", "class_counts": [1, -2], "task": 7, "bytes_sent": 5})
    summary = read_peer_summary(tmp_path)
    assert summary is not None
    assert summary.accuracy is summary.class_counts is summary.task is None
    assert (summary.bytes_sent, summary.status, summary.settings) == (5, "done", {})


def test_the_summary_of_an_earlier_part_does_not_speak_of_a_run_that_went_on(tmp_path: Path) -> None:
    write_peer(tmp_path, 0, 3)
    write_peer(tmp_path, 1, 2, {})
    write_summary(tmp_path, status="stopped", completed_rounds=[2, 2])
    run = read_run(tmp_path)
    assert run is not None
    assert (run.status, run.summary, run.completed) == ("unfinished", None, 2)
    earlier = read_run_summary(tmp_path)
    assert earlier is not None
    assert earlier.completed_rounds == (2, 2)


def test_what_peers_of_many_hosts_left_is_a_run_without_a_summary(tmp_path: Path) -> None:
    write_peer(tmp_path, 0, 2, {"bytes_sent": 20, "wall_seconds": 3.0})
    write_peer(tmp_path, 2, 2, {"wall_seconds": 4.0, "status": "stopped"})
    run = read_run(tmp_path)
    assert run is not None
    assert (run.status, run.size, run.bytes_sent, run.wall_seconds) == ("stopped", 3, 40, 4.0)
    assert run.notes[-1] == "1 of 3 peers left no files here (rank 1)"


def test_distances_are_by_round_and_none_where_they_were_not_finite(tmp_path: Path) -> None:
    (tmp_path / "disagreement.jsonl").write_text(
        '{"round": 1, "consensus_distance": NaN}\n{"round": 0, "consensus_distance": 2.5}\nbroken\n'
    )
    assert list(read_distances(tmp_path / "disagreement.jsonl").items()) == [(0, 2.5), (1, None)]
    write_peer(tmp_path, 0, 2)
    run = read_run(tmp_path)
    assert run is not None
    assert run.distances == {0: 2.5}
    assert read_distances(tmp_path / "nowhere") == {}
