"""A rank's folder: which fingerprints a checkpoint goes on with."""

from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import CheckpointError
from dpeer.peer import wire
from dpeer.peer.config import PeerConfig
from dpeer.peer.learner import SaveCopy
from dpeer.peer.outbox import Outbox
from dpeer.peer.rank_folder import RankFolder

OURS = {"size": 2, "rounds": 4, "body_lr": 0.1}


class Silent:
    """A learner that has nothing to save."""

    def start_over(self) -> None: ...

    def copied(self) -> SaveCopy:
        return lambda directory: None

    def load(self, directory: Path) -> None: ...


def folder(out: Path, fingerprint: dict[str, Any], *, resume: bool = False) -> RankFolder:
    config = PeerConfig(0, 4, None, fingerprint, formerly=("rho", "sam"), out=out, resume=resume)
    return RankFolder(config, Silent(), Outbox(), {}, {})


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, None),
        ({"rounds": 3}, None),
        ({"rho": 0.05}, None),
        ({"body_lr": 0.2}, "body_lr is 0.2 there and 0.1 here"),
        ({"algorithm's source": "abc"}, "algorithm's source is 'abc' there and None here"),
    ],
)
def test_what_is_in_the_checkpoint_alone_is_compared(more: dict[str, Any], said: str | None, tmp_path: Path) -> None:
    first = folder(tmp_path, OURS | more)
    first.take_up()
    first.begin()
    first.complete({"round": 0})
    first.save()
    second = folder(tmp_path, OURS, resume=True)
    if said is None:
        assert second.take_up() == 1
        return
    with pytest.raises(CheckpointError, match=f"is of another run: {said}"):
        second.take_up()


def test_a_body_that_is_sent_again_is_of_the_federation_as_it_is_resumed(tmp_path: Path) -> None:
    """Neighbors that have the same, larger number of rounds would drop one of another federation."""
    first = folder(tmp_path, OURS | {"rounds": 3})
    first.take_up()
    first.begin()
    sent = wire.encode(wire.body(wire.federation_id(OURS | {"rounds": 3}), 0, 0, [b"12345678", b"abc"]))
    first._outbox.add(0, sent, (1,))
    first.complete({"round": 0})
    first.save()
    second = folder(tmp_path, OURS, resume=True)
    second.take_up()
    found = wire.decode([bytes(frame) for frame in second._outbox.frames[0]], wire.Limits(payload_bytes=100))
    assert isinstance(found, wire.Body)
    assert (found.federation, found.rank, found.round) == (wire.federation_id(OURS), 0, 0)
    assert found.buffers is not None
    assert b"".join(bytes(part) for part in found.buffers) == b"12345678abc"  # pragma: allowlist secret
    again = folder(tmp_path, OURS | {"rounds": 3}, resume=True)
    again.take_up()
    assert [bytes(frame) for frame in again._outbox.frames[0]] == [bytes(frame) for frame in sent]
