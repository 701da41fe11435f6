"""A private run does not begin from what records that were to be protected have left without noise."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

Command = Callable[..., Any]
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
        assert "or of a run with --privacy sample and --dp-head joint, alternate or frozen" in line
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
def test_nothing_is_said_of_a_private_model_or_of_a_file_from_elsewhere(run: Run) -> None:
    run("first", *SAMPLE)
    run("open")
    save_file(load_file(f"open/{SAVED}"), "elsewhere.safetensors")
    for file in (f"first/{SAVED}", "elsewhere.safetensors"):
        assert "a run" not in run(f"from-{Path(file).stem}", "--init-from", file, *SAMPLE)
