"""`dpeer start`, typed once for each peer."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow

ROUNDS = 5


def test_peers_started_by_hand_stop_together_and_resume_to_the_bits_of_an_uninterrupted_run(
    task: str,
    schedule: tuple[str, ...],
    dpeer: Callable[..., Any],
    simulate: Callable[..., None],
    slow_after: Callable[[int], tuple[str, ...]],
    rounds_done: Callable[..., int],
    results: Callable[..., Any],
    free_ports: Callable[[int], int],
    until: Callable[..., Any],
) -> None:
    size, base = 3, free_ports(3)
    federation = ("--topology", "ring", "--size", size, "--task", task, *schedule, "--rounds", ROUNDS)
    common = ("start", *federation, "--base-port", base, "--threads", 1, "--out", "run")
    peers = [dpeer(*common, *slow_after(2), "--rank", rank) for rank in range(size)]
    for rank, peer in enumerate(peers):
        first = f"dpeer: rank {rank} of 3, ring, listening at tcp://127.0.0.1:{base + rank} (no federation file: all "
        until(lambda peer=peer, first=first: peer.output.startswith(first))
    until(lambda: rounds_done("run") >= 2)
    for peer in peers:
        peer.signal(signal.SIGTERM)
    for rank, peer in enumerate(peers):
        done = peer.succeed().splitlines()[-1]
        assert done.startswith(f"dpeer: stopped after {rounds_done('run', rank)} of {ROUNDS} rounds; --resume goes on")
    completed = [rounds_done("run", rank) for rank in range(size)]
    assert max(completed) - min(completed) <= 1, "neighbors are never more than one round apart"
    assert 1 <= min(completed) < ROUNDS

    for rank, peer in enumerate([dpeer(*common, "--rank", rank, "--resume") for rank in range(size)]):
        (done,) = (line for line in peer.succeed().splitlines() if line.startswith("dpeer: done"))
        assert done.startswith(f"dpeer: done after {ROUNDS} rounds, accuracy ")
        assert done.endswith(f"files in run/rank-{rank}")
    simulate(*federation, "--out", "simulated")
    assert results("run", size) == results("simulated", size)


def test_one_federation_file_serves_all_and_a_rank_without_address_takes_part_by_dialling_out(
    task: str,
    dpeer: Callable[..., Any],
    simulate: Callable[..., None],
    results: Callable[..., Any],
    free_ports: Callable[[int], int],
    tmp_path: Path,
) -> None:
    base = free_ports(2)
    common = f"""
        size = 3
        topology = "ring"
        task = "{task}"
        rounds = 3
        batch_size = 8
        seed = 7
    """
    (tmp_path / "plain.toml").write_text(common)
    (tmp_path / "dpeer.toml").write_text(
        common
        + f"""
        threads = 1
        out = "run"

        [rank.0]
        address = "tcp://127.0.0.1:{base}"

        [rank.1]
        address = "tcp://localhost:{base + 1}"
        """
    )
    peers = [
        dpeer("start", "--rank", 2, "--federation", tmp_path / "dpeer.toml"),
        dpeer("start", "--rank", 1),
        dpeer("start", "--rank", 0),
    ]
    two, one, zero = (peer.succeed() for peer in peers)
    assert two.startswith("dpeer: rank 2 of 3, ring, dialling out only (settings from")
    assert one.startswith(
        f"dpeer: rank 1 of 3, ring, listening at tcp://127.0.0.1:{base + 1} (settings from dpeer.toml)\n"
    )
    assert zero.startswith(
        f"dpeer: rank 0 of 3, ring, listening at tcp://127.0.0.1:{base} (settings from dpeer.toml)\n"
    )
    for rank in range(3):
        summary = json.loads((tmp_path / "run" / f"rank-{rank}" / "summary.json").read_text())
        assert (summary["status"], summary["lost"], summary["dropped"]) == ("done", {}, {})

    simulate("--federation", "plain.toml", "--out", "simulated")
    assert results("run", 3) == results("simulated", 3)


@pytest.mark.parametrize("shared", [True, False])
def test_a_start_warns_of_rows_that_another_rank_on_the_host_holds_too(
    shared: bool,
    dpeer: Callable[..., Any],
    free_ports: Callable[[int], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for rank in range(2):
        rows = np.random.default_rng(0 if shared else rank).normal(size=(50, 3)).round(6)
        lines = ["a,b,c,y", *(f"{a},{b},{c},{'no' if a > b else 'yes'}" for a, b, c in rows)]
        (tmp_path / f"site-{rank}.csv").write_text("\n".join(lines) + "\n")
    data = ("--task", "csv", "--task-option", "path=site-{rank}.csv", "--task-option", "target=y")
    more = ("--rounds", 1, "--alone", "never", "--base-port", free_ports(2), "--threads", 1, "--out", "run")
    peers = [dpeer("start", "--size", 2, *data, *more, "--rank", rank) for rank in range(2)]
    for rank, peer in enumerate(peers):
        message = [line for line in peer.succeed().splitlines() if "also has" in line]
        assert len(message) == shared
        if shared:
            words = f"rank {1 - rank}, on this host, also has 50 of this peer's 50 rows, and trains on "
            assert f" WARNING: {words}" in message[0]
        log = (tmp_path / "run" / f"rank-{rank}" / "log.jsonl").read_text().splitlines()
        found = [one for one in map(json.loads, log) if one["event"] == "same-rows"]
        assert [(one["neighbor"], one["rows"]) for one in found] == shared * [(1 - rank, 50)]
    (folder,) = tmp_path.glob("dpeer-rows-*")
    assert [path.name for path in folder.iterdir()] == ["key"], "what a peer has left is removed at its end"
