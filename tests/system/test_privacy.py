"""`--privacy client` in whole federations."""

import json
from pathlib import Path
from typing import Any

import pytest

from dpeer.privacy import Guarantee
from dpeer.training import TorchLearner
from dpeer.training.selection import ModelSelection

pytestmark = pytest.mark.slow

SIZE = 3
PRIVATE = ("--privacy", "client", "--noise-multiplier", 2, "--clip-norm", 0.5)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def charged(folder: Path) -> list[int]:
    path = folder / "privacy" / "ledger.jsonl"
    whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
    return [json.loads(line)["round"] for line in whole.splitlines()[1:]]


def test_what_was_spent_is_in_every_round_and_the_summaries_and_no_noise_comes_twice(
    task, schedule, simulate, tmp_path
):
    options = ("--task", task, *schedule, "--size", SIZE, "--rounds", 3)
    printed = simulate(*options, *PRIVATE, "--out", "a")
    simulate(*options, *PRIVATE, "--out", "b")
    words = "one peer's whole data set, against a neighbor, replace-one"
    promised = Guarantee(2.0, 0.5, 1e-5)
    assert f"{words}: epsilon {promised.epsilon(3):.4g} at delta 1e-05" in printed.err
    assert f"{words}: epsilon {promised.epsilon(3):.4g} at delta 1e-05 after 3 releases" in printed.out
    for rank in range(SIZE):
        for number, entry in enumerate(lines(tmp_path / "a" / f"rank-{rank}")):
            assert entry["epsilon"] == pytest.approx(promised.epsilon(number + 1))
            assert entry["delta"] == 1e-5
            assert entry["privacy"]["releases"] == number + 1
        assert charged(tmp_path / "a" / f"rank-{rank}") == [0, 1, 2]
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert (summary["epsilon"], summary["delta"]) == (pytest.approx(promised.epsilon(3)), 1e-5)
    assert summary["privacy"]["guarantee"] == words
    models = [(tmp_path / out / "rank-0" / "model.safetensors").read_bytes() for out in ("a", "b")]
    assert models[0] != models[1], "the same seeds, other noise"


def test_the_best_models_summary_says_what_the_whole_run_has_spent(task, schedule, simulate, tmp_path, monkeypatch):
    is_best = ModelSelection.is_best  # noise decides which model is the best: here it is an early one
    monkeypatch.setattr(
        ModelSelection, "is_best", lambda selection, number, point: number < 2 and is_best(selection, number, point)
    )
    path = tmp_path / "small.py"
    path.write_text(path.read_text().replace("test=Data(", "validation=Data(rank, 9), test=Data("))
    options = ("--task", task, *schedule, "--size", SIZE, "--rounds", 5, "--keep", "best", "--body-lr", 2)
    simulate(*options, *PRIVATE, "--out", "run")
    kept = []
    for rank in range(SIZE):
        summary = json.loads((tmp_path / "run" / f"rank-{rank}" / "summary.json").read_text())
        kept.append(summary["kept_round"])
        assert summary["privacy"]["releases"] == 5
        assert summary["epsilon"] == pytest.approx(Guarantee(2.0, 0.5, 1e-5).epsilon(5))
    assert max(kept) < 2


def test_all_neighbors_get_the_same_bytes_which_are_those_of_the_ledger(
    task, schedule, simulate, tmp_path, monkeypatch
):
    heard: dict[tuple[int, int], list[bytes]] = {}
    mix = TorchLearner.mix_sound

    def listening(learner: TorchLearner, received: Any, weigh: Any) -> dict[int, str]:
        for rank, payload in received.items():
            heard.setdefault((rank, learner.trainer.number), []).append(b"".join(map(bytes, payload)))
        return mix(learner, received, weigh)

    monkeypatch.setattr(TorchLearner, "mix_sound", listening)
    simulate("--task", task, *schedule, "--size", 4, "--topology", "full", "--rounds", 2, *PRIVATE, "--out", "run")
    assert len(heard) == 4 * 2
    for (rank, number), copies in heard.items():
        assert len(copies) == 3
        written = tmp_path / "run" / f"rank-{rank}" / "privacy" / f"released-{number:08d}.bin"
        assert set(copies) == {written.read_bytes()}


def test_a_budget_too_small_for_one_release_ends_with_code_5(task, simulate):
    (line,) = simulate("--task", task, *PRIVATE, "--target-epsilon", 0.1, code=5).complaints
    assert "--target-epsilon 0.1" in line


def test_a_folder_that_holds_a_private_run_takes_no_other(task, schedule, simulate, tmp_path):
    common = ("--task", task, *schedule, "--size", 2, "--rounds", 2, "--out", "run")
    simulate(*common, *PRIVATE)
    summary = (tmp_path / "run" / "summary.json").read_bytes()
    for options in (PRIVATE, ()):
        (line,) = simulate(*common, *options, "--overwrite", code=2).complaints
        assert "private run" in line
        assert "another --out" in line
    assert (tmp_path / "run" / "summary.json").read_bytes() == summary, "nothing of the first run has been touched"


@pytest.mark.parametrize("made", ["bfloat16", "sparse", "other"])
def test_whatever_a_task_of_ones_own_has_for_data_can_be_trained_on(simulate, tmp_path, made):
    """The folder's hash of the data is of tensors of any type; data without tensors have none."""
    inputs = {
        "bfloat16": "torch.randn(12, 4).to(torch.bfloat16)", "sparse": "torch.randn(12, 4).to_sparse()",
        "other": "torch.randn(12, 4)",
    }[made]  # fmt: skip
    train = f"TensorDataset({inputs}, torch.arange(12) % 2)"
    (tmp_path / "odd.py").write_text(f"""
import torch
from torch import nn
from torch.utils.data import Subset, TensorDataset

from dpeer.training import Task


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.fc = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x):
        return self.fc(self.body((x.to_dense() if x.is_sparse else x).float()))


def collate(samples):
    inputs, targets = zip(*samples)
    return torch.stack([x.to_dense() for x in inputs]), torch.stack(targets)


def task(rank, size, seed):
    net, train = Net(), {train}
    data = Subset(train, range(12)) if {made == "other"} else train
    return Task(model=net, head=("fc",), train=data, test=data, collate=collate if {made == "sparse"} else None)
""")
    simulate("--task", "odd.py:task", "--size", 2, "--rounds", 1, *PRIVATE, "--out", "run")
    ledger = (tmp_path / "run" / "rank-0" / "privacy" / "ledger.jsonl").read_text()
    assert (json.loads(ledger.splitlines()[0])["data"] is None) == (made != "bfloat16")
