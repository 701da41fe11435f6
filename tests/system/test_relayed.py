"""Real peers that can only dial out: they meet at a relay that ends and comes back, and train."""

import json
import re
import signal

import pytest

from dpeer.federation.keys import write_secret

ROUNDS = 12


@pytest.fixture
def federation(tmp_path, free_ports, task):
    """The port of the relay; rank 0 has no address, ranks 1 and 2 are reached through the relay."""
    port = free_ports(1)
    lines = ["size = 3", f'task = "{task}"', f"rounds = {ROUNDS}", 'topology = "ring"', 'alone = "never"']
    for rank in range(3):
        path, key = write_secret(rank, tmp_path / "keys")
        lines += [f"[rank.{rank}]", f'key = "{key.hex()}"', f'secret = "{path}"']
        lines += [f'address = "relay://127.0.0.1:{port}"'] if rank else []
    (tmp_path / "dpeer.toml").write_text("\n".join(lines) + "\n")
    return port


@pytest.mark.slow
def test_three_peers_that_can_only_dial_out_meet_at_a_relay_that_ends_and_comes_back(
    dpeer_process, simulate, federation, schedule, results, task, tmp_path, until, hurry
):
    def relay():
        return dpeer_process("relay", "--listen", f"tcp://127.0.0.1:{federation}", "--keys", "dpeer.toml")

    def rounds(rank):
        path = tmp_path / f"out/rank-{rank}/metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    first = relay()
    until(lambda: "for 3 keys" in first.output)
    peers = [
        dpeer_process(
            "start", "--rank", rank, "--threads", 1, "--out", "out", *schedule, "--task-option", "pause=0.004"
        )
        for rank in range(3)
    ]
    until(lambda: all(len(rounds(rank)) > 2 for rank in range(3)))
    first.signal(signal.SIGINT)
    printed = first.succeed()
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert re.search(rf"joined rank {one} \([0-9a-f]{{8}}\) to rank {other} ", printed)
    assert "dpeer relay: ended after 3 joined connections" in printed
    second = relay()
    until(lambda: second.output.count("joined") == 3)
    hurry()
    for peer in peers:
        peer.succeed()
    for rank in range(3):
        assert {tuple(one["heard"]) for one in rounds(rank)} == {tuple({0, 1, 2} - {rank})}
    common = ("--size", 3, "--task", task, "--rounds", ROUNDS, "--topology", "ring", *schedule)
    simulate(*common, "--out", "simulated")
    assert results("out", 3) == results("simulated", 3)
    second.signal(signal.SIGTERM)
    second.succeed()
