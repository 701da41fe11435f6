"""What a folder remembers of all its runs, with and without noise."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dpeer.exceptions import CheckpointError
from dpeer.privacy import Ledger, NoiselessSession
from dpeer.privacy.history import uncharged
from dpeer.privacy.ledger_file import Run
from dpeer.privacy.noise import SCHEME

M = {"noise_multiplier": 2.0, "clip_norm": 0.5}


def private(folder: Path, releases: int, data: str | None = None, *, new_data: bool = False) -> Ledger:
    """A run from its beginning to its end."""
    ledger = Ledger(folder, M, resume=False, data=data, new_data=new_data)
    ledger.begin()
    for number in range(releases):
        ledger.release(number, lambda: b"x")
    return ledger


def plain(folder: Path, releases: int = 3, data: str | None = None, *, new_data: bool = False) -> None:
    """A run without noise."""
    run = NoiselessSession(folder, data=data, new_data=new_data)
    run.begin()
    for _ in range(releases):
        run.record()


def told(runs: list[Run]) -> list[tuple[str, int]]:
    return [("private" if run.protects else "plain", len(run.rounds)) for run in runs]


def next_run(folder: Path, data: str | None = None) -> list[tuple[str, int]]:
    """What counts beside the releases of a private run that begins now."""
    return told(Ledger(folder, M, resume=False, data=data).earlier)


def test_releases_without_noise_are_written_down_once(tmp_path: Path) -> None:
    folder = tmp_path / "privacy"
    plain(folder, 0)
    assert not folder.exists(), "nothing has been released"
    plain(folder, 5)
    lines = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    assert [line.get("round") for line in lines] == [None, 0]
    assert lines[0]["mechanism"] is None
    plain(folder, 5)
    NoiselessSession(folder).record()  # a run that is gone on with
    assert [path.name for path in folder.iterdir()] == ["ledger.jsonl"]
    assert next_run(folder) == [("plain", 1)]


def test_whatever_was_released_between_two_private_runs_counts(tmp_path: Path) -> None:
    private(tmp_path, 2)
    plain(tmp_path)
    run = private(tmp_path, 4)
    assert told(run.earlier) == [("private", 2), ("plain", 1)]
    assert told(Ledger(tmp_path, M, resume=True).earlier) == [("private", 2), ("plain", 1)]
    assert next_run(tmp_path) == [("private", 2), ("plain", 1), ("private", 4)]


def test_more_than_nine_runs_stay_in_their_order(tmp_path: Path) -> None:
    for releases in range(1, 13):
        private(tmp_path, releases)
    assert next_run(tmp_path) == [("private", releases) for releases in range(1, 13)]


def test_a_run_without_noise_that_released_nothing_changes_nothing(tmp_path: Path) -> None:
    private(tmp_path, 2)
    plain(tmp_path, 0)
    assert next_run(tmp_path) == [("private", 2)]
    (first,) = (tmp_path / "ledger.jsonl").read_text().splitlines()
    assert json.loads(first)["earlier"] == [2], "it says what was put aside, and no release"
    assert Ledger(tmp_path, M, resume=True).releases == 0, "there is no run to go on with"


def test_new_data_have_a_history_of_their_own(tmp_path: Path) -> None:
    private(tmp_path, 2, "a")
    plain(tmp_path, 1, "a")
    assert private(tmp_path, 3, "b", new_data=True).earlier == []
    assert Ledger(tmp_path, M, resume=True, data="b").earlier == []
    assert next_run(tmp_path, "b") == [("private", 3)]
    private(tmp_path, 1, "b")
    assert next_run(tmp_path, "b") == [("private", 3), ("private", 1)]
    plain(tmp_path, 1, "c", new_data=True)
    assert next_run(tmp_path, "c") == [("plain", 1)]


@pytest.mark.parametrize("again", ["a", "a divided otherwise", None])
def test_a_folder_that_goes_back_to_old_data_still_remembers_them(tmp_path: Path, again: str | None) -> None:
    """Whose hash is not that of the new data counts everything: rows may be the same under another hash."""
    private(tmp_path, 2, "a")
    private(tmp_path, 3, "b", new_data=True)
    assert next_run(tmp_path, again) == [("private", 2), ("private", 3)]


def test_of_data_without_a_hash_it_must_be_said_each_time_that_they_are_new(tmp_path: Path) -> None:
    private(tmp_path, 2)
    assert private(tmp_path, 3, new_data=True).earlier == []
    assert next_run(tmp_path) == [("private", 2), ("private", 3)]
    assert Ledger(tmp_path, M, resume=True).earlier == [], "the run itself goes on with its data"


def test_that_data_are_new_is_not_true_because_it_is_said(tmp_path: Path) -> None:
    private(tmp_path, 2, "a")
    private(tmp_path, 3, "b", new_data=True)
    wrong = private(tmp_path, 1, "a", new_data=True)
    assert (wrong.earlier, told(wrong.not_new)) == ([], [("private", 2)])
    right = private(tmp_path, 1, "c", new_data=True)
    assert (right.earlier, right.not_new) == ([], [])


def test_what_was_said_of_new_data_means_nothing_where_nobody_got_anything_of_them(tmp_path: Path) -> None:
    private(tmp_path, 2, "a")
    private(tmp_path, 0, "b", new_data=True)
    assert next_run(tmp_path, "b") == [("private", 2)]
    plain(tmp_path, 0, "b", new_data=True)
    assert next_run(tmp_path, "b") == [("private", 2)]
    private(tmp_path, 0, "b")
    assert told(Ledger(tmp_path, M, resume=True, data="b").earlier) == [("private", 2)]


def test_a_run_with_new_data_that_ended_before_its_first_release_goes_on_with_them(tmp_path: Path) -> None:
    private(tmp_path, 2, "a")
    private(tmp_path, 0, "b", new_data=True)
    assert told(Ledger(tmp_path, M, resume=True, data="a").earlier) == [("private", 2)], "but not with others"
    ledger = Ledger(tmp_path, M, resume=True, data="b")
    ledger.release(0, lambda: b"x")
    assert next_run(tmp_path, "b") == [("private", 1)]
    for data, counted in (("c", [("plain", 1)]), ("a", [("private", 2), ("private", 1), ("plain", 1), ("plain", 1)])):
        plain(tmp_path, 0, "c", new_data=True)
        NoiselessSession(tmp_path, data=data).record()
        assert next_run(tmp_path, data) == counted


def test_a_run_does_not_go_on_with_other_data(tmp_path: Path) -> None:
    private(tmp_path, 2, "a")
    private(tmp_path, 1, "b", new_data=True)
    with pytest.raises(CheckpointError) as found:
        Ledger(tmp_path, M, resume=True, data="a")
    assert "--overwrite" in str(found.value)


def test_releases_without_noise_of_other_data_are_written_down_apart(tmp_path: Path) -> None:
    for data in ("a", "a", "b"):
        run = NoiselessSession(tmp_path, data=data)
        run.begin()
        run.record()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger-1.jsonl", "ledger.jsonl"]


def test_noise_of_another_scheme_is_no_noise_and_is_not_gone_on_with(tmp_path: Path) -> None:
    private(tmp_path, 2)
    path = tmp_path / "ledger.jsonl"
    path.write_text(path.read_text().replace(SCHEME, "statistical"))
    with pytest.raises(CheckpointError):
        Ledger(tmp_path, M, resume=True)
    assert next_run(tmp_path) == [("plain", 2)]
    private(tmp_path, 1)
    assert next_run(tmp_path) == [("plain", 2), ("private", 1)]


def test_a_note_that_was_not_written_whole_is_written_again(tmp_path: Path) -> None:
    plain(tmp_path, 0, "a", new_data=True)
    with (tmp_path / "ledger.jsonl").open("a") as file:
        file.write('{"rou')
    NoiselessSession(tmp_path, data="a").record()
    assert next_run(tmp_path, "a") == [("plain", 1)]


def test_a_damaged_ledger_stops_what_would_have_to_count_it(tmp_path: Path) -> None:
    private(tmp_path, 1)
    private(tmp_path, 1)
    (tmp_path / "ledger-1.jsonl").write_text("nonsense\n")
    with pytest.raises(CheckpointError):
        Ledger(tmp_path, M, resume=False)
    private(tmp_path, 1, "b", new_data=True)
    assert next_run(tmp_path, "b") == [("private", 1)]


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "emptied": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
    "its first line alone": lambda path: path.write_bytes(lines(path)[0]),
    "without its last newline": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "without its last byte but one": lambda path: path.write_bytes(path.read_bytes()[:-2] + b"\n"),
    "without its last line": lambda path: path.write_bytes(b"".join(lines(path)[:-1])),
    "without a line in between": lambda path: path.write_bytes(b"".join([lines(path)[0], *lines(path)[2:]])),
}


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_ledger_that_was_put_aside_never_counts_less_because_it_is_damaged(
    damage: str, number: int, tmp_path: Path
) -> None:
    for releases in (2, 3, 1):
        private(tmp_path, releases, "a")
    DAMAGE[damage](tmp_path / f"ledger-{number}.jsonl")
    for resume in (False, True):
        with pytest.raises(CheckpointError):
            Ledger(tmp_path, M, resume=resume, data="a")
    private(tmp_path, 4, "b", new_data=True)
    assert next_run(tmp_path, "b") == [("private", 4)], "of other data nobody has to know"
    with pytest.raises(CheckpointError):
        Ledger(tmp_path, M, resume=False, data="a")


@pytest.mark.parametrize("damage", ["emptied", "gone", "its first line alone", "without its last newline"])
def test_a_run_without_noise_is_not_forgotten_because_its_ledger_is_damaged(damage: str, tmp_path: Path) -> None:
    plain(tmp_path)
    private(tmp_path, 2)
    DAMAGE[damage](tmp_path / "ledger-1.jsonl")
    with pytest.raises(CheckpointError):
        Ledger(tmp_path, M, resume=False)


def test_runs_that_release_nothing_know_of_those_before(tmp_path: Path) -> None:
    private(tmp_path, 2)
    plain(tmp_path, 0)
    private(tmp_path, 0)
    plain(tmp_path, 0, "b", new_data=True)
    assert next_run(tmp_path) == [("private", 2)]
    DAMAGE["without its last line"](tmp_path / "ledger-1.jsonl")
    with pytest.raises(CheckpointError):
        Ledger(tmp_path, M, resume=False)


def test_a_ledger_that_is_restored_counts_again(tmp_path: Path) -> None:
    for releases in (2, 3, 1):
        private(tmp_path, releases)
    path = tmp_path / "ledger-1.jsonl"
    content = path.read_bytes()
    path.unlink()
    private(tmp_path, 1, new_data=True)
    path.write_bytes(content)
    assert next_run(tmp_path) == [("private", 2), ("private", 3), ("private", 1), ("private", 1)]


def test_a_ledger_whose_count_nobody_has_is_counted_when_it_is_next_known(tmp_path: Path) -> None:
    """As where a process ended between putting it aside and beginning the next."""
    private(tmp_path, 2)
    (tmp_path / "ledger.jsonl").rename(tmp_path / "ledger-1.jsonl")
    assert next_run(tmp_path) == [("private", 2)]
    private(tmp_path, 1)
    DAMAGE["without its last line"](tmp_path / "ledger-1.jsonl")
    with pytest.raises(CheckpointError):
        Ledger(tmp_path, M, resume=False)


def test_a_line_that_was_not_written_whole_is_not_put_aside(tmp_path: Path) -> None:
    private(tmp_path, 2)
    with (tmp_path / "ledger.jsonl").open("a") as file:
        file.write('{"rou')
    private(tmp_path, 1)
    assert next_run(tmp_path) == [("private", 2), ("private", 1)]


def test_bytes_of_which_no_ledger_tells_are_found(tmp_path: Path) -> None:
    private(tmp_path, 2)
    assert uncharged(tmp_path) == []
    ledger = tmp_path / "ledger.jsonl"
    ledger.rename(tmp_path / "ledger-1.jsonl")  # where a process ended that began another run
    assert uncharged(tmp_path) == []
    DAMAGE["without its last newline"](tmp_path / "ledger-1.jsonl")
    assert [path.name for path in uncharged(tmp_path)] == ["released-00000001.bin"]
    (tmp_path / "ledger-1.jsonl").unlink()
    assert len(uncharged(tmp_path)) == 2


def test_a_damaged_ledger_is_put_aside_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "ledger.jsonl").write_text("nonsense\n")
    plain(tmp_path)
    with pytest.raises(CheckpointError):
        Ledger(tmp_path, M, resume=False)
    assert private(tmp_path, 1, new_data=True).earlier == []
