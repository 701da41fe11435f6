"""Federations whose graph changes with the round, over real sockets."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

pytestmark = pytest.mark.slow


@pytest.fixture
def bodies(tmp_path: Path) -> Callable[[str, int], np.ndarray]:
    """The peers' bodies side by side, (size, parameters)."""

    def read(out: str, size: int) -> np.ndarray:
        models = [load_file(tmp_path / out / f"rank-{rank}" / "model.safetensors") for rank in range(size)]
        return np.stack(
            [np.concatenate([model[f"body.{name}"].ravel() for name in ("weight", "bias")]) for model in models]
        )

    return read


@pytest.mark.long
def test_one_peer_exponential_reaches_the_exact_average_of_sixteen_after_four_rounds(
    task: str,
    schedule: tuple[str, ...],
    dpeer: Callable[..., Any],
    simulate: Callable[..., None],
    results: Callable[..., Any],
    bodies: Callable[[str, int], np.ndarray],
) -> None:
    # Peers train in round 0 only, to become different: then the learning rate is next to nothing.
    federation = (
        "--topology", "one-peer-exponential", "--size", 16, "--task", task, *schedule, "--algorithm", "dfedmdc",
        "--lr-decay", 1e-30,
    )  # fmt: skip
    dpeer("cluster", *federation, "--rounds", 4, "--out", "cluster").succeed()
    simulate(*federation, "--rounds", 4, "--out", "simulated")
    simulate(*federation, "--rounds", 3, "--out", "shorter")
    assert results("cluster", 16) == results("simulated", 16)

    def spread(out: str) -> float:
        found = bodies(out, 16)
        return float(np.abs(found - found.mean(axis=0)).max())

    assert spread("shorter") > 1e-3
    assert spread("cluster") < 1e-6
    metrics = results("cluster", 16)["metrics of rank 3"]
    assert [(entry["heard"], entry["missed"]) for entry in metrics] == [([2], []), ([1], []), ([15], []), ([11], [])]
