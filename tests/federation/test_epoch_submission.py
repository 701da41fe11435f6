"""Epochs on their way to a running peer: files, and what a peer answers of its membership."""

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.federation.epoch_graph import epoch_graph
from dpeer.federation.epoch_submission import answers, read_epoch, write_epoch
from dpeer.peer.core.epoch import SignedEpoch, first_epoch, operator_of, successor

SECRET = bytes([1] * 32)


def signed() -> SignedEpoch:
    graph = epoch_graph({"topology": "ring"}, range(3))
    start = first_epoch("1" * 64, size=3, operators=[operator_of(SECRET)], signers=1, graph=graph, rounds=20)
    return SignedEpoch(epoch=successor(start, begins=5, graph=graph, rounds=30)).signed_with(SECRET)


def test_an_epoch_is_written_whole_and_read_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "change.epoch"
    file.write_text("something else")
    write_epoch(file, signed())
    assert read_epoch(file) == signed()
    assert [path.name for path in tmp_path.iterdir()] == ["change.epoch"]
    assert stat.S_ISREG(file.stat().st_mode)


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "change.epoch").mkdir()
    with pytest.raises(ConfigurationError, match="cannot be written: Is a directory"):
        write_epoch(tmp_path / "change.epoch", signed())
    with pytest.raises(ConfigurationError, match="cannot be written: No such file or directory"):
        write_epoch(tmp_path / "no" / "change.epoch", signed())
    assert [path.name for path in tmp_path.iterdir()] == ["change.epoch"]


def test_a_peers_answer_tells_whether_connections_need_keys() -> None:
    def known(request: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"round": 3}

    for encrypted in (True, False):
        found = answers({"membership": known, "status": known}, encrypted=encrypted, keys={1: (b"\xab" * 32,)})
        assert found["membership"]({"ask": "membership"}) == {
            "round": 3, "encrypted": encrypted, "keys": {"1": ["ab" * 32]},
        }  # fmt: skip
        assert found["status"]({}) == {"round": 3}


def test_a_federation_without_operators_refuses_changes_by_name() -> None:
    found = answers({}, encrypted=False)
    for name in ("membership", "epoch"):
        with pytest.raises(ConfigurationError, match="cannot change: its file lists no operator's key"):
            found[name]({"ask": name})
