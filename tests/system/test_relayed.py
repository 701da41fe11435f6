"""Real peers that can only dial out: they meet at a relay that comes and goes, as members do, and train."""

import json
import re
import signal

import pytest

from dpeer.federation.keys import write_secret
from dpeer.federation.operators import write_operator

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
def test_a_laptop_that_has_slept_is_met_again_on_one_connection(dpeer_process, federation, schedule, tmp_path, until):
    """Where an operator may change the federation, lost neighbors are dialled anew for two reasons."""
    _, operator = write_operator(tmp_path / "operator")
    file = tmp_path / "dpeer.toml"
    more = f'operators = ["{operator}"]\nname = "laptop"\ndead_after = 3.0\nrounds = 100000'
    file.write_text(file.read_text().replace(f"rounds = {ROUNDS}", more))

    def heard(rank):
        path = tmp_path / f"out/rank-{rank}/metrics.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line)["heard"] for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def all_mix_all(rounds):
        """Wait until each has mixed both others in so many rounds from now on, one after the other."""
        since = [len(heard(rank)) for rank in range(3)]

        def done():
            new = [heard(rank)[since[rank] :][-rounds:] for rank in range(3)]
            return all(len(one) == rounds and all(len(ranks) == 2 for ranks in one) for one in new)

        until(done)

    relay = dpeer_process("relay", "--listen", f"tcp://127.0.0.1:{federation}", "--keys", "dpeer.toml")
    until(lambda: "for 3 keys" in relay.output)
    words = ("--threads", 1, "--out", "out", *schedule, "--task-option", "pause=0.004")
    peers = [dpeer_process("start", "--rank", rank, *words) for rank in range(3)]
    all_mix_all(2)
    peers[1].signal(signal.SIGSTOP)
    until(lambda: all("lost rank 1" in peers[rank].output for rank in (0, 2)))
    peers[1].signal(signal.SIGCONT)
    until(lambda: all("rank 1 is back" in peers[rank].output for rank in (0, 2)))
    all_mix_all(3)
    joined = relay.output.count("joined")
    all_mix_all(15)
    assert relay.output.count("joined") == joined, "none displaces another"
    for peer in peers:
        peer.signal(signal.SIGINT)
    for peer in peers:
        peer.succeed()
    assert not [line for peer in peers for line in peer.output.splitlines() if "does not prove" in line]


@pytest.mark.slow
def test_members_come_and_go_behind_a_relay_that_is_down_at_first_and_is_killed_half_way(
    dpeer_process, schedule, task, tmp_path, free_ports, until, hurry
):
    """Four can only dial out, as can the newcomer, whom first the relay does not know and then the members do not."""
    place, newcomer = f"127.0.0.1:{free_ports(1)}", 4
    operator, public = write_operator(tmp_path / "operator")
    keys = [write_secret(rank, tmp_path / "keys") for rank in range(newcomer + 1)]
    lines = [
        "size = 4", 'name = "behind-a-relay"', f'operators = ["{public}"]', f'task = "{task}"', "rounds = 100000",
        'topology = "ring"', 'alone = "never"', "dead_after = 3.0",
    ]  # fmt: skip
    for rank, (_, key) in enumerate(keys[:newcomer]):
        lines += [f"[rank.{rank}]", f'address = "relay://{place}"', f'key = "{key.hex()}"']
    (tmp_path / "dpeer.toml").write_text("\n".join(lines) + "\n")
    listed = tmp_path / "relay.toml"
    listed.write_text("".join(f'rank.{rank}.key = "{key.hex()}"\n' for rank, (_, key) in enumerate(keys[:newcomer])))

    own = [f"[rank.{newcomer}]", f'address = "relay://{place}"']
    (tmp_path / "newcomer.toml").write_text("\n".join(lines + own) + "\n")

    def start(rank, *more):
        words = ("--secret", keys[rank][0], "--threads", 1, "--out", "out", *schedule, "--task-option", "pause=0.004")
        return dpeer_process("start", "--rank", rank, *words, *more)

    def relay():
        return dpeer_process("relay", "--listen", f"tcp://{place}", "--keys", listed)

    def operate(command, *more):
        return dpeer_process(command, "out/rank-0", *more, "--operator", operator).succeed()

    def heard(rank):
        path = tmp_path / f"out/rank-{rank}/metrics.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line)["heard"] for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def mixes(*members):
        """Whether each of a ring has mixed both of its neighbors in the last round."""
        around = {rank: sorted({members[place - 1], members[(place + 1) % len(members)]})
                  for place, rank in enumerate(members)}  # fmt: skip
        return all(heard(rank)[-1:] == [near] for rank, near in around.items())

    peers = [start(rank) for rank in range(newcomer)]
    until(lambda: all("no neighbor reaches this peer by its relay" in peer.output for peer in peers))
    first = relay()
    until(lambda: mixes(0, 1, 2, 3))

    peers.append(start(newcomer, "--join", "--federation", "newcomer.toml"))
    until(lambda: "see that the relay's --keys FILE lists the key" in peers[newcomer].output)
    with listed.open("a") as file:
        file.write(f'rank.{newcomer}.key = "{keys[newcomer][1].hex()}"\n')
    until(lambda: "yet: have an operator let it in" in peers[newcomer].output)
    assert "keys were read again: 5 keys" in first.output
    address = ("--address", f"relay://{place}", "--key", keys[newcomer][1].hex())
    assert f"joins: rank 4 at relay://{place}, key " in operate("join", "--rank", newcomer, *address)
    until(lambda: mixes(0, 1, 2, 3, 4))

    first.signal(signal.SIGKILL)
    until(lambda: all("cannot be reached" in peer.output.rpartition("has begun")[2] for peer in peers))
    second = relay()
    until(lambda: second.output.count(" joined ") >= len(peers))
    until(lambda: mixes(0, 1, 2, 3, 4))

    operate("evict", "--rank", 2)
    assert peers[2].wait() == 3
    assert "dpeer: was evicted from the federation after " in peers[2].output
    until(lambda: mixes(0, 1, 3, 4))
    operate("leave", "--rank", 1)
    assert "dpeer: left the federation after " in peers[1].succeed()
    until(lambda: mixes(0, 3, 4))
    rounds = 100001
    operate("extend", "--rounds", rounds)
    until(lambda: all(f"/{rounds}, loss" in peers[rank].output for rank in (0, 3, newcomer)))
    hurry()
    for rank in (0, 3, newcomer):
        peers[rank].signal(signal.SIGINT)
        assert re.search(rf"dpeer: stopped after \d+ of {rounds} rounds", peers[rank].succeed())
    for peer in peers:
        assert "does not prove" not in peer.output
