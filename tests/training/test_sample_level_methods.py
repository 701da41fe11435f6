"""The methods of DP-FedAdamW's tables with `--privacy sample`, from the command line, under one accounting."""

import json

import pytest

from tests.thinning import only

pytestmark = pytest.mark.slow

ROUNDS, STEPS, SIZE = 2, 2, 2
METHODS = {
    "scaffold": (1, 2), "fedavg-ls": (1, 1), "fedopt": (1, 2), "fafed": (2, 3), "fedlada": (1, 3), "fedadamw": (1, 2),
    "localadamw": (1, 1),
}  # fmt: skip
"""How many gradients a step takes, and how many vectors a message has (rounded)."""


@pytest.mark.parametrize("method", only(["fafed", "fedadamw"], METHODS))
def test_rounds_with_privacy_spend_and_send_what_the_method_takes(method, simulate, tmp_path):
    spent, sent = {}, {}
    for name in ("fedavg", method):
        simulate(
            "--size", SIZE, "--rounds", ROUNDS, "--local-steps", STEPS, "--task", "digits", "--algorithm", name,
            "--head", "", "--privacy", "sample", "--noise-multiplier", 1.5, "--batch-size", 64, "--out", name,
        )  # fmt: skip
        summary = json.loads((tmp_path / name / "summary.json").read_text())
        spent[name] = summary["privacy"]["epsilon"]
        lines = [json.loads(line) for line in (tmp_path / name / "rank-0" / "metrics.jsonl").read_text().splitlines()]
        assert [line["privacy"]["steps"] for line in lines] == [STEPS, 2 * STEPS]
        assert all(line["train_loss"] < 5 for line in lines)
        sent[name] = sum(line["bytes_sent"] for line in lines)
    gradients, vectors = METHODS[method]
    assert (spent[method] == spent["fedavg"]) == (gradients == 1)
    assert spent[method] >= spent["fedavg"]
    assert round(sent[method] / sent["fedavg"]) == vectors
