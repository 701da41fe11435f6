import pytest

from dpeer.exceptions import CheckpointError
from dpeer.peer import checkpoint


def save(folder):
    (folder / "weights").write_bytes(b"w" * 100)


def state(next_round, released=(b"head", b"body")):
    return checkpoint.State(next_round, {"size": 8}, (1, 7), released, {"seconds": 1.5})


def test_what_was_written_is_read(tmp_path):
    checkpoint.write(tmp_path, state(5), save)
    loaded = []
    found = checkpoint.read(
        checkpoint.latest(tmp_path), lambda folder: loaded.append((folder / "weights").read_bytes())
    )
    assert loaded == [b"w" * 100]
    assert (found.next_round, found.fingerprint, found.receivers) == (5, {"size": 8}, (1, 7))
    assert list(found.released) == [b"head", b"body"]
    assert found.extra == {"seconds": 1.5}


def test_nothing_released_is_not_an_empty_body(tmp_path):
    checkpoint.write(tmp_path, state(1, None), save)
    assert checkpoint.read(checkpoint.latest(tmp_path), lambda folder: None).released is None


def test_only_the_newest_is_kept_and_leftovers_are_ignored(tmp_path):
    for number in (9, 10, 11):
        checkpoint.write(tmp_path, state(number), save)
    (tmp_path / ".round-00000099.tmp").mkdir()
    assert [path.name for path in tmp_path.glob("round-*")] == ["round-00000010"]
    assert checkpoint.latest(tmp_path).name == "round-00000010"


def test_a_write_that_fails_leaves_the_older_one(tmp_path):
    checkpoint.write(tmp_path, state(3), save)

    def fails(folder):
        (folder / "weights").write_bytes(b"half")
        raise BlockingIOError("disk full")

    with pytest.raises(BlockingIOError):
        checkpoint.write(tmp_path, state(4), fails)
    assert checkpoint.read(checkpoint.latest(tmp_path), lambda folder: None).next_round == 3
    checkpoint.write(tmp_path, state(4), save)
    assert checkpoint.read(checkpoint.latest(tmp_path), lambda folder: None).next_round == 4


def test_there_may_be_none(tmp_path):
    assert checkpoint.latest(tmp_path / "nowhere") is None
    assert checkpoint.learner_folder(tmp_path) is None
    assert checkpoint.completed(tmp_path) == 0


def test_the_learners_part_is_the_newest_checkpoints(tmp_path):
    folder = tmp_path / checkpoint.FOLDER
    folder.mkdir()
    checkpoint.write(folder, state(8), save)
    checkpoint.write(folder, state(12), save)
    assert (checkpoint.learner_folder(tmp_path) / "weights").read_bytes() == b"w" * 100
    assert checkpoint.learner_folder(tmp_path).parent == checkpoint.latest(folder)
    assert checkpoint.completed(tmp_path) == 12


@pytest.mark.parametrize("name", ["state.json", "released-1.bin", "learner/weights"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_damage_is_found_before_the_learner_sees_anything(tmp_path, name, damage):
    checkpoint.write(tmp_path, state(3), save)
    path = checkpoint.latest(tmp_path) / name
    content = path.read_bytes()
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes(content[: len(content) // 2] if damage == "cut" else bytes([content[0] ^ 1]) + content[1:])

    def loader(folder):
        pytest.fail("loaded a damaged checkpoint")

    with pytest.raises(CheckpointError) as caught:
        checkpoint.read(checkpoint.latest(tmp_path), loader)
    assert "damaged" in str(caught.value)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"next_round": 5', '"next_round": 4'),
        ('"size": 8', '"size": 9'),
        ('"seconds": 1.5', '"seconds": 2.5'),
        ('"checksum"', '"checkrum"'),
    ],
)
def test_a_changed_state_is_damage(before, after, tmp_path):
    checkpoint.write(tmp_path, state(5), save)
    path = checkpoint.latest(tmp_path) / "state.json"
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    with pytest.raises(CheckpointError):
        checkpoint.read(path.parent, lambda folder: None)
