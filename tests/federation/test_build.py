"""What a peer is built of: its device, classes, standardized inputs and rounds, by its settings."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, Subset, TensorDataset

from dpeer.exceptions import ConfigurationError
from dpeer.federation import config
from dpeer.federation.build import build, content_of
from dpeer.federation.config import resolve
from dpeer.federation.settings import Settings
from dpeer.training import Task

FLAGS: dict[str, Any] = {"size": 2, "rounds": 1}


def settings(**changes: Any) -> Settings:
    return config.from_flags(FLAGS | changes)


def test_a_rank_has_a_device_of_its_own(in_tmp_path: Path) -> None:
    (in_tmp_path / "dpeer.toml").write_text(
        'size = 3\ndevice = "auto"\n[rank.1]\ndevice = "cuda:1"\namp = "bf16"\nchannels_last = true\n'
    )
    found = config.load(None, {})
    assert [found.of_rank(rank).device for rank in range(3)] == ["auto", "cuda:1", "auto"]
    assert [found.of_rank(rank).amp for rank in range(3)] == [None, "bf16", None]
    assert [found.of_rank(rank).channels_last for rank in range(3)] == [False, True, False]
    assert config.load(None, {"device": "cpu"}).of_rank(1).device == "cpu"
    (in_tmp_path / "dpeer.toml").write_text('size = 3\n[rank.1]\ndevice = "gpu"\n')
    with pytest.raises(ConfigurationError):
        config.load(None, {})


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_cuda_is_refused_in_one_line(dpeer: Callable[..., Any], in_tmp_path: Path) -> None:
    ended = dpeer("simulate", "--size", 2, "--device", "cuda")
    assert ended.code == 2
    last = ended.err.strip().splitlines()[-1]
    assert "--device cuda: this torch (" in last
    assert last.endswith("sees no CUDA device; use --device cpu or auto")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_the_device_precision_and_layout_are_a_peers_own() -> None:
    plain = build(resolve(settings(), 0))
    chosen = build(resolve(settings(device="auto", amp="bf16", channels_last=True), 0))
    assert chosen.fingerprint == plain.fingerprint
    assert chosen.learner.about.digest == plain.learner.about.digest


@pytest.mark.parametrize("algorithm", ["dfedmdc", "dfedavgm"])
def test_a_summary_names_the_classes_and_a_hello_does_not(tmp_path: Path, algorithm: str) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("age,outcome\n" + "".join(f"{n},{('went-home', 'came-back')[n % 2]}\n" for n in range(20)))
    settings = Settings(
        size=2, task="csv", task_options={"path": str(path), "target": "outcome"}, algorithm=algorithm,
        out=tmp_path / "run",
    )  # fmt: skip
    parts = build(resolve(settings, 0))
    assert parts.facts["class_names"] == ["came-back", "went-home"]
    assert sum(parts.facts["class_counts"]) + sum(parts.facts["evaluated_class_counts"]) == 20
    message = repr((parts.fingerprint, parts.learner.about.manifest, parts.learner.about.digest))
    assert "home" not in message


PRIVATE: dict[str, Any] = {"privacy": "client", "noise_multiplier": 2.0}


def scales(folder: Path, **values: Any) -> bool:
    """Whether a peer's model scales its inputs by own statistics; what peers compare must say the same."""
    (folder / "x.csv").write_text("a,b,y\n" + "".join(f"{n},{1000 * n},{n % 2}\n" for n in range(40)))
    options = {"path": str(folder / "x.csv"), "target": "y", "columns": "a,b", "classes": "0,1"}
    if values.get("task", "csv") != "csv":
        options = {}
    settings = Settings(**{"task": "csv", "task_options": options, "size": 2, "out": folder / "run", **values})
    parts = build(resolve(settings, 0))
    found = any(name.endswith("input_mean") for name, _ in parts.learner.trainer.module.named_buffers())
    assert parts.fingerprint["standardize"] is found
    return found


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, True),
        ({"standardize": False}, False),
        (PRIVATE, False),
        (PRIVATE | {"standardize": True}, True),
        ({"task": "digits"}, False),
        ({"task": "digits", "standardize": True}, True),
    ],
)
def test_inputs_of_tables_are_scaled_unless_somebody_says_otherwise(
    tmp_path: Path, values: dict[str, Any], expected: bool
) -> None:
    assert scales(tmp_path, **values) is expected


def test_large_values_to_predict_are_said(tmp_path: Path) -> None:
    for largest, expected in ((1000, True), (2, False)):
        path = tmp_path / f"{largest}.csv"
        path.write_text("a,cost\n" + "".join(f"{n},{largest * n / 39}\n" for n in range(40)))
        options = {"path": str(path), "target": "cost", "kind": "regression"}
        parts = build(resolve(Settings(task="csv", task_options=options, size=2, out=tmp_path / "run"), 0))
        assert any(note.startswith("cost goes up to ") for note in parts.notes) is expected


@pytest.mark.parametrize(
    ("data", "known"),
    [
        (TensorDataset(torch.randn(12, 4).to(torch.bfloat16), torch.arange(12)), True),
        (TensorDataset(torch.randn(12, 4).to_sparse(), torch.arange(12)), False),
        (Subset(TensorDataset(torch.randn(12, 4), torch.arange(12)), range(12)), False),
    ],
)
def test_data_have_a_hash_where_they_are_dense_tensors_of_any_type(data: Dataset[Any], known: bool) -> None:
    task = Task(model=nn.Linear(4, 2), head=("weight",), train=data, test=data)
    assert (content_of(task) is not None) == known
