"""Federations with keys, as real processes."""

import json
import re
import signal

import pytest


class Federation:
    """Writes federation files of three ranks on this host."""

    def __init__(self, dpeer, folder, base, task):
        self.dpeer, self.folder, self.base, self.task = dpeer, folder, base, task

    def key(self, folder, rank):
        """A new public key of a rank, as a file has it; its secret is in the folder."""
        message = self.dpeer("keygen", "--rank", rank, "--out", folder).out
        return re.search(r'^key = ("[0-9a-f]{64}")$', message, re.MULTILINE)[1]

    def __call__(self, keys, name="dpeer.toml"):
        """Write a file that lists these keys, by rank."""
        lines = ["size = 3", f'task = "{self.task}"', "rounds = 3", 'topology = "ring"', 'alone = "never"']
        for rank, key in enumerate(keys):
            lines += [f"[rank.{rank}]", f'address = "tcp://127.0.0.1:{self.base + rank}"', f"key = {key}"]
        (self.folder / name).write_text("\n".join(lines) + "\n")


@pytest.fixture
def federation(dpeer, tmp_path, free_ports, task):
    return Federation(dpeer, tmp_path, free_ports(3), task)


def start(dpeer_process, rank, schedule, *more, file="dpeer.toml", secret="keys", out="out"):
    return dpeer_process(
        "start", "--federation", file, "--rank", rank, "--secret", f"{secret}/rank-{rank}.secret", "--threads", 1,
        "--out", out, *schedule, *more,
    )  # fmt: skip


@pytest.mark.slow
def test_keygen_and_start_give_the_bits_of_an_encrypted_cluster_and_of_a_simulation(
    dpeer_process, simulate, federation, schedule, results, task
):
    federation([federation.key("keys", rank) for rank in range(3)])
    for peer in [start(dpeer_process, rank, schedule) for rank in range(3)]:
        assert ", encrypted (settings from dpeer.toml)" in peer.succeed()
    common = ("--size", 3, "--task", task, "--rounds", 3, "--topology", "ring", *schedule)
    dpeer_process("cluster", "--encrypt", *common, "--out", "cluster").succeed()
    simulate(*common, "--out", "simulated")
    assert results("out", 3) == results("cluster", 3) == results("simulated", 3)


@pytest.mark.slow
def test_a_rank_changes_its_key_and_the_old_one_is_revoked_while_the_others_train_on(
    dpeer_process, federation, schedule, tmp_path, until, slow_after, hurry
):
    """As docs/security.md says: peers are started again one after the other, and no other is disturbed."""
    lines = [federation.key("keys", rank) for rank in range(3)]
    new = federation.key("new", 1)
    federation(lines)
    federation([lines[0], f"[{lines[1]}, {new}]", lines[2]], "both.toml")
    federation([lines[0], new, lines[2]], "after.toml")
    more = ("--rounds", 30, *slow_after(1))
    peers = [start(dpeer_process, rank, schedule, *more) for rank in range(3)]
    until(lambda: all("round 1/30" in peer.output for peer in peers))

    def again(rank, file, secret="keys"):
        others = [peer for number, peer in enumerate(peers) if number != rank]
        peers[rank].signal(signal.SIGINT)
        peers[rank].succeed()
        peers[rank] = start(dpeer_process, rank, schedule, *more, "--resume", file=file, secret=secret)
        until(lambda: "connected to 2 neighbors" in peers[rank].output)
        assert [peer.code for peer in others] == [None, None]

    for rank in (0, 2):
        again(rank, "both.toml")
    again(1, "both.toml", "new")
    for rank in (0, 2, 1):
        again(rank, "after.toml", "new" if rank == 1 else "keys")
    # Neither the old key is let in any more nor one that was never listed.
    federation([federation.key("stranger", rank) for rank in range(3)], "stranger.toml")
    for file, secret in (("dpeer.toml", "keys"), ("stranger.toml", "stranger")):
        at = f"tcp://127.0.0.1:{federation.base + 1}"
        elsewhere = (tmp_path / file).read_text().replace(at, f"ipc://{tmp_path}/{secret}.socket")
        (tmp_path / "elsewhere.toml").write_text(elsewhere)
        intruder = start(dpeer_process, 1, schedule, *more, file="elsewhere.toml", secret=secret, out=f"of-{secret}")
        until(lambda intruder=intruder: "rank 2 cannot be dialled" in intruder.output)
        assert "connected to" not in intruder.output
        intruder.end()
    assert "its key is not in the federation file" in peers[2].output
    hurry()
    for peer in peers:
        peer.succeed()
    for rank in range(3):
        summary = json.loads((tmp_path / "out" / f"rank-{rank}" / "summary.json").read_text())
        assert (summary["status"], summary["completed_rounds"]) == ("done", 30)
        assert not {"mismatch", "wrong-rank", "malformed"} & summary["dropped"].keys()
