"""`--privacy client` in whole federations."""

import json
from typing import Any

import pytest

from dpeer.privacy import Guarantee
from dpeer.training import TorchLearner
from dpeer.training.state.kept_model import ModelSelection

pytestmark = pytest.mark.slow

PRIVATE = ("--privacy", "client", "--noise-multiplier", 2, "--clip-norm", 0.5)


def test_what_was_spent_is_in_every_round_and_summary_and_all_neighbors_get_the_bytes_of_the_ledger(
    task, schedule, simulate, tmp_path, monkeypatch
):
    heard: dict[tuple[int, int], list[bytes]] = {}
    mix = TorchLearner.mix_sound

    def listening(learner: TorchLearner, received: Any, weigh: Any) -> dict[int, str]:
        for rank, payload in received.items():
            heard.setdefault((rank, learner.trainer.number), []).append(b"".join(map(bytes, payload)))
        return mix(learner, received, weigh)

    monkeypatch.setattr(TorchLearner, "mix_sound", listening)
    options = ("--task", task, *schedule, "--size", 4, "--topology", "full", "--rounds", 2, *PRIVATE)
    printed = simulate(*options, "--out", "a")
    assert len(heard) == 4 * 2
    for (rank, number), copies in heard.items():
        assert len(copies) == 3
        assert {*copies} == {(tmp_path / f"a/rank-{rank}/privacy/released-{number:08d}.bin").read_bytes()}

    words = "one peer's whole data set, against a neighbor, replace-one"
    promised = Guarantee(2.0, 0.5, 1e-5)
    assert f"{words}: epsilon {promised.epsilon(2):.4g} at delta 1e-05" in printed.err
    assert f"{words}: epsilon {promised.epsilon(2):.4g} at delta 1e-05 after 2 releases" in printed.out
    for rank in range(4):
        folder = tmp_path / "a" / f"rank-{rank}"
        for number, line in enumerate((folder / "metrics.jsonl").read_text().splitlines()):
            entry = json.loads(line)
            assert (entry["epsilon"], entry["delta"]) == (pytest.approx(promised.epsilon(number + 1)), 1e-5)
            assert entry["privacy"]["releases"] == number + 1
        charges = (folder / "privacy" / "ledger.jsonl").read_text().splitlines()[1:]
        assert [json.loads(line)["round"] for line in charges] == [0, 1]
    summary = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert (summary["epsilon"], summary["delta"]) == (pytest.approx(promised.epsilon(2)), 1e-5)
    assert summary["privacy"]["guarantee"] == words

    simulate(*options, "--out", "b")
    models = [(tmp_path / out / "rank-0" / "model.safetensors").read_bytes() for out in ("a", "b")]
    assert models[0] != models[1], "the same seeds, other noise"


def test_the_best_models_summary_says_what_the_whole_run_has_spent(task, schedule, simulate, tmp_path, monkeypatch):
    is_best = ModelSelection.is_best  # noise decides which model is the best: here it is an early one
    monkeypatch.setattr(
        ModelSelection, "is_best", lambda selection, number, point: number < 2 and is_best(selection, number, point)
    )
    path = tmp_path / "small.py"
    path.write_text(path.read_text().replace("test=Data(", "validation=Data(rank, 9), test=Data("))
    simulate("--task", task, *schedule, "--size", 2, "--rounds", 4, "--keep", "best", *PRIVATE, "--out", "run")
    for rank in range(2):
        summary = json.loads((tmp_path / "run" / f"rank-{rank}" / "summary.json").read_text())
        assert summary["kept_round"] < 2
        assert summary["privacy"]["releases"] == 4
        assert summary["epsilon"] == pytest.approx(Guarantee(2.0, 0.5, 1e-5).epsilon(4))
