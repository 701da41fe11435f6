"""--device, --amp and --channels-last: what is refused, and what users are told about the results."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dpeer.exceptions import ConfigurationError
from dpeer.federation import config
from dpeer.federation.build import build
from dpeer.federation.config import resolve
from dpeer.federation.settings import Settings

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
def test_notes_say_what_becomes_of_the_results() -> None:
    plain = build(resolve(settings(), 0))
    chosen = build(resolve(settings(device="auto", amp="bf16", channels_last=True), 0))
    assert [note for note in chosen.notes if note not in plain.notes] == [
        "amp bf16: outputs are computed in bfloat16, with about three digits, so results differ from float32's; "
        "parameters and mixing stay float32",
        "channels-last: results differ in the last bits",
    ]
    assert chosen.fingerprint == plain.fingerprint
    assert chosen.learner.digest == plain.learner.digest


def test_channels_last_without_images_has_no_effect(in_tmp_path: Path) -> None:
    (in_tmp_path / "mine.py").write_text(
        "import torch\n"
        "from torch import nn\n"
        "from torch.utils.data import TensorDataset\n"
        "from dpeer.training import Task\n"
        "def task(rank, size, seed):\n"
        "    data = TensorDataset(torch.randn(12, 4), torch.arange(12) % 2)\n"
        "    return Task(model=nn.Linear(4, 2), head=(), train=data, test=data)\n"
    )
    found = build(resolve(settings(task="mine.py:task", algorithm="dfedavgm", channels_last=True), 0))
    assert "channels-last: no effect, the inputs are not images" in found.notes
