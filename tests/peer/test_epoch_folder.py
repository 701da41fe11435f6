"""The chain of epochs on disk: what is there after a write, a power loss and a change by hand."""

import json
from dataclasses import replace

import pytest

from dpeer.exceptions import CheckpointError
from dpeer.peer import epoch_folder
from dpeer.peer.core.epoch import EpochSetup
from dpeer.peer.core.epoch_chain import ChainRecord
from dpeer.topology import build
from tests.messages.epochs import ONE, TWO, first, record, ring, signed


def test_what_is_written_is_read(tmp_path):
    assert epoch_folder.read(tmp_path / "epochs") == ChainRecord()
    for kept in (record(ONE), record(ONE, TWO), replace(record(ONE), void=(ONE.digest,))):
        epoch_folder.write(tmp_path / "epochs", kept)
        assert epoch_folder.read(tmp_path / "epochs") == kept
    epoch_folder.remove(tmp_path / "epochs")
    assert epoch_folder.read(tmp_path / "epochs") == ChainRecord()


def test_a_document_that_is_there_is_not_written_again(tmp_path):
    epoch_folder.write(tmp_path, record(ONE))
    (path,) = tmp_path.glob("0001-*.json")
    before = path.stat().st_mtime_ns, path.stat().st_ino
    epoch_folder.write(tmp_path, record(ONE, TWO))
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before
    assert path.read_bytes() == signed(ONE)


def test_after_a_power_loss_between_the_files_the_record_before_is_there(tmp_path):
    """The document of the second epoch is on disk, and what names it is not."""
    epoch_folder.write(tmp_path, record(ONE))
    chain = (tmp_path / "chain.json").read_bytes()
    epoch_folder.write(tmp_path, record(ONE, TWO))
    (tmp_path / "chain.json").write_bytes(chain)
    assert epoch_folder.read(tmp_path) == record(ONE)


@pytest.mark.parametrize("name", ["../0001-secret.json", "0001-00000000.json", "/etc/hostname", 7, None])
def test_a_name_of_another_file_is_damage(name, tmp_path):
    epoch_folder.write(tmp_path, record(ONE))
    (tmp_path / "0001-00000000.json").write_bytes(signed(ONE))
    (tmp_path.parent / "0001-secret.json").write_bytes(signed(ONE))
    found = json.loads((tmp_path / "chain.json").read_text())
    (tmp_path / "chain.json").write_text(json.dumps(found | {"documents": [name]}))
    with pytest.raises(CheckpointError, match="are damaged"):
        epoch_folder.read(tmp_path)


@pytest.mark.parametrize(
    ("rounds", "changed", "words"),
    [
        (21, {}, "do not fit this run: epoch 1 …; resume with the federation file, rounds included"),
        (20, {"body_lr": 0.1}, "is of another run: body_lr is 0.05 there and 0.1 here; use the same settings"),
    ],
)
async def test_who_is_resumed_with_another_genesis_is_told_which_setting_differs(
    federation, tmp_path, rounds, changed, words
):
    topology = build("ring", 4)
    ours = federation("inprocess", topology, rounds=1, out=tmp_path, epochs=EpochSetup(first(), ring))
    await ours.run()
    epoch_folder.write(tmp_path / "rank-0" / "epochs", record(ONE))
    other = first(21)
    again = federation("inprocess", topology, rounds=rounds, out=tmp_path, epochs=EpochSetup(other, ring))
    again.add(0, out=tmp_path, resume=True, fingerprint=changed)
    with pytest.raises(CheckpointError) as raised:
        await again.peers[0].listen()
    head, _, tail = words.partition("…")
    assert head in str(raised.value)
    assert tail in str(raised.value)
    assert "\n" not in str(raised.value)
