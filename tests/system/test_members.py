"""Members come, move and go in a running federation with declared weights: real processes, an operator's commands."""

import json
from pathlib import Path
from typing import Any

from dpeer.peer.member_files import read_lists

SIGNED = ("--operator", "keys/operator.secret")
ROUNDS = 120
QUICK = (
    "--body-epochs", 1, "--head-epochs", 1, "--batch-size", 20, "--evaluate-every", ROUNDS,
    "--task-option", "fast=0", "--task-option", "pause=0.025",
)  # fmt: skip
"""A round takes a second until the test lets the peers hurry, and a moment from then on."""


def lines(folder: Path) -> list[dict[str, Any]]:
    path = folder / "metrics.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def test_a_member_joins_one_moves_one_leaves_and_the_run_gets_more_rounds(
    task, dpeer, dpeer_process, hurry, free_ports, until, tmp_path
):
    run, first = tmp_path / "run", free_ports(5)
    (tmp_path / "hosts.txt").write_text("".join(f"127.0.0.1:{first + rank} Site {rank}\n" for rank in range(3)))
    made = dpeer(
        "init", ".", "--hosts", "hosts.txt", "--keys", "--operator", "--task", task, "--topology", "ring", *QUICK,
        "--rounds", ROUNDS, "--weights", "declared:400,60,20",
    )  # fmt: skip
    assert made.code == 0, made.err

    def start(rank: int, *more: object) -> Any:
        common = ("--threads", 1, "--alone", "never", "--dead-after", 5, "--out", "run")
        return dpeer_process("start", "--rank", rank, *common, *more)

    def mixed(rank: int, *others: int) -> None:
        """Wait until a peer mixes these others' bodies in a round that is still to come."""
        known = len(lines(run / f"rank-{rank}"))
        until(lambda: any({*others} <= {*one["heard"]} for one in lines(run / f"rank-{rank}")[known:]))

    peers = {rank: start(rank, *(("--alone", "always") if rank == 2 else ())) for rank in range(3)}
    mixed(0, 1, 2)

    key = dpeer("keygen", "--rank", 3, "--out", "keys").out.split('"')[1]
    new = ("--rank", 3, "--address", f"tcp://127.0.0.1:{first + 3}", "--key", key)
    assert "has no weight, and all others have" in dpeer("members", "add", "run/rank-0", *new, *SIGNED).err
    added = dpeer("members", "add", "run/rank-0", *new, "--weight", 120, *SIGNED)
    assert added.code == 0, added.err
    assert added.out.splitlines()[-1].startswith("member list 1 counts: ")
    checked = dpeer("check", "--rank", 3, "--members", "members-1.json", "--secret", "keys/rank-3.secret", "--json")
    assert checked.code == 0, checked.out
    peers[3] = start(3, "--members", "members-1.json", "--secret", "keys/rank-3.secret")
    mixed(3, 0, 2)
    assert any(one["adopted"] for one in lines(run / "rank-3"))

    more = dpeer("members", "extend", "run/rank-3", "--rounds", ROUNDS + 10, *SIGNED)
    assert more.code == 0, more.err

    moved = f"tcp://127.0.0.1:{first + 4}"
    place = ("--rank", 1, "--address", moved, "--weight", 75.5)
    assert dpeer("members", "change", "run/rank-2", *place, *SIGNED).code == 0
    until(lambda: (read_lists(run / "rank-1")[0] or read_lists(run / "rank-1")[1]).version == 3)
    assert dpeer("drain", "run/rank-1").code == 0
    peers[1].succeed()
    peers[1] = start(1, "--resume")
    until(lambda: moved in peers[1].output)
    mixed(1, 0, 2)

    gone = dpeer("members", "remove", "run/rank-0", "--rank", 2, *SIGNED)
    assert (gone.code, gone.out.splitlines()[0]) == (0, "rank 2 leaves"), gone.err
    hurry()
    leaver = peers.pop(2)
    leaver.succeed()
    left = json.loads((run / "rank-2" / "summary.json").read_text())
    assert left["status"] == "left"
    assert (run / "rank-2" / "model.safetensors").exists()
    assert left["worth"]["rounds"] == left["worth"]["planned"] == left["completed_rounds"] < ROUNDS
    assert left["worth"]["verdict"] is not None
    assert "dpeer: gain " in leaver.output

    for peer in peers.values():
        peer.succeed()
    for rank in peers:
        ended = json.loads((run / f"rank-{rank}" / "summary.json").read_text())
        assert (ended["status"], ended["completed_rounds"], ended["rounds"]) == ("done", ROUNDS + 10, ROUNDS + 10)
    lists = [read_lists(run / f"rank-{rank}")[0] for rank in peers]
    assert len({one.digest for one in lists}) == 1
    assert [member.weight for member in lists[0].members.values()] == [400, 75.5, 120]
    shown = dpeer("members", "show", "run").out
    assert "left: rank 2" in shown
