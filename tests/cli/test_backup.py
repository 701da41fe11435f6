"""`dpeer backup` and `dpeer restore` as they are typed: what they print, and what an interruption leaves."""

import re

import pytest

from dpeer.federation import backup
from tests.messages.backups import ranks


def test_what_is_printed_names_each_rank_and_what_it_does_next(dpeer, tmp_path):
    ranks(tmp_path, 2, 3)
    ended = dpeer("backup", "run", "run.zip")
    assert ended.code == 0
    *lines, last = ended.out.splitlines()
    assert [re.sub(r"[0-9.]+ k?B", "N", line) for line in lines] == [
        "rank-2: 1 completed rounds, 3 files, N", "rank-3: 1 completed rounds, 3 files, N",
    ]  # fmt: skip
    assert last.startswith("dpeer: written to run.zip (")
    ended = dpeer("restore", "run.zip", "new", "--rank", 3)
    assert ended.code == 0
    first, last = ended.out.splitlines()
    assert re.fullmatch(
        r"rank-3: 1 completed rounds, backup of 20\d\d-\d\d-\d\d \d\d:\d\d UTC; rounds since are charged, and released "
        "in none", first,
    )  # fmt: skip
    state = dpeer("status", "new", "--check")
    assert state.out == "rank-3: does not take part: does not run: put back from a backup; --resume goes on\n"
    assert last == (
        "dpeer: put back into new: start its peer with --resume. The folder that was lost must never be started, "
        "should its disk turn up again"
    )


@pytest.mark.parametrize(("words", "code"), [(("--rounds", -1), 2), (("--restarts", "x"), 2), (("--rank", 9), 2)])
def test_a_wrong_option_puts_nothing_back(dpeer, tmp_path, words, code):
    ranks(tmp_path, 3)
    dpeer("backup", "run", "run.zip")
    assert dpeer("restore", "run.zip", "new", *words).code == code
    assert not (tmp_path / "new").exists()


def test_an_interrupted_restore_leaves_no_folder_of_a_rank(dpeer, tmp_path, monkeypatch):
    ranks(tmp_path, 3)
    dpeer("backup", "run", "run.zip")
    extract = backup._extract
    monkeypatch.setattr(backup, "_extract", lambda *given: (extract(*given), interrupt()))

    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backup.restore(tmp_path / "run.zip", tmp_path / "new")
    assert [*(tmp_path / "new").iterdir()] == []
