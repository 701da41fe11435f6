"""Backups of ranks' folders: whole, checked, made while files change, and put back where nothing is."""

import json
import os
import threading
import zipfile
from functools import partial

import pytest

from dpeer.exceptions import CheckpointError, ConfigurationError, OutputError
from dpeer.federation import backup
from dpeer.federation.backup import back_up, restore
from dpeer.federation.privacy import account, check_ledger
from dpeer.peer import checkpoint, restored
from dpeer.peer.restored import Restored
from dpeer.privacy import Charge, Ledger
from dpeer.training.state.file_names import REST

M = {"noise_multiplier": 2.0, "clip_norm": 0.5}
SAMPLE = {"sampling_rate": 0.05, "noise_multiplier": 1.0, "unit": "record"}


def save(folder, completed, *, size=8):
    """A checkpoint of so many rounds, each with a private release."""
    state = checkpoint.State(completed, {"size": size}, (1,), [b"header", b"body" * 1000])

    def save_learner(to):
        (to / "weights").write_bytes(b"w" * 50_000)
        (to / REST).write_text(json.dumps({"releases": completed}))

    checkpoint.write(folder / "checkpoint", state, save_learner)


def rank(run, number=3, *, completed=2, level="client", size=8):
    """A rank's folder with so many rounds."""
    folder = run / f"rank-{number}"
    folder.mkdir(parents=True)
    ledger = None
    if level is not None:
        ledger = Ledger(folder / "privacy", M if level == "client" else SAMPLE, level=level, resume=False, data="d")
    for one in range(completed):
        if ledger is not None and level == "client":
            ledger.release(one, lambda one=one: b"release %d" % one)
        elif ledger is not None:
            ledger.charge(one, Charge(0.05, 1.0, 30))
        with (folder / "metrics.jsonl").open("a") as file:
            spent = {None: None, "client": {"releases": one + 1}, "sample": {"steps": 30 * (one + 1)}}[level]
            file.write(json.dumps({"round": one, "bytes_sent": 100, "privacy": spent}) + "\n")
        save(folder, one + 1, size=size)
    return folder


def content(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_rank_comes_back_byte_for_byte_but_for_what_was_of_its_process_alone(tmp_path):
    folder = rank(tmp_path / "run")
    before = content(folder)
    for path in folder.rglob("*"):
        os.utime(path, (1.7e9, 1.7e9))
    for name in (".lock", "control.sock", "control.path", ".summary.json.tmp", "privacy/released-00000009.part"):
        (folder / name).write_text("of a process")
    (folder / "link").symlink_to("/etc/hostname")
    with (folder / "privacy" / "ledger.jsonl").open("ab") as file:
        file.write(b'{"round": 2, "ti')  # just being written
    found = back_up(tmp_path / "run", tmp_path / "to" / "backup.zip")
    assert [(one.rank, one.completed, one.size, one.level) for one in found.ranks] == [(3, 2, 8, "client")]
    assert (tmp_path / "to" / "backup.zip").stat().st_mode & 0o777 == 0o600
    assert restore(tmp_path / "to" / "backup.zip", tmp_path / "new").ranks == found.ranks
    after = content(tmp_path / "new" / "rank-3")
    for name in before:
        times = [(place / name).stat().st_mtime for place in (folder, tmp_path / "new" / "rank-3")]
        assert abs(times[0] - times[1]) <= 2.0, "as old as it was"
    note = after.pop("restored.json")
    assert after == before
    assert restored.read(tmp_path / "new" / "rank-3") == Restored(found.written, 2)
    assert json.loads(note)["completed"] == 2
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["rank-3"], "no draft is left"
    check_ledger(tmp_path / "new" / "rank-3")


def test_a_run_comes_back_whole_or_in_part_and_nothing_that_is_there_is_touched(tmp_path):
    run, file, new = tmp_path / "run", tmp_path / "backup.zip", tmp_path / "new"
    for number in (0, 1, 2):
        rank(run, number, level=None)
    (run / "summary.json").write_text("{}")
    back_up(run, file)
    restore(file, new, [1])
    assert sorted(path.name for path in new.iterdir()) == ["rank-1"]
    (new / "rank-0").mkdir()  # an empty mount point
    (new / "rank-1" / "more").write_text("mine")
    before = content(new)
    with pytest.raises(OutputError, match=r"rank-1' exists: a backup replaces nothing"):
        restore(file, new)
    assert content(new) == before
    restore(file, new, [0, 2])
    assert (new / "rank-0" / "metrics.jsonl").read_bytes() == (run / "rank-0" / "metrics.jsonl").read_bytes()
    restore(file, tmp_path / "other")
    assert (tmp_path / "other" / "summary.json").read_text() == "{}"
    assert not (tmp_path / "other" / "run").exists()


def test_only_some_ranks_are_backed_up_and_a_file_is_never_replaced(tmp_path):
    run, file = tmp_path / "run", tmp_path / "backup.zip"
    for number in (0, 1):
        rank(run, number)
    assert [one.rank for one in back_up(run, file, [1]).ranks] == [1]
    kept = file.read_bytes()
    with pytest.raises(OutputError, match="exists: name another file"):
        back_up(run / "rank-0", file)
    assert file.read_bytes() == kept
    assert [one.rank for one in back_up(run / "rank-0", tmp_path / "0.zip").ranks] == [0]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda run: back_up(run, run / "b.zip"), "lies in .*: name a file on another disk"),
        (lambda run: back_up(run / "rank-3", run / "rank-3" / "checkpoint" / "b.zip"), "lies in"),
        (lambda run: back_up(run, run.parent / "b.zip", [7]), r"--rank 7: .* holds rank-3"),
        (lambda run: back_up(run.parent / "empty", run.parent / "b.zip"), "no folder"),
        (lambda run: back_up(run, run / "rank-3" / "metrics.jsonl" / "b.zip"), "lies in"),
        (lambda run: back_up(run, run.parent / "file" / "b.zip"), "cannot be written: "),
    ],
)
def test_what_cannot_be_backed_up_leaves_nothing(tmp_path, make, why):
    rank(tmp_path / "run")
    (tmp_path / "file").touch()
    before = content(tmp_path)
    with pytest.raises(ConfigurationError, match=why):
        make(tmp_path / "run")
    assert content(tmp_path) == before


def test_a_folder_without_a_round_and_a_ledger_holds_nothing_to_back_up(tmp_path):
    (tmp_path / "run" / "rank-3").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="holds no completed round and no ledger"):
        back_up(tmp_path / "run", tmp_path / "b.zip")
    assert not (tmp_path / "b.zip").exists()


def test_an_interrupted_backup_leaves_no_file(tmp_path, monkeypatch):
    rank(tmp_path / "run")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(backup, "_held", interrupted)
    with pytest.raises(KeyboardInterrupt):
        back_up(tmp_path / "run", tmp_path / "b.zip")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_a_checkpoint_that_is_replaced_while_files_are_listed_is_backed_up_whole(tmp_path, monkeypatch):
    """Else the old one is left out as an older one, and the new one is not in the list."""
    folder, latest = rank(tmp_path / "run"), checkpoint.latest
    moments = iter([None, 3, None, 4])  # before and after the files are listed and opened, twice

    def replaced(where):
        if (completed := next(moments, None)) is not None:
            save(folder, completed)
        return latest(where)

    monkeypatch.setattr(backup.checkpoint, "latest", replaced)
    found = back_up(tmp_path / "run", tmp_path / "b.zip")
    assert found.ranks[0].completed == 4
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        names = {name.split("/")[2] for name in archive.namelist() if "/checkpoint/" in name}
    assert names == {"round-00000003"}


@pytest.mark.slow
def test_a_backup_while_a_peer_writes_is_always_one_that_it_can_go_on_from(tmp_path):
    """Ledger lines, releases, metrics and checkpoints come in their order all the while."""
    folder, ends, saved, rounds = rank(tmp_path / "run", completed=1), threading.Event(), threading.Event(), 1

    def trains():
        nonlocal rounds
        ledger = Ledger(folder / "privacy", M, resume=True, data="d")
        while not ends.is_set():
            ledger.release(rounds, partial(bytes, 100))
            with (folder / "metrics.jsonl").open("a") as file:
                file.write(json.dumps({"round": rounds, "privacy": {"releases": rounds + 1}}) + "\n")
            rounds += 1
            save(folder, rounds)
            saved.set()

    peer = threading.Thread(target=trains)
    peer.start()
    found = []
    try:
        for number in range(4):
            saved.clear()
            found.append(back_up(tmp_path / "run", tmp_path / f"{number}.zip"))
            assert saved.wait(60)
    finally:
        ends.set()
        peer.join()
    assert found[-1].ranks[0].completed > found[0].ranks[0].completed, "it has written meanwhile"
    for number, one in enumerate(found):
        restore(tmp_path / f"{number}.zip", tmp_path / "new" / str(number))
        there = tmp_path / "new" / str(number) / "rank-3"
        state = checkpoint.read(checkpoint.latest(there / "checkpoint"), lambda learner: None)
        assert state.next_round == one.ranks[0].completed
        ledger = Ledger(there / "privacy", M, resume=True, data="d")
        assert ledger.releases >= state.next_round
        check_ledger(there)


# -- what nobody but the operator knows --------------------------------------------------------------------------------


def test_where_records_are_protected_restarts_have_to_be_stated(tmp_path):
    rank(tmp_path / "run", level="sample")
    back_up(tmp_path / "run", tmp_path / "b.zip")
    with pytest.raises(ConfigurationError, match=r"rank 3 protects records .*; give --restarts N, at most so often"):
        restore(tmp_path / "b.zip", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    restore(tmp_path / "b.zip", tmp_path / "new", restarts=2)
    assert restored.read(tmp_path / "new" / "rank-3").restarts == 2


@pytest.mark.parametrize(("ranks", "level", "refused"), [(3, "client", False), (4, "client", True), (4, None, False)])
def test_where_no_quorum_of_others_is_left_rounds_have_to_be_stated(tmp_path, ranks, level, refused):
    for number in range(ranks):
        rank(tmp_path / "run", number, level=level)
    back_up(tmp_path / "run", tmp_path / "b.zip")
    if refused:
        with pytest.raises(ConfigurationError, match=r"puts back 4 of 8 ranks, .*: give --rounds N"):
            restore(tmp_path / "b.zip", tmp_path / "new")
        assert not (tmp_path / "new").exists()
    restore(tmp_path / "b.zip", tmp_path / "new", rounds=9 if refused else None)
    note = restored.read(tmp_path / "new" / "rank-0")
    assert (note.returns, note.rounds) == (ranks == 3, 9 if refused else None)


@pytest.mark.parametrize("level", ["client", "sample"])
def test_where_no_round_is_completed_rounds_have_to_be_stated(tmp_path, level):
    """Such a peer begins with the first round, beside others that were put back, too."""
    Ledger(rank(tmp_path / "run", completed=0, level=level) / "privacy", M, level=level, resume=False).begin()
    assert back_up(tmp_path / "run", tmp_path / "b.zip").ranks[0].completed == 0
    with pytest.raises(ConfigurationError, match=r"rank 3 has completed no round in the backup, .*: give --rounds N"):
        restore(tmp_path / "b.zip", tmp_path / "new", restarts=0)
    assert not (tmp_path / "new").exists()
    restore(tmp_path / "b.zip", tmp_path / "new", rounds=5, restarts=0)
    assert restored.read(tmp_path / "new" / "rank-3").last_lost(0, 1) == 6


def test_a_restored_folder_that_is_backed_up_again_keeps_what_was_stated(tmp_path):
    rank(tmp_path / "run", level="sample")
    back_up(tmp_path / "run", tmp_path / "b.zip")
    restore(tmp_path / "b.zip", tmp_path / "new", restarts=2, rounds=7)
    back_up(tmp_path / "new", tmp_path / "again.zip")
    restore(tmp_path / "again.zip", tmp_path / "last", restarts=1)
    note = restored.read(tmp_path / "last" / "rank-3")
    assert (note.restarts, note.rounds) == (3, 7)


def put_back(tmp_path):
    """The privacy folder of a restored rank."""
    rank(tmp_path / "run")
    back_up(tmp_path / "run", tmp_path / "b.zip")
    restore(tmp_path / "b.zip", tmp_path / "new")
    return tmp_path / "new" / "rank-3" / "privacy"


def test_a_private_run_does_not_begin_in_a_restored_folder_and_the_refusal_loses_nothing(tmp_path):
    """What it released after the backup is known to its own neighbors alone, and a new run does not ask them."""
    folder = put_back(tmp_path)
    before = content(folder.parent)
    with pytest.raises(CheckpointError) as refused:
        account(folder, resume=False, protects=True)
    assert str(refused.value) == (
        f"'{folder.parent}' was put back from a backup, and what it has released since is not counted yet: go on with "
        "--resume, and --overwrite later; or give --new-data if the data are others now"
    )
    account(folder, resume=True, protects=True)
    assert content(folder.parent) == before


@pytest.mark.parametrize("how", [{"protects": True, "new_data": True}, {"protects": False}])
def test_another_run_in_it_counts_the_restored_one_as_without_noise(tmp_path, how):
    folder = put_back(tmp_path)
    account(folder, resume=False, **how)
    assert restored.read(folder.parent) is None
    assert [run.noiseless for run in Ledger(folder, M, resume=False, data="d").earlier] == [False, True]
    account(folder, resume=False, protects=True)
    assert len(Ledger(folder, M, resume=False, data="d").earlier) == 2


# -- damage ------------------------------------------------------------------------------------------------------------


def test_a_backup_of_which_any_byte_was_changed_restores_nothing_or_what_was_backed_up(tmp_path):
    rank(tmp_path / "run")
    back_up(tmp_path / "run", tmp_path / "b.zip")
    whole, good = (tmp_path / "b.zip").read_bytes(), content(tmp_path / "run")
    refused = 0
    end = len(whole) - 2_000  # where the archive lists its files, after the packed backup.json
    for number, at in enumerate([*range(5, end, end // 40), *range(end, len(whole), 25)]):
        (tmp_path / "wrong.zip").write_bytes(whole[:at] + bytes([whole[at] ^ 0x20]) + whole[at + 1 :])
        try:
            restore(tmp_path / "wrong.zip", tmp_path / f"new-{number}")
        except ConfigurationError:
            refused += 1
            assert not (tmp_path / f"new-{number}" / "rank-3").exists()
        else:
            found = content(tmp_path / f"new-{number}")
            del found["rank-3/restored.json"]
            assert found == good
    assert refused > 40


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.99])
def test_a_backup_that_was_cut_is_refused(tmp_path, kept):
    rank(tmp_path / "run")
    back_up(tmp_path / "run", tmp_path / "b.zip")
    whole = (tmp_path / "b.zip").read_bytes()
    (tmp_path / "b.zip").write_bytes(whole[: int(kept * len(whole)) if kept < 1 else kept])
    with pytest.raises(ConfigurationError, match="is no backup, or a damaged one"):
        restore(tmp_path / "b.zip", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def forged(path, **changes):
    """A zip file that says of itself that it is a backup."""
    files = changes.pop("files", {"rank-3/metrics.jsonl": b"{}\n"})
    held = {"rank": 3, "completed": 1, "size": 8, "level": None, "files": 1, "bytes": 3}
    noted = {name: {"bytes": len(data), "sha256": "0" * 64} for name, data in files.items()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        said = {"format": 1, "written": 0.0, "dpeer": "9", "ranks": [held], "files": noted} | changes
        archive.writestr("backup.json", json.dumps(said))
    return path


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"files": {"rank-3/../../evil": b"x"}}, "a file is of no rank"),
        ({"files": {"/etc/evil": b"x"}}, "a file is of no rank"),
        ({"files": {"rank-4/metrics.jsonl": b"x"}}, "a file is of no rank"),
        ({"files": {"rank-3": b"x"}}, "a file is of no rank"),
        ({"files": {"rank-3/a\\..\\b": b"x"}}, "a file is of no rank"),
        ({"ranks": []}, "a file is of no rank"),
        ({"ranks": [{"rank": "3/../.."}]}, "a damaged one"),
        ({"ranks": None}, "a damaged one"),
        ({"format": 2}, "has format 2, and this dpeer reads format 1"),
        ({}, "metrics.jsonl is not what was backed up"),
    ],
)
def test_a_forged_backup_writes_nothing(tmp_path, changes, why):
    file = forged(tmp_path / "b.zip", **changes)
    with pytest.raises(ConfigurationError, match=why):
        restore(file, tmp_path / "in" / "new")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]


def test_one_whose_note_of_an_earlier_restore_was_damaged_is_refused(tmp_path):
    folder = rank(tmp_path / "run")
    (folder / "restored.json").write_text("{}")
    back_up(tmp_path / "run", tmp_path / "b.zip")
    with pytest.raises(ConfigurationError, match=r"restored.json in the backup is damaged"):
        restore(tmp_path / "b.zip", tmp_path / "new")
    with pytest.raises(CheckpointError):
        account(folder / "privacy", resume=False)


def test_a_file_of_the_run_folder_that_cannot_be_written_is_named_and_no_rank_is_lost(tmp_path):
    rank(tmp_path / "run")
    (tmp_path / "run" / "summary.json").write_text("{}")
    back_up(tmp_path / "run", tmp_path / "b.zip")
    (tmp_path / "new" / ".summary.json.restoring").mkdir(parents=True)
    with pytest.raises(OutputError, match=r"summary.json' cannot be written: "):
        restore(tmp_path / "b.zip", tmp_path / "new")
    check_ledger(tmp_path / "new" / "rank-3")
    assert restored.read(tmp_path / "new" / "rank-3") is not None


def test_no_file_and_no_zip_file_are_refused(tmp_path):
    with pytest.raises(ConfigurationError, match=r"no file .* exists"):
        restore(tmp_path / "b.zip", tmp_path / "new")
    (tmp_path / "b.zip").write_text("hello")
    with pytest.raises(ConfigurationError, match="is no backup"):
        restore(tmp_path / "b.zip", tmp_path / "new")
