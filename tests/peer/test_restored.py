"""The note of a folder that was made from a backup, and which rounds it has its peer charge."""

import json

import pytest

from dpeer.exceptions import CheckpointError
from dpeer.peer import restored
from dpeer.peer.config import PeerConfig
from dpeer.peer.core.bodies import Outbox
from dpeer.peer.core.round_clock import RoundClock
from dpeer.peer.rank_folder import RankFolder
from dpeer.peer.restored import Restored

NOTE = Restored(1000.0, 4, rounds=6, restarts=2)


def test_a_note_is_read_as_it_was_written_and_gone_when_it_is_removed(tmp_path):
    assert restored.read(tmp_path) is None
    restored.write(tmp_path, NOTE)
    assert restored.read(tmp_path) == NOTE
    restored.remove(tmp_path)
    restored.remove(tmp_path)
    assert restored.read(tmp_path) is None


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[1]", '{"backup": 1}', *(
        json.dumps({"backup": 1.0, "completed": 4, "returns": True, "rounds": None, "restarts": 0} | wrong)
        for wrong in ({"completed": -1}, {"returns": 1}, {"rounds": "9"}, {"restarts": True}, {"more": 1})
    )],
)  # fmt: skip
def test_a_damaged_note_never_counts_as_none(tmp_path, content):
    (tmp_path / "restored.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"restored.json' is damaged: what was released since the backup"):
        restored.read(tmp_path)


@pytest.mark.parametrize(
    ("note", "ahead", "last"),
    [
        (Restored(0.0, 4), 0, 5),  # 4 rounds are completed, round number 4 may be released, one is forgotten in a crash
        (Restored(0.0, 4), 9, 10),
        (Restored(0.0, 4, rounds=12), 9, 13),
    ],
)
def test_the_last_round_that_may_have_been_released(note, ahead, last):
    assert note.last_lost(ahead, 1) == last
    assert note.last_lost(ahead, 3) == last + 2


@pytest.mark.parametrize(("protects", "last"), [(True, 6), (False, -1)])
def test_a_peer_that_protects_nothing_has_no_lost_rounds(tmp_path, protects, last):
    restored.write(tmp_path, Restored(0.0, 4))
    config = PeerConfig(0, 9, None, {}, out=tmp_path, resume=True, checkpoint_every=2, protects=protects)
    files = RankFolder(config, object(), Outbox(), {}, {})
    files.restored = restored.read(tmp_path)
    assert files.last_lost(0) == last
    files.note_restored(None)
    assert files.last_lost(0) == -1
    assert restored.read(tmp_path) is None


@pytest.mark.parametrize(
    ("note", "protects", "resends"),
    [
        (None, True, True),
        (Restored(0.0, 4), True, False),
        (Restored(0.0, 4), False, True),
        (Restored(0.0, 4, returns=False, rounds=6), True, True),
    ],
)
def test_a_private_peer_that_comes_back_by_what_others_know_sends_no_body_of_its_backup(
    tmp_path, note, protects, resends
):
    config = PeerConfig(0, 9, None, {}, out=tmp_path, resume=True, protects=protects)
    files = RankFolder(config, object(), Outbox(), {}, {})
    files.restored = note
    assert files.resends() == resends


def test_only_what_others_know_beyond_the_own_rounds_is_of_another_disk():
    """Their tables also repeat what this peer has told them."""
    clock = RoundClock(0, 3, 50)
    clock.reached(0, 4)
    clock.remind(4)
    assert clock.ahead == 0
    clock.remind(9)
    clock.reached(0, 10)
    clock.remind(10)
    assert clock.ahead == 9


def test_others_that_are_far_behind_a_backup_have_begun_again():
    note = Restored(0.0, 40)
    assert note.precedes(36, 3)
    assert not note.precedes(37, 3)
    assert not Restored(0.0, 40, returns=False).precedes(0, 3)
