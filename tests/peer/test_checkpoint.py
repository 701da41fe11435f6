"""Checkpoints: atomic, only the newest is kept, and damage is found before the learner sees anything."""

import json
import shutil

import pytest

from dpeer.exceptions import CheckpointError
from dpeer.peer import checkpoint
from dpeer.peer.checkpoint import Progress


def save(folder):
    (folder / "weights").write_bytes(b"w" * 100)


def state(next_round, released=(b"head", b"body")):
    return checkpoint.State(next_round, {"size": 8}, (1, 7), released, {"seconds": 1.5})


def newest(folder):
    return checkpoint.read(checkpoint.latest(folder), lambda folder: None)


def test_a_checkpoint_is_read_as_it_was_written(tmp_path):
    checkpoint.write(tmp_path, state(5), save)
    loaded = []
    found = checkpoint.read(
        checkpoint.latest(tmp_path), lambda folder: loaded.append((folder / "weights").read_bytes())
    )
    assert loaded == [b"w" * 100]
    assert (found.next_round, found.fingerprint, found.receivers) == (5, {"size": 8}, (1, 7))
    assert list(found.released) == [b"head", b"body"]
    assert found.extra == {"seconds": 1.5}
    checkpoint.write(tmp_path, state(6, None), save)
    assert newest(tmp_path).released is None, "no release is not an empty body"


def test_only_the_newest_is_kept_and_leftovers_are_ignored(tmp_path):
    folder = tmp_path / checkpoint.FOLDER
    assert (checkpoint.latest(folder), checkpoint.learner_folder(tmp_path), checkpoint.completed(tmp_path)) == (
        None, None, 0,
    )  # fmt: skip
    for number in (9, 10, 11):
        checkpoint.write(folder, state(number), save)
    (folder / ".round-00000099.tmp").mkdir()
    assert [path.name for path in folder.glob("round-*")] == ["round-00000010"]
    assert checkpoint.latest(folder).name == "round-00000010"
    assert checkpoint.learner_folder(tmp_path) == checkpoint.latest(folder) / "learner"
    assert checkpoint.completed(tmp_path) == 11


def test_copies_that_somebody_has_put_beside_them_are_left_alone(tmp_path):
    folder = tmp_path / checkpoint.FOLDER
    checkpoint.write(folder, state(9), save)
    copies = [path.rename(path.with_name(f"{path.name}.bak")) for path in folder.iterdir()]
    assert (checkpoint.latest(folder), checkpoint.completed(tmp_path)) == (None, 0)
    for number in (9, 10):
        checkpoint.write(folder, state(number + 1), save)
    assert checkpoint.completed(tmp_path) == 11
    assert sorted(folder.iterdir()) == sorted([*copies, folder / "round-00000010"])


def test_a_write_that_fails_leaves_the_older_one(tmp_path):
    checkpoint.write(tmp_path, state(3), save)

    def fails(folder):
        (folder / "weights").write_bytes(b"half")
        raise BlockingIOError("disk full")

    with pytest.raises(BlockingIOError):
        checkpoint.write(tmp_path, state(4), fails)
    assert [path.name for path in tmp_path.iterdir()] == ["round-00000002"], "the disk has the room again"
    assert newest(tmp_path).next_round == 3
    checkpoint.write(tmp_path, state(4), save)
    assert newest(tmp_path).next_round == 4


def test_a_process_that_is_killed_while_it_drops_an_older_one_goes_on_with_the_newer_one(tmp_path, monkeypatch):
    checkpoint.write(tmp_path, state(3), save)

    def killed(folder):
        (folder / "state.json").unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.write(tmp_path, state(4), save)
    assert newest(tmp_path).next_round == 4
    monkeypatch.undo()
    checkpoint.write(tmp_path, state(5), save)
    assert [path.name for path in tmp_path.iterdir()] == ["round-00000004"]


def test_what_a_killed_process_has_begun_to_write_makes_room_for_the_next_write(tmp_path):
    learner = tmp_path / ".round-00000002.tmp" / "learner"
    learner.mkdir(parents=True)
    save(learner)

    def saves(folder):
        assert [path.name for path in tmp_path.iterdir()] == [folder.parent.name], "nothing else takes room by now"
        save(folder)

    checkpoint.write(tmp_path, state(4), saves)
    assert [path.name for path in tmp_path.iterdir()] == ["round-00000003"]


DAMAGES = {
    "flip": lambda content: bytes([content[0] ^ 1]) + content[1:],
    "cut": lambda content: content[: len(content) // 2],
    "round": lambda content: content.replace(b'"next_round": 5', b'"next_round": 4'),
    "size": lambda content: content.replace(b'"size": 8', b'"size": 9'),
    "seconds": lambda content: content.replace(b'"seconds": 1.5', b'"seconds": 2.5'),
    "checksum": lambda content: content.replace(b'"checksum"', b'"checkrum"'),
    "remove": lambda content: None,
}


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *(("state.json", damage) for damage in DAMAGES),
        *((name, damage) for name in ("released-1.bin", "learner/weights") for damage in ("flip", "cut", "remove")),
    ],
)
def test_damage_is_found_before_the_learner_sees_anything(tmp_path, name, damage):
    checkpoint.write(tmp_path, state(5), save)
    path = checkpoint.latest(tmp_path) / name
    content = DAMAGES[damage](path.read_bytes())
    assert content != path.read_bytes()
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        checkpoint.read(checkpoint.latest(tmp_path), lambda folder: pytest.fail("loaded a damaged checkpoint"))
    assert f"'{checkpoint.latest(tmp_path)}' is damaged" in str(caught.value)


def test_a_checkpoint_that_the_system_does_not_give_is_not_damaged(tmp_path):
    checkpoint.write(tmp_path, state(5), save)
    place = checkpoint.latest(tmp_path) / "released-0.bin"
    place.unlink()
    place.mkdir()
    with pytest.raises(CheckpointError, match=r"cannot be read: Is a directory \(released-0\.bin\)$"):
        checkpoint.read(checkpoint.latest(tmp_path), lambda folder: None)


def test_sums_are_of_all_rounds_whatever_lines_the_file_has_lost_and_survive_json():
    first = {"round": 0, "bytes_sent": 10, "bytes_received": 1, "heard": [1]}
    second = {"round": 1, "bytes_sent": 20, "bytes_received": None, "heard": []}
    progress = Progress().plus(first, best=True, now=5.0, seconds=1.0, lost={})
    progress = progress.plus(second, best=False, now=7.0, seconds=3.0, lost={1: "stopped"})
    assert progress == Progress(second, first, 30, 1, 1, 0, 5.0, 3.0, {"1": "stopped"})
    assert Progress(**json.loads(json.dumps(vars(progress)))) == progress
