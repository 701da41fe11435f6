"""Federations with keys, as real processes."""

import re

import pytest


@pytest.fixture
def federation(dpeer, tmp_path, free_ports, task, schedule):
    """Write a federation file of three ranks, with keys that `dpeer keygen` makes; returns what its lines are."""
    base = free_ports(3)

    def write(name="dpeer.toml", keys="keys", **keys_of):
        lines = ["size = 3", f'task = "{task}"', "rounds = 3", 'topology = "ring"', 'alone = "never"']
        for rank in range(3):
            if f"rank_{rank}" not in keys_of and not (tmp_path / keys / f"rank-{rank}.secret").exists():
                made = dpeer("keygen", "--rank", rank, "--out", keys)
                (tmp_path / f"{keys}-{rank}.line").write_text(made.succeed())
            said = keys_of.get(f"rank_{rank}") or (tmp_path / f"{keys}-{rank}.line").read_text()
            key = re.search(r'key = "[0-9a-f]{64}"', said)[0] if said.count("key =") == 1 else said
            lines += [f"[rank.{rank}]", f'address = "tcp://127.0.0.1:{base + rank}"', key]
        (tmp_path / name).write_text("\n".join(lines) + "\n")

    return write


def start(dpeer, rank, schedule, *more, file="dpeer.toml", secret="keys", out="out"):
    return dpeer(
        "start", "--federation", file, "--rank", rank, "--secret", f"{secret}/rank-{rank}.secret", "--threads", 1,
        "--out", out, *schedule, *more,
    )  # fmt: skip


@pytest.mark.slow
def test_keygen_and_start_as_the_page_says_give_the_bits_of_a_cluster(dpeer, federation, schedule, results, task):
    federation()
    for peer in [start(dpeer, rank, schedule) for rank in range(3)]:
        assert ", encrypted (settings from dpeer.toml)" in peer.succeed()
    for encrypt in ((), ("--encrypt",)):
        out = f"cluster{len(encrypt)}"
        run = dpeer(
            "cluster", "--size", 3, "--task", task, "--rounds", 3, "--topology", "ring", "--out", out, *encrypt,
            *schedule,
        )  # fmt: skip
        run.succeed()
        assert results(out, 3) == results("out", 3)


@pytest.mark.slow
def test_a_peer_with_a_key_that_is_not_listed_gets_nothing_and_harms_nobody(
    dpeer, federation, schedule, until, results
):
    federation()
    federation("stranger.toml", "stranger")
    honest = [start(dpeer, rank, schedule) for rank in (0, 2)]
    stranger = start(dpeer, 1, schedule, file="stranger.toml", secret="stranger", out="strange")
    until(lambda: "turned away a connection" in honest[1].output and "cannot be dialled" in stranger.output)
    assert "connected to" not in stranger.output
    stranger.end()
    honest.append(start(dpeer, 1, schedule))
    for one in honest:
        one.succeed()
    run = dpeer("simulate", "--federation", "dpeer.toml", "--out", "simulated", *schedule)
    run.succeed()
    assert results("out", 3) == results("simulated", 3)
