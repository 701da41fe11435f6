"""Checks across parts of a configuration: graphs for --robust, first weights of a private run."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from dpeer.exceptions import ConfigurationError
from dpeer.federation import build
from dpeer.federation.checks import check_hostile
from dpeer.federation.config import resolve
from dpeer.federation.settings import Settings
from dpeer.simulation.run import simulate
from dpeer.topology.settings import build_graph
from tests.conftest import SMALL_TASK
from tests.error_texts import refused

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


SAMPLE: dict[str, Any] = {"privacy": "sample", "noise_multiplier": 5.0, "records": 16}
CLIENT: dict[str, Any] = {"privacy": "client", "noise_multiplier": 5.0}
POST: dict[str, Any] = {**SAMPLE, "dp_head": "post", "finish": "head:1"}
RUNS: dict[str, tuple[str | None, dict[str, Any]]] = {
    "post": (None, POST), "client": (None, CLIENT), "open": (None, {}), "sample": (None, SAMPLE),
    "unfinished": (None, {**POST, "finish": "none"}), "open after post": ("post", {}),
    "open after client": ("client", {}), "sample after open": ("open", SAMPLE),
}  # fmt: skip
"""Runs of a round by name: the one whose model they begin with, and their settings."""

Start = Callable[..., list[str]]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Start:
    """The notes of a peer that begins with the model of one of these runs, or with the same of another program."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "mine.py").write_text(SMALL_TASK)

    def settings(first: str | None, out: str, more: dict[str, Any]) -> Settings:
        return Settings(size=2, task=f"{folder}/mine.py:task", rounds=1, alone="never", out=folder / out,
                        init_from=None if first is None else model(first), **more)  # fmt: skip

    @cache
    def model(name: str) -> Path:
        path = folder / name / "rank-0" / "model.safetensors"
        if name == "elsewhere":
            path.parent.mkdir(parents=True)
            save_file(load_file(model("open")), path)
        else:
            first, more = RUNS[name]
            simulate(settings(first, name, more))
        return path

    return lambda first, more: build.build(resolve(settings(first, "started", more), 0)).notes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "why"),
    [
        ("post", "a run with --privacy sample --dp-head post has saved it"),
        ("client", "a run with --privacy client has saved it"),
    ],
)
def test_records_that_a_private_run_trained_on_without_noise_do_not_come_back(
    start: Start, first: str, why: str
) -> None:
    others = "or of a run with --privacy sample and --dp-head joint or alternate, or post with --finish none"
    for second in (SAMPLE, CLIENT):
        with refused(ConfigurationError, f"{first}/rank-0/model.safetensors: {why}", "--init-from ", others):
            start(first, second)
    assert not [note for note in start(first, {}) if why in note], "a run without privacy promises nothing"
    with refused(ConfigurationError, why):  # it is still in the weights
        start(f"open after {first}", SAMPLE)


@pytest.mark.slow
def test_weights_of_a_run_without_privacy_are_taken_and_the_user_is_told(start: Start) -> None:
    note = "the records that it used are not protected by this run, so they must be public"

    def told(first: str, more: dict[str, Any]) -> bool:
        return any("a run without --privacy has trained these weights" in one and note in one
                   for one in start(first, more))  # fmt: skip

    assert told("open", SAMPLE)
    assert told("open", CLIENT)
    assert told("sample after open", SAMPLE), "it is still in the weights"
    assert not told("open", {})


@pytest.mark.slow
@pytest.mark.parametrize("first", ["sample", "unfinished", "elsewhere"])
def test_nothing_is_said_of_a_private_model_or_of_a_file_from_elsewhere(start: Start, first: str) -> None:
    assert not [note for note in start(first, SAMPLE) if "a run" in note]
