"""What `dpeer init` writes starts as it is: a peer of each rank, as its page says."""

import json

import pytest

QUICK = ("--rounds", 2, "--local-steps", 1, "--head-epochs", 1, "--alone", "never", "--threads", 1)


@pytest.mark.slow
def test_eight_ranks_with_keys_start_from_the_file_as_it_is_written(dpeer, dpeer_process, free_ports, tmp_path):
    base = free_ports(8)
    (tmp_path / "hosts.txt").write_text("".join(f"127.0.0.1:{base + rank} Clinic {rank}\n" for rank in range(8)))
    assert dpeer("init", "trial", "--hosts", "hosts.txt", "--keys", "--operator").code == 0
    peers = [
        dpeer_process("start", "--federation", "trial/dpeer.toml", "--rank", rank, *QUICK) for rank in range(8)
    ]  # fmt: skip
    for rank, peer in enumerate(peers):
        output = peer.succeed()
        assert f"rank {rank} of 8, ring, listening at tcp://127.0.0.1:{base + rank}, encrypted" in output
        assert "this federation can change" in output
        summary = json.loads((tmp_path / f"dpeer-run/rank-{rank}/summary.json").read_text())
        assert summary["rounds_mixed"] == 2
