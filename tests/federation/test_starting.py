"""Starting peer: neighbors, addresses and keys of the start, and those of a later epoch."""

from pathlib import Path
from typing import Any

from dpeer.federation.epoch_graph import epoch_graph
from dpeer.federation.operators import new_operator
from dpeer.federation.settings import Settings
from dpeer.federation.starting import Starting
from dpeer.peer.core.epoch import Epoch, Member, first_epoch, operator_of, successor
from dpeer.peer.transports.curve import new_secret, public_of

OPERATOR = operator_of(new_operator())


def address(rank: int) -> str:
    return f"tcp://127.0.0.1:{7700 + rank}"


def starting(folder: Path, rank: int = 1, **more: Any) -> Starting:
    """A rank of a ring of four, with keys."""
    secrets = [new_secret() for _ in range(4)]
    file = folder / "secret"
    file.write_text(secrets[rank].hex())
    file.chmod(0o600)
    ranks = {one: {"address": address(one), "key": public_of(secrets[one]).hex()} for one in range(4)}
    values = {"size": 4, "rank": ranks, "secret": file, "operators": [OPERATOR], "name": "one", **more}
    return Starting(Settings.model_validate(values), rank, joins=False)


def epoch(*, join: dict[int, Member], evict: list[int]) -> Epoch:
    settings = {"topology": "ring"}
    first = first_epoch(
        "1" * 64, size=4, operators=[OPERATOR], signers=1, graph=epoch_graph(settings, range(4)), rounds=20
    )
    ranks = sorted({*range(4), *join} - {*evict})
    return successor(first, begins=9, graph=epoch_graph(settings, ranks), join=join, evict=evict)


def test_neighbors_of_the_start_are_those_of_its_graph(tmp_path: Path) -> None:
    found = starting(tmp_path)
    assert found.neighbors == (0, 2)
    assert found.to_dial == {2: address(2)}
    assert found.own.deadline == "auto"


def test_an_epoch_brings_its_neighbors_addresses_and_keys(tmp_path: Path) -> None:
    """Rank 2 is taken out, and rank 4 joins between 3 and 0: a ring of 0, 1, 3, 4."""
    found, key = starting(tmp_path), public_of(new_secret())
    before = found.keyring
    assert before is not None
    found.follow(epoch(join={4: Member(address="tcp://10.0.0.4:7700", keys=(key.hex(),))}, evict=[2]))
    assert found.neighbors == (0, 3)
    assert found.to_dial == {3: address(3)}
    assert found.everyone == {0: address(0), 1: address(1), 3: address(3), 4: "tcp://10.0.0.4:7700"}
    assert found.keyring is not None
    assert found.keyring.listed == {**{rank: before.listed[rank] for rank in (0, 1, 3)}, 4: (key,)}


def test_a_peer_that_sends_nothing_has_no_neighbors_in_any_epoch(tmp_path: Path) -> None:
    found = starting(tmp_path, algorithm="local")
    found.follow(epoch(join={}, evict=[2]))
    assert (found.neighbors, found.to_dial) == ((), {})
