"""Every algorithm from the command line, on the digits."""

from collections.abc import Callable
from typing import Any

import pytest
from safetensors.torch import load_file

from dpeer.training import ALGORITHMS
from dpeer.training.models.small import DigitsNet

pytestmark = pytest.mark.slow

VARIANTS = [
    *((name,) for name in ALGORITHMS),
    ("dfedsmdc", "--sam", "both", "--grad-clip", "10"),
    ("dfedavgm", "--quantize", "8"),
    ("fedper", "--participation", "0.5"),
    ("fedrod", "--algorithm-option", "personal=hypernetwork"),
]


QUICK = {"dfedsmdc", "ditto", "scaffold", "dis-pfl", "fedadamw"}
"""The others send a body alone, or as many values beside it as one of these; what they train `tests/training` holds."""


@pytest.mark.parametrize(
    "variant",
    [
        pytest.param(
            variant, marks=[] if variant[0] in QUICK or variant[1:] else [pytest.mark.long], id=" ".join(variant)
        )
        for variant in VARIANTS
    ],
)
def test_a_cluster_and_a_simulation_give_the_same_bits(
    variant: tuple[str, ...],
    dpeer: Callable[..., Any],
    simulate: Callable[..., None],
    results: Callable[..., Any],
    tmp_path: Any,
) -> None:
    # Few steps: what a whole epoch learns is looked at elsewhere.
    federation = ("--size", 3, "--rounds", 2, "--local-steps", 3, "--algorithm", *variant)
    run = dpeer("cluster", *federation, "--out", "cluster")
    simulate(*federation, "--out", "simulated")
    run.succeed()
    found = results("cluster", 3)
    assert found == results("simulated", 3)
    for rank in range(3):
        # What predicts is the task's own model, whatever was trained beside it.
        DigitsNet().load_state_dict(load_file(tmp_path / "cluster" / f"rank-{rank}" / "model.safetensors"))
        lines = found[f"metrics of rank {rank}"]
        assert all((entry["bytes_sent"] > 0) == (variant[0] != "local" and bool(entry["heard"])) for entry in lines)
