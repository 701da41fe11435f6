"""One seed, one federation: the same metrics and models, to the bit, however it is run."""

import signal
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROUNDS = 6


@pytest.fixture
def options(task: str, schedule: tuple[str, ...]) -> tuple[object, ...]:
    return ("--task", task, *schedule, "--rounds", ROUNDS, "--seed", 3)


@pytest.mark.parametrize(
    ("federation", "size"),
    [
        (("--topology", "ring", "--size", 3, "--algorithm", "dfedsmdc"), 3),
        (
            ("--topology", "exponential-directed", "--size", 4, "--algorithm", "dfedmdc", "--task-option",
             "dropout=0.3"),
            4,
        ),
        pytest.param(("--topology", "random-matching", "--graph-seed", 4, "--size", 5), 5, marks=pytest.mark.long),
        (("--fresh-neighbors", "directed:2", "--size", 4), 4),
        (("--size", 4, "--algorithm", "dfedavgm", "--quantize", 8), 4),
        pytest.param(("--size", 4, "--algorithm", "ditto", "--participation", 0.5), 4, marks=pytest.mark.long),
        (("--size", 4, "--topology", "full", "--algorithm", "dfedmdc", "--participation", 0.5, "--participation-mode",
          "server"), 4),
        (("--size", 3, "--algorithm", "dis-pfl", "--local-steps", 7), 3),
        pytest.param(("--size", 3, "--algorithm", "fedrod"), 3, marks=pytest.mark.long),
        pytest.param(("--size", 3, "--wire-dtype", "bfloat16"), 3, marks=pytest.mark.long),  # the last has it, too
        pytest.param(("--size", 4, "--robust", "clip", "--max-norm", 50), 4, marks=pytest.mark.long),
        pytest.param(("--size", 3, "--robust", "trimmed-mean:1"), 3, marks=pytest.mark.long),
        (("--size", 4, "--topology", "full", "--robust", "median", "--wire-dtype", "bfloat16"), 4),
    ],
    ids=[
        "ring", "exponential-directed with dropout", "random-matching", "fresh-directed", "quantized changes",
        "ditto, half of the peers at a time", "a sample sends to all", "dis-pfl", "fedrod", "bfloat16 on the wire",
        "clip", "trimmed-mean", "median",
    ],
)  # fmt: skip
def test_a_cluster_stopped_half_way_and_resumed_gives_the_bits_of_a_simulation(
    federation: tuple[object, ...],
    size: int,
    options: tuple[object, ...],
    dpeer: Callable[..., Any],
    simulate: Callable[..., None],
    slow_after: Callable[[int], tuple[str, ...]],
    rounds_done: Callable[..., int],
    results: Callable[..., Any],
    until: Callable[..., Any],
) -> None:
    simulate(*federation, *options, "--out", "simulated")
    expected = results("simulated", size)
    assert all(len(expected[f"metrics of rank {rank}"]) == ROUNDS for rank in range(size))
    assert len({expected[f"model of rank {rank}"] for rank in range(size)}) == size, "the heads are personal"

    stopped = dpeer("cluster", *federation, *options, *slow_after(2), "--out", "stopped")
    until(lambda: rounds_done("stopped") >= 2)
    stopped.signal(signal.SIGINT)
    assert "--resume goes on" in stopped.succeed()
    assert 2 <= rounds_done("stopped") < ROUNDS
    dpeer("cluster", *federation, *options, "--out", "stopped", "--resume").succeed()
    assert results("stopped", size) == expected


def test_other_floats_on_the_wire_give_other_bits(
    options: tuple[object, ...], simulate: Callable[..., None], results: Callable[..., Any]
) -> None:
    found = []
    for dtype in ("float32", "bfloat16", "float16"):
        simulate("--size", 3, *options, "--wire-dtype", dtype, "--out", dtype)
        found.append(results(dtype, 3))
    for rank in range(3):
        assert len({one[f"model of rank {rank}"] for one in found}) == 3
    simulate("--size", 3, *options, "--out", "default")
    assert results("default", 3) == found[0]


def test_two_clusters_and_a_simulation_give_the_same_bits_and_another_seed_does_not(
    options: tuple[object, ...],
    dpeer: Callable[..., Any],
    simulate: Callable[..., None],
    results: Callable[..., Any],
) -> None:
    federation = ("--topology", "ring", "--size", 2, *options)
    runs = [dpeer("cluster", *federation, "--out", name) for name in ("first", "second")]
    simulate(*federation, "--out", "simulated")
    simulate(*federation, "--out", "other", "--seed", 4)
    for run in runs:
        run.succeed()
    first, other = results("first", 2), results("other", 2)
    assert first == results("second", 2) == results("simulated", 2)
    assert all(first[key] != other[key] for key in first)


def test_a_simulation_stopped_while_one_peer_is_ahead_and_resumed_gives_the_same_bits(
    options: tuple[object, ...],
    dpeer: Callable[..., Any],
    simulate: Callable[..., None],
    slow_after: Callable[[int], tuple[str, ...]],
    rounds_done: Callable[..., int],
    results: Callable[..., Any],
    until: Callable[..., Any],
) -> None:
    federation = ("--topology", "ring", "--size", 4)
    simulate(*federation, *options, "--out", "whole")
    # Rank 2 is slow: ranks 1 and 3 need its body, rank 0 does not and completes one round more.
    slow = (*slow_after(2), "--task-option", "slow=2")
    run = dpeer("simulate", *federation, *options, *slow, "--out", "stopped")
    until(lambda: rounds_done("stopped", 0) == 3)
    assert rounds_done("stopped", 1) == 2
    run.signal(signal.SIGINT)
    assert "--resume goes on" in run.succeed()
    assert [rounds_done("stopped", rank) for rank in range(4)] == [3, 2, 2, 2]
    simulate(*federation, *options, "--out", "stopped", "--resume")
    assert results("stopped", 4) == results("whole", 4)
