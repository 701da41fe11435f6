"""From `dpeer init` over `dpeer check` to running peers, as real processes."""

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
        summary = json.loads((tmp_path / f"dpeer-run/rank-{rank}/summary.json").read_text())
        assert summary["rounds_mixed"] == 2


@pytest.mark.slow
@pytest.mark.parametrize(("runs", "checks"), [(0, 1), (1, 0)], ids=["is dialled by it", "dials it"])
def test_a_check_meets_a_peer_that_waits_and_does_not_disturb_it(
    dpeer, dpeer_process, free_ports, until, tmp_path, runs, checks
):
    base = free_ports(2)
    (tmp_path / "hosts.txt").write_text(f"127.0.0.1:{base}\n127.0.0.1:{base + 1}\n")
    assert dpeer("init", "--hosts", "hosts.txt", "--keys").code == 0
    waits = dpeer_process("start", "--rank", runs, *QUICK)
    until(lambda: "INFO: listening at" in waits.output)
    checked = dpeer("check", "--rank", checks, "--connect", *QUICK)
    assert checked.code == 0
    (line,) = [one for one in checked.out.splitlines() if f"  rank {runs} " in one]
    assert line.startswith("PASS")
    beside = dpeer("check", "--rank", runs, "--connect", *QUICK)
    assert beside.code == 1
    assert "in use by a running peer" in beside.out
    other = dpeer_process("start", "--rank", checks, *QUICK)
    for peer in (waits, other):
        assert "bodies mixed" not in peer.succeed(), "a line on rounds in which none was"
