"""Starting peer: its neighbors, and where it dials them."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.federation.member_changes import edges_of, list_zero, write_list
from dpeer.federation.settings import Settings
from dpeer.federation.starting import Starting, own_rank, source
from dpeer.peer.core.member_list import Former, Member, MemberList
from dpeer.peer.transports.curve import new_secret, public_of
from dpeer.topology import build
from tests.error_texts import refused


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


SECRETS = [new_secret() for _ in range(6)]
KEYS = [public_of(one).hex() for one in SECRETS]


def changing(folder: Path, rank: int, **more: Any) -> Settings:
    """A ring of four with keys and an operator, as this rank starts in it."""
    file = folder / "secret"
    file.write_text(SECRETS[rank].hex())
    file.chmod(0o600)
    ranks = {one: {"address": address(one), "key": KEYS[one]} for one in range(4)}
    given = {"size": 4, "rank": ranks, "secret": file, "operators": ["ab" * 32], "name": "one", "out": folder / "run"}
    return Settings.model_validate(given | more)


def later(settings: Settings) -> MemberList:
    """List 1: rank 1 has left, rank 3 has moved, rank 5 is new."""
    zero = list_zero(settings, settings, settings.rounds, {"seed": 0})
    members = {0: zero.members[0], 2: zero.members[2], 3: Member("tcp://10.0.0.3:7700", (KEYS[3],)),
               5: Member(address(5), (KEYS[5],))}  # fmt: skip
    return replace(
        zero, version=1, previous=zero.digest, members=members, former={1: Former((KEYS[1],), "left")},
        edges=edges_of(build("ring", 4)),
    )  # fmt: skip


def test_a_new_rank_starts_with_the_list_that_has_it(tmp_path: Path) -> None:
    settings = changing(tmp_path, 5)
    write_list(tmp_path / "members-1.json", later(settings))
    found = Starting(settings, 5, tmp_path / "members-1.json")
    assert (found.neighbors, found.listen) == ((0, 3), address(5))
    assert found.to_dial == {}, "of two with an address the lower rank dials"
    assert {rank: [key.hex() for key in keys] for rank, keys in found.keyring.listed.items()} == {
        rank: [KEYS[rank]] for rank in (0, 1, 2, 3, 5)
    }
    assert found.given == found.listed == later(settings)


def test_a_new_rank_needs_a_list_that_has_it(tmp_path: Path) -> None:
    settings = changing(tmp_path, 4)
    with refused(ConfigurationError, "--rank 4: the federation file has the ranks 0..3: start with --members FILE"):
        Starting(settings, 4)
    write_list(tmp_path / "members-1.json", later(settings))
    with refused(ConfigurationError, "--rank 4: ", "has the members 0, 2-3, 5, and not this one"):
        Starting(settings, 4, tmp_path / "members-1.json")
    with refused(ConfigurationError, "rank 4 does not exist in a federation of size 4"):
        Starting(changing(tmp_path, 4, operators=None), 4)


@pytest.mark.parametrize("resume", [True, False])
def test_a_peer_that_goes_on_takes_the_newest_list_of_its_folder(tmp_path: Path, *, resume: bool) -> None:
    settings = changing(tmp_path, 3)
    zero, one = list_zero(settings, settings, settings.rounds, {"seed": 0}), later(settings)
    folder = tmp_path / "run" / "rank-3"
    folder.mkdir(parents=True)
    kept = {"list": json.loads(zero.encode()), "next": json.loads(one.encode())}
    (folder / "members.json").write_text(json.dumps(kept))
    found = Starting(settings, 3, resume=resume)
    assert found.neighbors == ((2, 5) if resume else (0, 2))
    assert found.everyone[3] == ("tcp://10.0.0.3:7700" if resume else address(3))
    assert found.to_dial == ({5: address(5)} if resume else {})


def test_the_list_of_a_start_has_the_weights(tmp_path: Path) -> None:
    settings = changing(tmp_path, 5, weights="declared:400,20,30.5,7")
    one = later(settings)
    members = {**one.members, 3: replace(one.members[3], weight=8.0), 5: replace(one.members[5], weight=55.0)}
    expected = build("ring", 4, weights="declared:400,30.5,8,55")
    write_list(tmp_path / "members-1.json", replace(one, members=members, edges=edges_of(expected)))
    graph = Starting(settings, 5, tmp_path / "members-1.json").graph
    assert graph is not None
    ranks = (0, 2, 3, 5)
    assert graph.at(0, 5).row == {ranks[place]: weight for place, weight in expected.at(0, 3).row.items()}


@pytest.mark.parametrize(
    ("variables", "rank", "of"),
    [
        ({"SLURM_ARRAY_TASK_ID": "3", "SLURM_PROCID": "0"}, 3, "SLURM_ARRAY_TASK_ID"),
        ({"SLURM_PROCID": "2", "OMPI_COMM_WORLD_RANK": "0"}, 2, "SLURM_PROCID"),
        ({"OMPI_COMM_WORLD_RANK": "4"}, 4, "OMPI_COMM_WORLD_RANK"),
        ({}, 5, "the host name 'trainer-5'"),
    ],
)
def test_the_first_variable_that_is_set_counts_or_the_number_of_a_pod(
    variables: dict[str, str], rank: int, of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLURM_ARRAY_TASK_ID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(socket, "gethostname", lambda: "trainer-5")
    assert (own_rank("env"), source()) == (rank, of)
