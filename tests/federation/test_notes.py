"""What is printed when a run starts: the values that are used, and what the user may not expect of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.federation.build import build
from dpeer.federation.config import from_flags, resolve
from dpeer.federation.presets import PRESETS

MORE = """

def whole(rank, size, seed):
    found = task(rank, size, seed)
    found.head = ()
    return found


def few(rank, size, seed, train, test):
    torch.manual_seed(seed)
    sets = [TensorDataset(torch.randn(len(classes), 4), torch.tensor(classes)) for classes in (train, test)]
    return Task(model=Net(), head=("fc",), train=sets[0], test=sets[1])
"""

Start = Callable[..., list[str]]


@pytest.fixture
def notes(small_task: Path) -> Start:
    """The notes of rank 0 with these flags."""
    small_task.write_text(small_task.read_text() + MORE)
    usual = {"size": 2, "task": "mine.py:task", "rounds": 1}
    keep = {"keep": "last"}  # how the best is chosen is told of in test_config.py

    def run(**flags: Any) -> list[str]:
        return build(resolve(from_flags({**usual, **keep, **flags}), 0)).notes

    return run


def test_the_notes_of_rank_0_are_printed_before_the_first_round(dpeer: Callable[..., Any], notes: Start) -> None:
    ended = dpeer("simulate", "--size", 2, "--task", "mine.py:task", "--rounds", 1, "--keep", "last")
    before = ended.err.partition("round 1/1")[0].splitlines()
    assert [line.removeprefix("rank 0: ") for line in before if line.startswith("rank 0: ")] == notes()


def values(lines: list[str]) -> list[str]:
    (line,) = (line for line in lines if line.startswith("not at their defaults: "))
    return line.partition(": ")[2].split(", ")


def test_what_is_trained_is_said_and_no_value_that_is_a_default(notes: Start) -> None:
    assert notes(body_lr=0.05) == ["dfedsmdc on mine.py:task: 12 training samples, body of 30 parameters, head of 14"]
    assert values(notes(finish="head:2", rho=0.5)) == ["rho 0.5", "finish head:2 at rate 0.013"]


def test_a_preset_is_spelled_out_with_its_remark(notes: Start) -> None:
    _, preset, *rest = notes(preset="paper-cifar", batch_size=4)
    assert preset == (
        "preset paper-cifar: body-lr 0.1, head-lr 0.001, lr-decay 0.995, momentum 0.9, body-epochs 5, rho 0.7, "
        "grad-clip 0, finish none, head-epochs 1 (not its rounds, batch-size); "
        f"{PRESETS['paper-cifar'].remark}"
    )
    used = values(rest)
    assert {"body-lr 0.1", "head-lr 0.001", "rho 0.7"} <= {*used}
    assert "batch-size 4" in used, "what is given wins"


def test_a_private_start_says_that_declared_numbers_are_not_covered(notes: Start) -> None:
    said = "weights declared: all peers know what each rank brings, and no epsilon covers it: declare rounded numbers"
    private = {"privacy": "client", "noise_multiplier": 2.0, "clip_norm": 1.0}
    assert said in notes(weights="declared:3,1", **private)
    assert said not in notes(weights="declared:3,1")
    assert said not in notes(**private)


FEDROD = (
    "the generic model{} leaves this peer with fedrod, the task's head (fc) included",
    " with the hypernetwork (whose change tells the class distribution where no noise is added)",
)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            {"algorithm": "dfedavgm"},
            ["the whole model leaves this peer with dfedavgm, the task's head (fc) included"],
        ),
        ({"algorithm": "dfedavgm", "task": "mine.py:whole"}, []),  # there is no head
        ({"algorithm": "dfedmdc"}, []),
        ({"algorithm": "fedbabu"}, []),
        ({"algorithm": "fedrod"}, [FEDROD[0].format("")]),
        ({"algorithm": "fedrod", "algorithm_options": {"personal": "hypernetwork"}}, [FEDROD[0].format(FEDROD[1])]),
        ({"algorithm": "local"}, ["nothing leaves this peer: it trains alone"]),
    ],
)
def test_what_leaves_beyond_the_body_is_said(flags: dict[str, Any], message: list[str], notes: Start) -> None:
    assert [line for line in notes(**flags) if "leaves this peer" in line] == message


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ([0, 0, 0, 1], [0, 1] * 5, ["only one training row of class 1: too few to learn from"]),
        ([1, 1, 1], [0, 1] * 5, ["all training rows are of class 1: this peer's data cannot tell any other from it"]),
        ([0, 0, 1, 1], [0] * 5, ["the test set has 5 rows: an accuracy on it goes in steps of 0.2 and tells little"]),
        ([0, 0, 1, 1], [0, 1] * 5, []),
    ],
)
def test_too_few_rows_are_said(train: list[int], test: list[int], message: list[str], notes: Start) -> None:
    lines = notes(task="mine.py:few", task_options={"train": train, "test": test})
    assert [line for line in lines if "row" in line] == message
