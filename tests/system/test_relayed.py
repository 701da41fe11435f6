"""Real peers that can only dial out: they meet at a relay that comes and goes, and train."""

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


@pytest.mark.slow
def test_peers_meet_at_a_relay_that_is_down_at_first_lacks_a_key_and_is_killed_and_one_that_has_slept_meets_them_again(
    dpeer_process, schedule, task, tmp_path, free_ports, until, hurry
):
    """All four can only dial out."""
    place, last = f"127.0.0.1:{free_ports(1)}", 3
    keys = [write_secret(rank, tmp_path / "keys") for rank in range(last + 1)]
    lines = ["size = 4", f'task = "{task}"', "rounds = 100000", 'topology = "ring"', 'alone = "never"']
    lines += ["dead_after = 6.0"]
    for rank, (_, key) in enumerate(keys):
        lines += [f"[rank.{rank}]", f'address = "relay://{place}"', f'key = "{key.hex()}"']
    (tmp_path / "dpeer.toml").write_text("\n".join(lines) + "\n")
    listed = tmp_path / "relay.toml"
    listed.write_text("".join(f'rank.{rank}.key = "{key.hex()}"\n' for rank, (_, key) in enumerate(keys[:last])))

    def start(rank):
        words = ("--secret", keys[rank][0], "--threads", 1, "--out", "out", *schedule, "--task-option", "pause=0.004")
        return dpeer_process("start", "--rank", rank, *words)

    def relay():
        return dpeer_process("relay", "--listen", f"tcp://{place}", "--keys", listed)

    def all_mix(rounds):
        """Wait until each of the ring has mixed both of its neighbors in so many rounds one after the other."""
        since = [len(heard(rank)) for rank in range(4)]
        both = [sorted({(rank - 1) % 4, (rank + 1) % 4}) for rank in range(4)]
        until(lambda: all(heard(rank)[since[rank] :][-rounds:] == [both[rank]] * rounds for rank in range(4)))

    def heard(rank):
        path = tmp_path / f"out/rank-{rank}/metrics.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line)["heard"] for line in text.splitlines(keepends=True) if line.endswith("\n")]

    peers = [start(rank) for rank in range(4)]
    until(lambda: all("no neighbor reaches this peer by its relay" in peer.output for peer in peers))
    first = relay()
    until(lambda: "see that the relay's --keys FILE lists the key" in peers[last].output)
    with listed.open("a") as file:
        file.write(f'rank.{last}.key = "{keys[last][1].hex()}"\n')
    all_mix(1)
    assert "keys were read again: 4 keys" in first.output

    # A laptop that sleeps.
    peers[1].signal(signal.SIGSTOP)
    until(lambda: all("lost rank 1" in peers[rank].output for rank in (0, 2)))
    peers[1].signal(signal.SIGCONT)
    until(lambda: all("rank 1 is back" in peers[rank].output for rank in (0, 2)))
    all_mix(3)
    joined = first.output.count("joined")
    all_mix(10)
    assert first.output.count("joined") == joined, "none displaces another"

    first.signal(signal.SIGKILL)
    until(lambda: all("cannot be reached" in peer.output.rpartition("connected to")[2] for peer in peers))
    second = relay()
    until(lambda: second.output.count(" joined ") >= len(peers))
    all_mix(1)
    hurry()
    for peer in peers:
        peer.signal(signal.SIGINT)
    for peer in peers:
        peer.succeed()
        assert "does not prove" not in peer.output
