"""A paper's values by name: what they are, and what wins over them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import UnknownName
from dpeer.federation.config import load, resolve
from dpeer.federation.presets import PRESETS
from dpeer.federation.settings import Settings
from dpeer.training import ALGORITHMS


@pytest.fixture
def write(in_tmp_path: Path) -> Callable[[str], Path]:
    def make(text: str) -> Path:
        path = in_tmp_path / "federation.toml"
        path.write_text(text)
        return path

    return make


OF_CODE = {"paper-dispfl", "paper-fedrep", "paper-fedbabu"}
"""Presets made from published code, of papers against whose texts their values have not been held."""

OWN = [
    ("dp-fedavg", "fedavg", "dp-fedsam", {"rho": 0.5}),
    ("dp-fedavg-emnist", "fedavg", "dp-fedsam-emnist", {"rho": 0.5}),
    ("dp-fedsam", "fedsam", "dp-fedsam-topk", {"sparsify": "top-k:0.4"}),
    ("dp-fedsam-emnist", "fedsam", "dp-fedsam-topk-emnist", {"sparsify": "top-k:0.4"}),
    ("centaur", "dfedmdc", "dp2-fedsam", {}),
    ("centaur-femnist", "dfedmdc", "dp2-fedsam-femnist", {}),
]
"""A preset, its algorithm, another one of its paper, and what that one has besides."""


@pytest.mark.parametrize(("name", "algorithm", "other", "more"), OWN)
def test_methods_of_one_paper_differ_in_their_algorithm_alone(
    name: str, algorithm: str, other: str, more: dict[str, Any]
) -> None:
    """The values of one of each paper are held against it in tests/experiments/test_papers.py."""
    expected = {**PRESETS[name].values, **more, "algorithm": PRESETS[other].values["algorithm"]}
    assert PRESETS[other].values == expected
    assert PRESETS[name].values["algorithm"] == algorithm


def test_what_no_file_of_a_paper_asks_for_is_as_the_papers_have_it() -> None:
    for name, preset in PRESETS.items():
        finish = "all:5,0.1" if name == "paper-fedbabu" else "none"
        assert preset.values["finish"] == finish, "no other algorithm there trains on after the last mixing"
        assert name not in OF_CODE or "published" in preset.remark
        if preset.values.get("optimizer") == "adamw":
            assert preset.values["head_lr"] == preset.values["body_lr"], "one rate is printed, for the whole model"
    for name in ("dp-fedsam", "dp-fedsam-emnist", "dp-fedsam-topk", "dp-fedsam-topk-emnist"):
        assert (PRESETS[name].values["algorithm"], PRESETS[name].values["noise_multiplier"]) == ("fedsam", 0.95)
    for name in ("dp2-fedsam", "dp2-fedsam-femnist"):
        assert PRESETS[name].values["algorithm"] == "dfedsmdc"


# What a preset does --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [None, "fedrep"])
@pytest.mark.parametrize("name", PRESETS)
def test_its_values_are_valid_settings_and_those_used(name: str, algorithm: str | None) -> None:
    message = {} if algorithm is None else {"algorithm": algorithm}
    used = Settings(preset=name, **message)
    # A preset's own are not checked when they are taken over.
    given = Settings.model_validate({**PRESETS[name].values_for(used.algorithm), **message})
    assert used.model_dump() == given.model_dump() | {"preset": name}
    assert used.algorithm in ALGORITHMS
    assert used.model_fields_set == {"preset", *message}, "nobody said them: an algorithm's own defaults win over them"
    assert PRESETS[name].remark
    assert "\n" not in PRESETS[name].remark


@pytest.mark.parametrize(
    ("algorithm", "head_lr", "head_epochs"),
    [("dfedmdc", 0.001, 5), ("dfedsmdc", 0.001, 5), ("fedrep", 0.1, 10), ("fedrod", 0.1, 5), ("dfedavgm", 0.1, 5)],
)
def test_what_a_paper_gives_its_own_methods_alone_does_not_go_to_others(
    algorithm: str, head_lr: float, head_epochs: int, write: Callable[[str], Path]
) -> None:
    for settings in (
        Settings(preset="paper-cifar-pathological", algorithm=algorithm),
        load(write("preset = 'paper-cifar-pathological'\nalgorithm = 'ditto'"), {"algorithm": algorithm}),
    ):
        used = resolve(settings, 0).training
        assert (used.head_lr, used.head_epochs, used.body_lr) == (head_lr, head_epochs, 0.1)
    message = resolve(Settings(preset="paper-cifar", algorithm=algorithm, head_lr=0.02, head_epochs=3), 0).training
    assert (message.head_lr, message.head_epochs) == (0.02, 3)


def test_what_the_user_gives_wins(write: Callable[[str], Path]) -> None:
    path = write("preset = 'paper-cifar'\nbody_lr = 0.3\nhead_epochs = 1")
    settings = load(path, {"rho": 0.2, "batch_size": None})
    assert (settings.body_lr, settings.rho) == (0.3, 0.2)
    assert (settings.head_lr, settings.batch_size) == (0.001, 128)

    # Also with the generic default, and whether the preset is a flag's or the file's.
    assert load(path, {"preset": "paper-cifar-pathological", "body_lr": 0.05}).body_lr == 0.05
    assert load(path, {"preset": "paper-cifar-pathological"}).head_epochs == 1
    assert load(path, {"preset": "paper-cifar-pathological"}).body_lr == 0.3
    assert Settings(preset="paper-cifar", lr_decay=1.0).lr_decay == 1.0


@pytest.mark.parametrize(
    ("name", "algorithm"), [("paper-dispfl", "dis-pfl"), ("paper-fedrep", "fedrep"), ("paper-fedbabu", "fedbabu")]
)
def test_a_preset_may_pick_the_algorithm_unless_one_is_given(
    name: str, algorithm: str, write: Callable[[str], Path]
) -> None:
    assert load(write(f"preset = '{name}'"), {}).algorithm == algorithm
    assert load(write(f"preset = '{name}'"), {"algorithm": "dfedavgm"}).algorithm == "dfedavgm"
    given = load(write("algorithm = 'dfedsmdc'"), {"preset": name})
    assert given.algorithm == "dfedsmdc", "also where it is the default"
    assert given.body_lr == PRESETS[name].values["body_lr"]


def test_an_unknown_one_is_refused_with_the_nearest(write: Callable[[str], Path]) -> None:
    for make in (
        lambda: Settings(preset="paper-cifr"),
        lambda: load(write("preset = 'paper-cifr'"), {}),
        lambda: load(write(""), {"preset": "paper-cifr"}),
    ):
        with pytest.raises(UnknownName) as raised:
            make()
        assert "did you mean 'paper-cifar'?" in str(raised.value)
        assert raised.value.exit_code == 2
