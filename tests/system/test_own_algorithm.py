"""An algorithm from a user's file: the same bits everywhere, and equal on all peers or refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dpeer as dpeer_

MINE = """
from dataclasses import dataclass

from dpeer.training import Algorithm, option
from dpeer.training.gradients import proximal


class Prox(Algorithm):
    shares = "body"

    @dataclass(frozen=True)
    class Options:
        mu: float = option(0.1, "how strongly the body is pulled back", ge=0)
        twice: bool = option(False, "whether to train the head again", shared=False)

    def train(self, peer):
        h, start = peer.hyperparameters, peer.body.data.clone()
        for _ in range(1 + self.options.twice):
            peer.fit(peer.head, epochs=h.head_epochs, lr=h.head_lr)
        peer.fit(peer.body, epochs=h.body_epochs, lr=h.body_lr, gradient=proximal(self.options.mu, start))
"""
REFUSED = 4


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(MINE)
    return "mine.py:Prox"


@pytest.mark.slow
def test_processes_a_simulation_and_a_script_give_the_same_bits(
    task: str, mine: str, dpeer: Callable[..., Any], simulate: Callable[..., None], results: Callable[..., Any],
    tmp_path: Path,
) -> None:  # fmt: skip
    common = ("--size", 3, "--task", task, "--rounds", 3, "--batch-size", 8)
    options = ("--algorithm", mine, "--algorithm-option", "mu=0.5", "--lr-schedule", "step:2")
    dpeer("cluster", *common, *options, "--out", "cluster").succeed()
    simulate(*common, *options, "--out", "simulated")
    assert results("cluster", 3) == results("simulated", 3)
    settings = dpeer_.Settings(
        size=3, task=task, rounds=3, batch_size=8, algorithm=mine, algorithm_options={"mu": 0.5}, lr_schedule="step:2",
        out=tmp_path / "script",
    )  # fmt: skip
    dpeer_.run(settings)
    assert results("script", 3) == results("simulated", 3)
    simulate(*common, "--algorithm", mine, "--out", "default")
    assert results("default", 3) != results("simulated", 3)
    summary = json.loads((tmp_path / "cluster" / "summary.json").read_text())
    assert summary["settings"]["algorithm_options"] == {"mu": 0.5}


@pytest.mark.slow
@pytest.mark.parametrize("differs", ["option", "source", "own option"])
def test_peers_agree_on_shared_options_and_on_the_source(
    differs: str, task: str, mine: str, dpeer: Callable[..., Any], free_ports: Callable[[int], int], tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine.py").write_text(MINE + ("\n# changed\n" if differs == "source" else ""))
    common = (
        "start", "--size", 2, "--task", task, "--rounds", 2, "--batch-size", 8, "--base-port", free_ports(2),
        "--threads", 1,
    )  # fmt: skip
    other = {"option": ("mu=0.5",), "source": (), "own option": ("twice=true",)}[differs]
    one = dpeer(*common, "--rank", 0, "--algorithm", mine)
    two = dpeer(
        *common, "--rank", 1, "--algorithm", "elsewhere/mine.py:Prox",
        *(word for option in other for word in ("--algorithm-option", option)),
    )  # fmt: skip
    if differs == "own option":
        one.succeed()
        two.succeed()
        return
    message = {"option": ("option mu", "0.1", "0.5"), "source": ("algorithm's source",)}[differs]
    for peer in (one, two):
        assert peer.wait() == REFUSED, peer.output
        (line,) = [line for line in peer.output.splitlines() if line.startswith("dpeer: ") and "listening" not in line]
        for word in message:
            assert word in line


@pytest.mark.slow
def test_a_run_is_resumed_with_the_options_it_began_with_only(task: str, mine: str, dpeer: Callable[..., Any]) -> None:
    common = ("simulate", "--size", 2, "--task", task, "--batch-size", 8, "--algorithm", mine, "--out", "run")
    dpeer(*common, "--rounds", 1).succeed()
    changed = dpeer(*common, "--rounds", 2, "--resume", "--algorithm-option", "mu=0.7")
    assert changed.wait() == 2
    assert "option mu is 0.1, this run's is 0.7" in changed.output
    dpeer(*common, "--rounds", 2, "--resume", "--algorithm-option", "twice=true").succeed()


@pytest.mark.slow
def test_a_row_of_a_comparison_may_be_an_algorithm_of_ones_own(
    task: str, mine: str, dpeer: Callable[..., Any], tmp_path: Path
) -> None:
    rows = f"local,{mine},{mine}:mu=0.9:body-lr=0.01"
    common = ("compare", "--task", task, "--size", 2, "--rounds", 2, "--batch-size", 8, "--jobs", 1, "--out", "made")
    printed = dpeer(*common, "--algorithms", rows).succeed()
    assert "mine.py Prox mu=0.9" in " ".join(printed.split())
    asked = [json.loads(path.read_text()) for path in (tmp_path / "made").glob("*/cell.json")]
    assert {"mu": 0.9} in [cell.get("algorithm_options") for cell in asked]
    for words in (("--algorithms", f"local,{mine}:nu=3"), ("--algorithms", rows, "--algorithm-option", "nu=3")):
        wrong = dpeer(*common, *words)
        assert wrong.wait() == 2
        assert "'nu'" in wrong.output
    dpeer(*common, "--algorithms", f"local,{mine}", "--algorithm-option", "mu=0.3", "--out", "common").succeed()
    asked = [json.loads(path.read_text()) for path in (tmp_path / "common").glob("*/cell.json")]
    assert sorted(json.dumps(cell.get("algorithm_options")) for cell in asked) == ["null", '{"mu": 0.3}']
