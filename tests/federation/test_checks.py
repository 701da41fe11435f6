"""Checks across parts of a configuration: graphs for --robust, first weights of a private run."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

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
    check_hostile(settings, build_graph(settings))


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
            def release(self, number: int, receivers: Any = ()) -> Any:
                sent = super().release(number, receivers)
                if sent is None or self.trainer.rank != 4:
                    return sent
                body = np.frombuffer(b"".join(sent), "<f4")
                return [np.clip(body * np.float64(factor), -3e38, 3e38).astype("<f4").tobytes()]

        settings = dpeer.Settings(
            task="digits", size=5, topology="full", partition="iid", algorithm="dfedavgm", rounds=4, local_steps=5,
            finish="none", evaluate_every=4, threads=1, robust=robust, keep="last", alone="never", out=tmp_path / "run",
        )  # fmt: skip
        with patch.object(build, "build_learner", partial(build_learner, kind=Hostile)):
            return dpeer.run(settings, overwrite=True).summary

    clean, ruined = run("none", 1.0), run("none", -10.0)
    assert np.mean(ruined["accuracy"][:4]) < 0.5 < np.mean(clean["accuracy"][:4])
    for factor in (-10.0, 1e45):
        found = run(robust, factor)
        assert found["diverged"] == []
        assert np.mean(found["accuracy"][:4]) > np.mean(clean["accuracy"][:4]) - 0.1


Run = Callable[..., Any]

SAMPLE = ("--privacy", "sample", "--noise-multiplier", 5, "--records", 16)
CLIENT = ("--privacy", "client", "--noise-multiplier", 5)
POST = (*SAMPLE, "--dp-head", "post", "--finish", "head:1")
SAVED = "rank-0/model.safetensors"


@pytest.fixture
def run(dpeer: Command, small_task: Path) -> Run:
    """One round of two peers; what was printed."""

    def once(out: str, *arguments: object, code: int = 0) -> str:
        ended = dpeer("simulate", "--size", 2, "--task", "mine.py:task", "--rounds", 1, "--out", out, *arguments)
        assert ended.code == code, ended.err
        return str(ended.err)

    return once


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "why"),
    [
        (POST, "a run with --privacy sample --dp-head post has saved it"),
        (CLIENT, "a run with --privacy client has saved it"),
    ],
)
def test_records_that_a_private_run_trained_on_without_noise_do_not_come_back(
    run: Run, first: tuple[object, ...], why: str
) -> None:
    run("first", *first)
    begin = ("--init-from", f"first/{SAVED}")
    for second in (SAMPLE, CLIENT):
        *_, line = run("second", *begin, *second, code=2).splitlines()
        assert line.startswith(f"dpeer: --init-from first/{SAVED}: {why}")
        assert "or of a run with --privacy sample and --dp-head joint or alternate, or post with --finish none" in line
    assert why not in run("open", *begin), "a run without privacy promises nothing"
    assert why in run("third", "--init-from", f"open/{SAVED}", *SAMPLE, code=2), "it is still in the weights"


@pytest.mark.slow
def test_weights_of_a_run_without_privacy_are_taken_and_the_user_is_told(run: Run) -> None:
    note = "the records that it used are not protected by this run, so they must be public"
    run("first")
    assert f"--init-from first/{SAVED}: a run without --privacy has trained these weights: {note}" in run(
        "second", "--init-from", f"first/{SAVED}", *SAMPLE
    )
    assert note in run("third", "--init-from", f"first/{SAVED}", *CLIENT)
    assert note in run("fourth", "--init-from", f"second/{SAVED}", *SAMPLE), "it is still in the weights"
    assert note not in run("fifth", "--init-from", f"first/{SAVED}")


@pytest.mark.slow
@pytest.mark.parametrize("how", [(), ("--dp-head", "post", "--finish", "none")])
def test_nothing_is_said_of_a_private_model_or_of_a_file_from_elsewhere(run: Run, how: tuple[str, ...]) -> None:
    run("first", *SAMPLE, *how)
    run("open")
    save_file(load_file(f"open/{SAVED}"), "elsewhere.safetensors")
    for file in (f"first/{SAVED}", "elsewhere.safetensors"):
        assert "a run" not in run(f"from-{Path(file).stem}", "--init-from", file, *SAMPLE)
