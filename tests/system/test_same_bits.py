"""One seed, one federation: the same metrics and models, to the bit, however it is run."""

import signal
from pathlib import Path

import pytest

from dpeer.training import ALGORITHMS
from tests.thinning import only

pytestmark = pytest.mark.slow

ROUNDS = 6
EXAMPLES = Path(__file__).parents[2] / "examples"


FEDERATIONS = {
    "exponential-directed": (4, "--topology exponential-directed"),
    "a sample sends to all, bfloat16, dropout": (
        4, "--topology full --participation 0.5 --participation-mode server --compress bfloat16 "
        "--task-option dropout=0.3",
    ),
    "median": (4, "--topology full --robust median"),
    "fresh-directed, quantized": (4, "--topology fresh-directed:2 --algorithm dfedavgm --compress int8"),
    "random-matching": (5, "--topology random-matching --graph-seed 4"),
    "ditto, half of the peers at a time": (4, "--algorithm ditto --participation 0.5"),
    "clip": (4, "--robust clip --max-norm 50"),
    "trimmed-mean": (3, "--robust trimmed-mean:1"),
    "an algorithm of one's own, quantized": (4, f"--algorithm {EXAMPLES}/outer_steps.py:OuterSteps --compress int8"),
    "dis-pfl of seven steps": (3, "--algorithm dis-pfl --local-steps 7"),
    **{name: (3, f"--algorithm {name} --local-steps 3") for name in ALGORITHMS},
}  # fmt: skip
QUICK = ["a sample sends to all, bfloat16, dropout", "scaffold", "an algorithm of one's own, quantized"]


@pytest.mark.parametrize("name", only(QUICK, FEDERATIONS))
def test_a_cluster_stopped_half_way_and_resumed_gives_the_bits_of_a_simulation(
    name, task, schedule, dpeer_process, simulate, slow_after, rounds_done, results, until
):
    size, words = FEDERATIONS[name]
    federation = ("--task", task, *schedule, "--rounds", ROUNDS, "--seed", 3, *words.split(), "--size", size)
    simulate(*federation, "--out", "simulated")
    expected = results("simulated", size)
    assert all(len(expected[f"metrics of rank {rank}"]) == ROUNDS for rank in range(size))
    if name not in ("fedavg", "fedsam"):
        assert len({expected[f"model of rank {rank}"] for rank in range(size)}) == size, "the heads are personal"

    stopped = dpeer_process("cluster", *federation, *slow_after(2), "--out", "stopped")
    until(lambda: rounds_done("stopped") >= 2)
    stopped.signal(signal.SIGINT)
    assert "--resume goes on" in stopped.succeed()
    assert 2 <= rounds_done("stopped") < ROUNDS
    dpeer_process("cluster", *federation, "--out", "stopped", "--resume").succeed()
    assert results("stopped", size) == expected
