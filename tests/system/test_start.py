"""`dpeer start`, typed once for each peer."""

import json

import numpy as np
import pytest

pytestmark = pytest.mark.slow


def test_one_federation_file_serves_all_and_a_rank_without_address_takes_part_by_dialling_out(
    dpeer_process, simulate, results, free_ports, tmp_path
):
    for rank in range(3):
        rows = np.random.default_rng(rank // 2).normal(size=(50, 3)).round(6)
        lines = ["a,b,c,y", *(f"{a},{b},{c},{'no' if a > b else 'yes'}" for a, b, c in rows)]
        (tmp_path / f"site-{rank}.csv").write_text("\n".join(lines) + "\n")
    base = free_ports(2)
    common = """
size = 3
topology = "ring"
task = "csv"
task_options = { path = "site-{rank}.csv", target = "y" }
rounds = 3
body_epochs = 1
alone = "never"
seed = 7
"""
    (tmp_path / "plain.toml").write_text(common)
    own = f"""
threads = 1
out = "run"
[rank.0]
address = "tcp://127.0.0.1:{base}"
[rank.1]
address = "tcp://localhost:{base + 1}"
"""
    (tmp_path / "dpeer.toml").write_text(common + own)
    for peer in [dpeer_process("start", "--rank", rank, "--body-lr", 0.1 * 2**rank) for rank in range(2)]:
        assert peer.wait() == 4
        assert peer.output.splitlines()[-1].startswith("dpeer: body_lr: ")
    peers = [
        dpeer_process("start", "--rank", 2, "--federation", tmp_path / "dpeer.toml"),
        dpeer_process("start", "--rank", 1),
        dpeer_process("start", "--rank", 0),
    ]
    two, one, zero = [peer.succeed() for peer in peers]
    assert two.startswith("dpeer: rank 2 of 3, ring, dialling out only (settings from")
    for rank, message in enumerate((zero, one)):
        at = f"listening at tcp://127.0.0.1:{base + rank} (settings from dpeer.toml)"
        assert message.startswith(f"dpeer: rank {rank} of 3, ring, {at}\n")
        assert message.splitlines().index("dpeer: loading PyTorch, the task and its data ...") < 3, "before the wait"
    for rank in range(3):
        folder = tmp_path / "run" / f"rank-{rank}"
        summary = json.loads((folder / "summary.json").read_text())
        assert (summary["status"], summary["lost"], summary["dropped"]) == ("done", {}, {})
    simulate("--federation", "plain.toml", "--out", "simulated")
    assert results("run", 3) == results("simulated", 3)
