"""Starting peer: its neighbors, and where it dials them."""

from pathlib import Path
from typing import Any

from dpeer.federation.settings import Settings
from dpeer.federation.starting import Starting
from dpeer.peer.transports.curve import new_secret, public_of


def address(rank: int) -> str:
    return f"tcp://127.0.0.1:{7700 + rank}"


def starting(folder: Path, rank: int = 1, **more: Any) -> Starting:
    """A rank of a ring of four, with keys."""
    secrets = [new_secret() for _ in range(4)]
    file = folder / "secret"
    file.write_text(secrets[rank].hex())
    file.chmod(0o600)
    ranks = {one: {"address": address(one), "key": public_of(secrets[one]).hex()} for one in range(4)}
    return Starting(Settings.model_validate({"size": 4, "rank": ranks, "secret": file, **more}), rank)


def test_neighbors_are_those_of_the_graph(tmp_path: Path) -> None:
    found = starting(tmp_path)
    assert found.neighbors == (0, 2)
    assert found.to_dial == {2: address(2)}
    assert found.own.deadline == "auto"


def test_a_peer_that_sends_nothing_has_no_neighbors(tmp_path: Path) -> None:
    found = starting(tmp_path, algorithm="local")
    assert (found.neighbors, found.to_dial) == ((), {})
