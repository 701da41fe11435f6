"""What is printed when a run starts: the values that are used, and what the user may not expect of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.federation.presets import PRESETS

Command = Callable[..., Any]

MORE = """

def whole(rank, size, seed):
    found = task(rank, size, seed)
    found.head = ()
    return found
"""

Start = Callable[..., list[str]]


@pytest.fixture
def notes(dpeer: Command, small_task: Path) -> Start:
    """What `dpeer simulate` prints of rank 0 before the first round."""
    small_task.write_text(small_task.read_text() + MORE)

    def run(*arguments: object) -> list[str]:
        size = () if "--size" in arguments else ("--size", 2)
        task = () if "--task" in arguments else ("--task", "mine.py:task")
        keep = (
            () if "--keep" in arguments else ("--keep", "last")
        )  # how the best is chosen is told of in test_config.py
        ended = dpeer("simulate", *size, *task, *keep, "--rounds", 1, "--overwrite", *arguments)
        assert ended.code == 0, ended.err
        before = ended.err.partition("round 1/1")[0]
        return [line.removeprefix("rank 0: ") for line in before.splitlines() if line.startswith("rank 0: ")]

    return run


def values(lines: list[str]) -> list[str]:
    (line,) = (line for line in lines if line.startswith("not at their defaults: "))
    return line.partition(": ")[2].split(", ")


def test_what_is_trained_is_said_and_no_value_that_is_a_default(notes: Start) -> None:
    assert notes("--body-lr", 0.05) == [
        "dfedsmdc on mine.py:task: 12 training samples, body of 30 parameters, head of 14"
    ]
    assert values(notes("--finish", "head:2", "--rho", 0.5)) == ["rho 0.5", "finish head:2 at rate 0.013"]


def test_what_is_off_by_default_is_named_where_it_is_on(notes: Start) -> None:
    flags = (
        "--weight-decay",
        0.0005,
        "--grad-clip",
        10,
        "--local-steps",
        3,
        "--compress",
        "int8",
        "--optimizer",
        "adamw",
    )
    used = {*values(notes(*flags, "--lr-schedule", "cosine+warmup:2"))}
    assert {
        "weight-decay 0.0005",
        "grad-clip 10",
        "local-steps 3",
        "compress int8",
        "optimizer adamw",
        "lr-schedule cosine+warmup:2",
    } <= used
    assert {"body-lr 0.001", "head-lr 0.001"} <= used, "AdamW's own"
    assert "grad-clip off" in values(notes("--grad-clip", 0))


def test_a_preset_is_spelled_out_with_its_remark(notes: Start) -> None:
    _, preset, *rest = notes("--preset", "paper-cifar", "--batch-size", 4)
    assert preset == (
        "preset paper-cifar: body-lr 0.1, head-lr 0.001, lr-decay 0.995, momentum 0.9, body-epochs 5, rho 0.7, "
        "grad-clip 0, finish none, head-epochs 1 (not its rounds, batch-size); "
        f"{PRESETS['paper-cifar'].remark}"
    )
    used = values(rest)
    assert {"body-lr 0.1", "head-lr 0.001", "rho 0.7"} <= {*used}
    assert "batch-size 4" in used, "what is given wins"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--algorithm", "dfedavgm", "--sam", "body"), ["sam body has no effect with dfedavgm"]),
        (
            ("--algorithm", "local", "--compress", "int8", "--robust", "clip"),
            [
                "compress int8 has no effect with local",
                "robust clip has no effect with local",
            ],
        ),
        (
            ("--algorithm", "ditto", "--rho", 0.8, "--algorithm-option", "ditto_lambda=1"),
            ["rho 0.8 has no effect with ditto"],
        ),
        (("--algorithm", "dfedavgm"), []),
    ],
)
def test_an_option_of_another_algorithm_has_no_effect_and_it_says_so(
    arguments: tuple[object, ...], message: list[str], notes: Start
) -> None:
    lines = notes(*arguments)
    assert sorted(line for line in lines if "has no effect" in line) == message


def test_how_many_take_part_and_how_rarely_two_meet(notes: Start) -> None:
    def about(*arguments: object) -> list[str]:
        return [line for line in notes(*arguments) if "take part" in line]

    assert about("--size", 4, "--participation", 0.5) == [
        "2 of 4 peers take part in a round, drawn from the seed; two neighbors meet in 16.7% of the rounds"
    ]
    assert about("--size", 4) == []
    assert "participation 0.5" in values(notes("--size", 4, "--participation", 0.5))
    server = ("--size", 4, "--topology", "full", "--participation", 0.5, "--participation-mode", "server")
    assert [line for line in notes(*server) if "all take" in line] == [
        "2 of 4 peers train in a round, drawn from the seed; all take their mean"
    ]


def test_the_tasks_head_leaves_with_an_algorithm_that_shares_the_model(notes: Start) -> None:
    def about(*arguments: object) -> list[str]:
        return [line for line in notes(*arguments) if "leaves this peer" in line]

    assert about("--algorithm", "dfedavgm") == [
        "the whole model leaves this peer with dfedavgm, the task's head (fc) included"
    ]
    assert about("--algorithm", "dfedavgm", "--task", "mine.py:whole") == [], "there is no head"
    assert about("--algorithm", "dfedmdc") == []
    assert about("--algorithm", "fedbabu") == []


def test_fedrod_says_whether_the_hypernetwork_leaves(notes: Start) -> None:
    hypernetwork = (
        "the generic model with the hypernetwork (whose change tells the class distribution where no noise is added)"
    )
    for options, leaves in ((), "the generic model"), (("--algorithm-option", "personal=hypernetwork"), hypernetwork):
        message = f"{leaves} leaves this peer with fedrod, the task's head (fc) included"
        assert message in notes("--algorithm", "fedrod", *options)


def test_local_peers_are_told_that_nothing_leaves(notes: Start) -> None:
    lines = notes("--algorithm", "local")
    assert lines[0].startswith("local on mine.py:task: ")
    assert "nothing leaves this peer: it trains alone" in lines
    assert not any("leaves this peer:" not in line and "leaves" in line for line in lines)


FEW = """

def few(rank, size, seed, train, test):
    torch.manual_seed(seed)
    sets = [TensorDataset(torch.randn(len(classes), 4), torch.tensor(classes)) for classes in (train, test)]
    return Task(model=Net(), head=("fc",), train=sets[0], test=sets[1])
"""


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ([0, 0, 0, 1], [0, 1] * 5, ["only one training row of class 1: too few to learn from"]),
        ([1, 1, 1], [0, 1] * 5, ["all training rows are of class 1: this peer's data cannot tell any other from it"]),
        ([0, 0, 1, 1], [0] * 5, ["the test set has 5 rows: an accuracy on it goes in steps of 0.2 and tells little"]),
        ([0, 0, 1, 1], [0, 1] * 5, []),
    ],
)
def test_too_few_rows_are_said(
    train: list[int], test: list[int], message: list[str], notes: Start, small_task: Path
) -> None:
    small_task.write_text(small_task.read_text() + FEW)
    options = ("--task-option", f"train={train}", "--task-option", f"test={test}")
    lines = notes("--task", "mine.py:few", *options)
    assert [line for line in lines if "row" in line] == message


def test_larger_batches_are_advised_in_as_many_steps_as_before(notes: Start) -> None:
    """In fewer steps, which a higher rate alone means, they cost accuracy."""
    private = ("--privacy", "sample", "--noise-multiplier", 400, "--records", 700, "--local-steps", 1)
    (message,) = (line for line in notes("--task", "digits", *private) if "cannot survive" in line)
    assert message == (
        "training cannot survive this noise: use fewer trained parameters (a small body on a frozen public one, "
        "--dp-head post), fewer rounds, or larger batches in as many steps (--batch-size together with "
        "--local-steps)"
    )


def test_how_classes_are_dealt_is_said(notes: Start) -> None:
    for spec, message in (
        ("pathological:5", "is balanced"),
        ("pathological-sampled:5", "classes were drawn at random"),
    ):
        lines = notes("--task", "digits", "--partition", spec, "--body-epochs", 1)
        assert [message in line for line in lines if line.startswith(f"partition {spec}")] == [True]
