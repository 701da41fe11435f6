"""What every setting is to a federation: its mark, held against what it does to the handshake."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field
from safetensors.torch import save_file

from dpeer.exceptions import ConfigurationError
from dpeer.federation.build import build
from dpeer.federation.config import resolve
from dpeer.federation.settings import RankSettings, Settings, option_names
from dpeer.sections import Mark, marked, meaning_of
from dpeer.training.models import build_model

pytestmark = pytest.mark.slow

PRIVATE: dict[str, Any] = {"privacy": "client", "noise_multiplier": 2.0}
SAMPLE: dict[str, Any] = {"privacy": "sample", "noise_multiplier": 2.0, "records": 12, "task": "mine.py:task"}
"""On few rows: to find the quickest way to the gradients of images takes a second."""

OTHER: dict[str, tuple[Any, dict[str, Any]]] = {
    "proxy": ("socks5://127.0.0.1:1080", {}), "serve": ("9100", {}),
    "topology": ("full", {}), "size": (5, {}), "weights": ("uniform", {}),
    "graph_seed": (5, {"topology": "random-regular:3", "size": 8}),
    "task": ("mine.py:task", {"grad_clip": 1.0}), "task_options": ({"shift": 1.0}, {"task": "mine.py:task"}),
    "partition": ("iid", {}), "test_split": ("shared", {}), "validation": (0.2, {}), "model": ("mlp", {}),
    "model_options": ({"width": 32}, {"model": "mlp"}), "init_from": (Path("weights.safetensors"), {}),
    "head": ("features.7,head", {}), "lora": ("r=2", {}), "augment": (True, {}), "standardize": (True, {}),
    "schema": ("other.toml", {"schema": "one.toml", "task": "csv"}), "algorithm": ("dfedmdc", {}),
    "algorithm_options": ({"ditto_lambda": 0.2}, {"algorithm": "ditto"}),
    "preset": ("paper-cifar", {}), "seed": (3, {}), "participation": (0.5, {}),
    "participation_mode": ("server", {"topology": "full", "participation": 0.5}), "rounds": (7, {}),
    "body_lr": (0.2, {}),
    "head_lr": (0.2, {}), "lr_decay": (0.9, {}), "lr_schedule": ("cosine", {}),
    "optimizer": ("adamw", {}), "momentum": (0.1, {}),
    "weight_decay": (0.1, {}), "grad_clip": (10.0, {}), "body_epochs": (2, {}), "head_epochs": (2, {}),
    "class_weights": ("balanced", {}),
    "local_steps": (3, {}), "batch_size": (8, {}), "rho": (0.2, {}), "sam": ("head", {}),
    "compress": ("int8", {}),
    "robust": ("clip", {}), "max_norm": (3.0, {}),
    "privacy": ("none", {"privacy": "client", "noise_multiplier": 2.0}),
    "target_epsilon": (3.0, {"privacy": "client", "target_epsilon": 8.0}), "noise_multiplier": (3.0, PRIVATE),
    "clip_norm": (2.0, PRIVATE), "delta": (1e-6, PRIVATE),
    "records": (64, SAMPLE), "dp_head": ("alternate", SAMPLE),
    "dp_sam": ("same-batch", SAMPLE), "privacy_unit": ("group", SAMPLE),
    "microbatch": (8, SAMPLE), "rounds_released": (1, PRIVATE),
    "sparsify": ("random:0.5", PRIVATE), "evaluate_every": (2, {}), "evaluate_on": ("validation", {"validation": 0.2}),
    "training_accuracy": (True, {}),
    "checkpoint_every": (2, {}), "keep": ("best", {"validation": 0.2}),
    "finish": ("head:2", {}),
    "out": (Path("elsewhere"), {}), "device": ("auto", {}), "amp": ("bf16", {}),
    "channels_last": (True, {}), "log_level": ("debug", {}),
    "log_to": (["tensorboard"], {}), "wait": (5.0, {}),
    "dead_after": (5.0, {}), "deadline": ("auto", {}), "quorum": ("any", {}),
    "operators": (["ab" * 32], {"name": "one"}), "name": ("two", {}),
    "signers": (2, {"operators": ["ab" * 32, "cd" * 32], "name": "one"}),
    "threads": (1, {}), "base_port": (7000, {}), "insecure": (True, {}),
    "faults": (Path("faults.toml"), {}), "secret": (Path("rank-0.secret"), {}),
    "alone": ("always", {}), "round_seconds": (2.5, {}),
}  # fmt: skip
"""By setting, a value that is not its default, and settings in which it matters."""

MINE = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.training import Task


def task(rank, size, seed, shift=0.0):
    data = TensorDataset(torch.randn(12, 4) + shift, torch.arange(12) % 2)
    model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2))
    return Task(model=model, head=("1",), train=data, test=data, groups=[number // 3 for number in range(12)])
"""


TABLE = "a,y\n" + "".join(f"{n},{n % 2}\n" for n in range(40))
SCHEMA = 'format = 1\n[target]\ncolumn = "y"\nclasses = [0, 1]\n[columns.a]\nkind = "number"\nrange = [0, {}]\n'


def agreed(tmp_path: Path, **values: Any) -> dict[str, Any]:
    """All that peers compare when they shake hands."""
    (tmp_path / "mine.py").write_text(MINE)
    if "schema" in values:
        (tmp_path / "table.csv").write_text(TABLE)
        (tmp_path / "one.toml").write_text(SCHEMA.format(50))
        (tmp_path / "other.toml").write_text(SCHEMA.format(60))
        values |= {"schema": tmp_path / values["schema"], "task_options": {"path": str(tmp_path / "table.csv")}}
    for name, value in values.items():
        if isinstance(value, str) and value.startswith("mine.py"):
            values[name] = str(tmp_path / value)
    if "init_from" in values:
        values["init_from"] = tmp_path / values["init_from"]
        save_file(build_model("digits", (1, 8, 8), 10).state_dict(), values["init_from"])
    settings = Settings(**{"size": 4, "rounds": 4, "out": tmp_path / "run", **values})
    parts = build(resolve(settings, 0))
    return {**parts.fingerprint, "manifest": parts.learner.about.manifest, "first weights": parts.learner.about.digest}


BEFORE: dict[str, dict[str, Any]] = {}


def once(tmp_path: Path, where: dict[str, Any]) -> dict[str, Any]:
    """The same, and nothing of it is of the folder: what is asked for most, the defaults, is computed once."""
    key = repr(where)
    if key not in BEFORE:
        BEFORE[key] = agreed(tmp_path, **where)
    return BEFORE[key]


def test_every_setting_has_another_value_here() -> None:
    """A new one has to be added, so that its mark is put to the test."""
    assert {*OTHER} == {*option_names()}


@pytest.mark.parametrize("name", OTHER)
def test_a_setting_is_to_a_federation_what_its_mark_says(name: str, tmp_path: Path) -> None:
    mark = meaning_of(Settings.model_fields[name]).mark
    value, where = OTHER[name]
    needless = {"privacy": "noise_multiplier"}.get(name)
    given = {key: one for key, one in where.items() if key != needless}
    before = once(tmp_path / "before", where)
    after = agreed(tmp_path / "after", **{**given, name: value})
    compared = {key for key in {*before, *after} if before.get(key) != after.get(key)}
    if mark in (Mark.SHARED, Mark.FOLLOWS):
        assert compared, f"two peers that differ in {name} would not notice"
    elif name == "task":
        assert compared == {"manifest", "first weights", "partition", "test split", "division of the samples"}
    else:
        assert not compared, f"two peers that differ in {name} would refuse each other"
    if mark is Mark.SHARED and name not in ("size", "privacy", "algorithm"):
        assert name in compared


@pytest.fixture(autouse=True)
def make_folders(tmp_path: Path) -> None:
    for name in ("before", "after"):
        (tmp_path / name).mkdir()


def test_a_rank_may_set_what_is_its_own_affair_and_nothing_else() -> None:
    own = {name for name in option_names() if meaning_of(Settings.model_fields[name]).mark in (Mark.OWN, Mark.ASIDE)}
    of_rank = {*RankSettings.model_fields} - {"address", "bind", "key", "weight"}
    assert of_rank <= own
    assert own - of_rank == {
        "base_port",
        "insecure",
        "faults",
    }


def test_what_a_rank_sets_is_checked_like_the_setting_itself() -> None:
    assert Settings(rank={1: {"batch_size": 4}}).of_rank(1).batch_size == 4
    assert Settings(rank={1: {"batch_size": 4}}).of_rank(0).batch_size == 32
    for wrong in ({"batch_size": 0}, {"batch_size": "4"}, {"body_lr": 0.1}, {"keep": "first"}, {"device": "gpu"}):
        with pytest.raises(ConfigurationError):
            Settings(rank={1: wrong})


@pytest.mark.parametrize("name", ["rounds", "batch_size", "local_steps", "graph_seed", "seed"])
def test_a_number_that_no_array_can_have_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name} = 1{'0' * 20}: input should be less than 92233720368"):
        Settings(**{name: 10**20})


def test_a_field_without_a_mark_is_refused() -> None:
    class Forgotten(BaseModel):
        plain: int = Field(3)

    with pytest.raises(TypeError):
        marked(Forgotten, Mark.SHARED)
