"""From `dpeer init` over `dpeer check` to running peers, as real processes."""

import json

import pytest

QUICK = ("--rounds", 2, "--local-steps", 1, "--head-epochs", 1, "--alone", "never", "--threads", 1)
SIZE = 3


@pytest.mark.slow
def test_a_check_meets_a_peer_that_waits_and_ranks_with_keys_start_from_the_file_as_it_is_written(
    dpeer, dpeer_process, free_ports, until, tmp_path
):
    base = free_ports(SIZE)
    (tmp_path / "hosts.txt").write_text("".join(f"127.0.0.1:{base + rank} Clinic {rank}\n" for rank in range(SIZE)))
    assert dpeer("init", "trial", "--hosts", "hosts.txt", "--keys", "--operator").code == 0
    file = ("--federation", "trial/dpeer.toml")
    peers = {rank: dpeer_process("start", *file, "--rank", rank, *QUICK) for rank in (0, 2)}
    until(lambda: all("INFO: listening at" in peer.output for peer in peers.values()))
    checked = dpeer("check", *file, "--rank", 1, "--connect", *QUICK)
    assert checked.code == 0, checked.out
    for rank in peers:  # one is dialled by it, the other dials it
        (line,) = [one for one in checked.out.splitlines() if f"  rank {rank} " in one]
        assert line.startswith("PASS")
    beside = dpeer("check", *file, "--rank", 0, "--connect", *QUICK)
    assert beside.code == 1
    assert "in use by a running peer" in beside.out
    peers[1] = dpeer_process("start", *file, "--rank", 1, *QUICK)
    for rank, peer in peers.items():
        output = peer.succeed()
        assert f"rank {rank} of 3, ring, listening at tcp://127.0.0.1:{base + rank}, encrypted" in output
        assert "bodies mixed" not in output, "a line on rounds in which none was"
        summary = json.loads((tmp_path / f"dpeer-run/rank-{rank}/summary.json").read_text())
        assert (summary["status"], summary["rounds_mixed"]) == ("done", 2)
