"""A site's policy in real processes: a start that breaks it, and a member list that breaks it while rounds go on."""

import hashlib
import json
from pathlib import Path
from typing import Any

from tests.conftest import SMALL_TASK

ROUNDS = 120


def test_a_start_that_breaks_a_rule_ends_before_anything_is_read_or_removed(
    dpeer: Any, dpeer_command: Any, in_tmp_path: Path
) -> None:
    Path("mine.py").write_text(f"{SMALL_TASK}\nfrom pathlib import Path\nPath('read').touch()\n")
    Path("dpeer.toml").write_text("size = 2\ntask = 'mine.py:task'\n[rank.0]\nserve = '0'\n")
    digest = hashlib.sha256(Path("mine.py").read_bytes()).hexdigest()
    Path("site.toml").write_text(f"tasks = ['sha256:{digest}']\nserve = false\n")
    earlier = Path("dpeer-run/rank-0/metrics.jsonl")
    earlier.parent.mkdir(parents=True)
    earlier.write_text("{}\n")
    started = dpeer_command("start", "--rank", 0, "--policy", "site.toml", "--overwrite")
    assert started.wait() == 2
    assert started.output == (
        f'dpeer: policy {in_tmp_path}/site.toml: serve = false forbids serve = "0" ([rank.0] of dpeer.toml)\n'
    )
    checked = dpeer("check", "--rank", 0, "--policy", "site.toml", "--overwrite", "--json")
    assert checked.code == 1
    found = [one for one in json.loads(checked.out)["findings"] if one["check"] == "policy"]
    assert [one["level"] for one in found] == ["PASS", "FAIL"]
    assert json.loads(checked.out)["findings"][-1] == found[-1], "nothing else is looked at"
    assert earlier.exists()
    assert not Path("read").exists()


def test_a_list_that_breaks_it_ends_the_peer_in_good_order(
    task: str, dpeer: Any, dpeer_process: Any, hurry: Any, free_ports: Any, until: Any, rounds_done: Any, tmp_path: Path
) -> None:
    first = free_ports(3)
    (tmp_path / "hosts.txt").write_text("".join(f"127.0.0.1:{first + rank} Site {rank}\n" for rank in range(3)))
    quick = ("--body-epochs", 1, "--head-epochs", 1, "--batch-size", 20, "--evaluate-every", ROUNDS)
    made = dpeer(
        "init", ".", "--hosts", "hosts.txt", "--keys", "--operator", "--task", task, "--topology", "ring", *quick,
        "--task-option", "fast=0", "--task-option", "pause=0.025", "--rounds", ROUNDS,
    )  # fmt: skip
    assert made.code == 0, made.err
    digest = hashlib.sha256((tmp_path / "small.py").read_bytes()).hexdigest()
    (tmp_path / "site.toml").write_text(f"rounds = {ROUNDS}\ntasks = ['sha256:{digest}']\n")

    def start(rank: int, *more: object) -> Any:
        common = ("--threads", 1, "--alone", "never", "--dead-after", 5, "--out", "run")
        return dpeer_process("start", "--rank", rank, *common, *more)

    peers = [start(rank, *(("--policy", "site.toml") if rank == 2 else ())) for rank in range(3)]
    until(lambda: rounds_done("run", 2) > 1)
    signed = ("--rounds", ROUNDS + 10, "--operator", "keys/operator.secret")
    refused = dpeer("members", "extend", "run/rank-2", *signed)
    assert refused.code != 0
    assert f"rounds = {ROUNDS} forbids rounds = {ROUNDS + 10}" in refused.err
    assert dpeer("members", "extend", "run/rank-0", *signed).code == 0

    assert peers[2].wait() == 3
    summary = json.loads((tmp_path / "run/rank-2/summary.json").read_text())
    why = f"member list 1: policy {tmp_path}/site.toml: rounds = {ROUNDS} forbids rounds = {ROUNDS + 10}"
    assert (summary["status"], summary["why"]) == ("stopped", why)
    assert summary["policy"] == hashlib.sha256((tmp_path / "site.toml").read_bytes()).hexdigest()
    assert 1 < summary["completed_rounds"] < ROUNDS
    assert (tmp_path / "run/rank-2/model.safetensors").exists()
    log = [json.loads(line) for line in (tmp_path / "run/rank-2/log.jsonl").read_text().splitlines()]
    (end,) = [line for line in log if line["event"] == "ends-early"]
    assert why in end["message"]
    again = start(2, "--policy", "site.toml", "--resume")
    assert again.wait() == 2
    assert f"forbids rounds = {ROUNDS + 10}" in again.output

    hurry()
    for rank in (0, 1):
        peers[rank].succeed()
        ended = json.loads((tmp_path / f"run/rank-{rank}/summary.json").read_text())
        assert (ended["status"], ended["completed_rounds"]) == ("done", ROUNDS + 10)
