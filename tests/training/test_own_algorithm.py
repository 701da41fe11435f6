"""An algorithm from a user's file: in a command, a script, a resumed run and a comparison."""

import json
from pathlib import Path

import pytest

import dpeer

pytestmark = pytest.mark.slow

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


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    return "mine.py:Prox"


def test_a_command_and_a_script_give_the_same_bits_which_follow_its_options_also_in_a_resumed_run(
    task, mine, simulate, results, tmp_path
):
    common = ("--size", 3, "--task", task, "--batch-size", 8, "--algorithm", mine)
    options = ("--algorithm-option", "mu=0.5", "--lr-schedule", "step:2")
    simulate(*common, *options, "--rounds", 3, "--out", "simulated")
    settings = dpeer.Settings(
        size=3, task=task, rounds=3, batch_size=8, algorithm=mine, algorithm_options={"mu": 0.5}, lr_schedule="step:2",
        alone="never", out=tmp_path / "script",
    )  # fmt: skip
    dpeer.run(settings)
    assert results("script", 3) == results("simulated", 3)
    summary = json.loads((tmp_path / "simulated" / "summary.json").read_text())
    assert summary["settings"]["algorithm_options"] == {"mu": 0.5}

    simulate(*common, "--rounds", 1, "--out", "default")
    again = (*common, "--rounds", 3, "--out", "default", "--resume", "--algorithm-option")
    assert "option mu is 0.1, this run's is 0.7" in simulate(*again, "mu=0.7", code=2).err
    simulate(*again, "twice=true")
    assert results("default", 3) != results("simulated", 3)


@pytest.mark.usefixtures("run_cells_here")
def test_a_row_of_a_comparison_may_be_an_algorithm_of_ones_own(task, mine, dpeer):
    rows = f"local,{mine},{mine}:mu=0.9:body-lr=0.01"
    common = ("compare", "--task", task, "--size", 2, "--rounds", 2, "--batch-size", 8, "--out", "made")
    ended = dpeer(*common, "--algorithms", rows)
    assert ended.code == 0, ended.err
    assert "mine.py Prox mu=0.9" in " ".join(ended.out.split())
    asked = [json.loads(path.read_text()) for path in Path("made").glob("*/cell.json")]
    assert {"mu": 0.9} in [cell.get("algorithm_options") for cell in asked]
    for words in (("--algorithms", f"local,{mine}:nu=3"), ("--algorithms", rows, "--algorithm-option", "nu=3")):
        wrong = dpeer(*common, *words)
        assert wrong.code == 2
        assert "'nu'" in wrong.err
    common = (*common[:-1], "common", "--algorithm-option", "mu=0.3")
    assert dpeer(*common, "--algorithms", f"local,{mine}").code == 0
    asked = [json.loads(path.read_text()) for path in Path("common").glob("*/cell.json")]
    assert sorted(json.dumps(cell.get("algorithm_options")) for cell in asked) == ["null", '{"mu": 0.3}']
