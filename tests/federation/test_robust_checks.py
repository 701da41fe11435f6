"""Which graphs and which privacy suit --robust, said before anything is connected."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import dpeer
from dpeer.federation import build
from dpeer.federation.checks import check_hostile
from dpeer.federation.settings import Settings
from dpeer.topology.settings import build_graph
from dpeer.training import TorchLearner, build_learner
from tests.thinning import only

Command = Callable[..., Any]


def check(**values: Any) -> None:
    settings = Settings(**values)
    check_hostile(settings, settings, build_graph(settings))


@pytest.mark.parametrize("robust", ["clip", "clip:2", "trimmed-mean:1", "median"])
@pytest.mark.parametrize("topology", ["ring", "exponential", "full"])
def test_graphs_that_suit(robust: str, topology: str) -> None:
    check(robust=robust, topology=topology)


def test_a_body_that_is_left_out_is_counted_and_said_once(dpeer: Command, small_task: Path, in_tmp_path: Path) -> None:
    # All peers have the same data: with all of it in one batch, bodies would differ in rounding alone, or not at all.
    ended = dpeer("simulate", "--task", "mine.py:task", "--size", 3, "--rounds", 2, "--body-epochs", 1, "--max-norm",
                  1e-12, "--batch-size", 4, "--out", "run")  # fmt: skip
    assert ended.code == 0, ended.err
    summary = json.loads((in_tmp_path / "run" / "rank-0" / "summary.json").read_text())
    first, last = map(json.loads, (in_tmp_path / "run" / "rank-0" / "metrics.jsonl").read_text().splitlines())
    assert summary["dropped"] == {"too-far": 4}
    assert first["missed"] == last["missed"] == [1, 2]
    message = [json.loads(line) for line in (in_tmp_path / "run" / "rank-0" / "log.jsonl").read_text().splitlines()]
    assert [one["neighbor"] for one in message if one.get("reason") == "too-far"] == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("robust", only(["clip"], ["clip", "trimmed-mean:1", "median"]))
def test_honest_peers_learn_beside_one_that_sends_nonsense(robust: str, tmp_path: Path) -> None:
    def run(robust: str, factor: float) -> dict[str, Any]:
        class Hostile(TorchLearner):
            def release(self, number: int) -> Any:
                sent = super().release(number)
                if sent is None or self.trainer.rank != 4:
                    return sent
                body = np.frombuffer(b"".join(sent), "<f4")
                return [np.clip(body * np.float64(factor), -3e38, 3e38).astype("<f4").tobytes()]

        settings = dpeer.Settings(
            task="digits", size=5, topology="full", partition="iid", algorithm="dfedavgm", rounds=4, local_steps=5,
            finish="none", evaluate_every=4, workers=1, robust=robust, keep="last", alone="never", out=tmp_path / "run",
        )  # fmt: skip
        with patch.object(build, "build_learner", partial(build_learner, kind=Hostile)):
            return dpeer.run(settings, overwrite=True).summary

    clean, ruined = run("none", 1.0), run("none", -10.0)
    assert np.mean(ruined["accuracy"][:4]) < 0.5 < np.mean(clean["accuracy"][:4])
    for factor in (-10.0, 1e45):
        found = run(robust, factor)
        assert found["diverged"] == []
        assert np.mean(found["accuracy"][:4]) > np.mean(clean["accuracy"][:4]) - 0.1
