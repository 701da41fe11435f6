"""A paper's values by name: what they are, and what wins over them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import UnknownName
from dpeer.federation.config import load
from dpeer.federation.presets import PRESETS
from dpeer.federation.settings import Settings
from dpeer.training import ALGORITHMS

Command = Callable[..., Any]


@pytest.fixture
def write(in_tmp_path: Path) -> Callable[[str], Path]:
    def make(text: str) -> Path:
        path = in_tmp_path / "federation.toml"
        path.write_text(text)
        return path

    return make


@pytest.mark.parametrize("name", PRESETS)
def test_its_values_are_valid_settings_and_those_used(name: str) -> None:
    values = dict(PRESETS[name].values)
    given = Settings.model_validate(values)  # a preset's own are not checked when they are taken over
    used = Settings(preset=name)
    assert used.model_dump() == given.model_dump() | {"preset": name}
    assert used.algorithm in ALGORITHMS
    assert used.model_fields_set == {"preset"}, "nobody said them: an algorithm's own defaults win over them"
    assert PRESETS[name].remark
    assert "\n" not in PRESETS[name].remark


@pytest.mark.parametrize("name", PRESETS)
def test_a_papers_results_do_not_hang_on_what_the_defaults_are(name: str) -> None:
    """Gradients are clipped by default, for data that nobody has tuned for; papers do otherwise."""
    values = PRESETS[name].values
    assert values["grad_clip"] in (None, 10.0)


@pytest.mark.parametrize(("name", "head_epochs"), [("paper-cifar", 1), ("paper-cifar-pathological", 5)])
def test_the_values_on_cifar(name: str, head_epochs: int) -> None:
    settings = Settings(preset=name)
    assert (settings.body_lr, settings.head_lr, settings.lr_decay) == (0.1, 0.001, 0.995)
    assert (settings.batch_size, settings.rho) == (128, 0.7)
    assert (settings.body_epochs, settings.head_epochs) == (5, head_epochs)
    assert settings.algorithm == "dfedsmdc", "it goes with any algorithm"


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


def test_what_the_file_says_of_a_rank_wins(write: Callable[[str], Path]) -> None:
    path = write("size = 3\npreset = 'paper-cifar'\n[rank.1]\nbatch_size = 8\nhead_epochs = 2")
    for settings in (load(path, {}), load(path, {"preset": "paper-cifar-pathological"})):
        assert [settings.of_rank(rank).batch_size for rank in range(3)] == [128, 8, 128]
        assert settings.of_rank(1).head_epochs == 2
        assert settings.of_rank(1).body_lr == 0.1
    assert [load(path, {"batch_size": 4}).of_rank(rank).batch_size for rank in range(3)] == [4, 4, 4]


def test_a_rank_has_the_same_settings_in_a_process_of_its_own(write: Callable[[str], Path]) -> None:
    """`dpeer cluster` hands over what was set, and the preset's name with it."""
    path = write("size = 3\npreset = 'paper-cifar'\nlr_decay = 1.0\n[rank.1]\nbatch_size = 8")
    own = load(path, {}).of_rank(1)
    there = Settings.model_validate(own.model_dump(exclude_unset=True))
    assert there.model_dump(exclude={"rank"}) == own.model_dump(exclude={"rank"})
    assert there.model_fields_set == own.model_fields_set


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
        assert raised.value.nearest == "paper-cifar"
        assert raised.value.exit_code == 2


@pytest.mark.parametrize("command", [("simulate",), ("cluster",), ("start", "--rank", 0)], ids=lambda c: c[0])
def test_an_unknown_one_is_one_line_before_anything_is_started(
    command: tuple[object, ...], dpeer: Command, tmp_path: Path
) -> None:
    ended = dpeer(*command, "--preset", "paper-dispf")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines() == [
        f"dpeer: unknown preset 'paper-dispf': did you mean 'paper-dispfl'? valid: {', '.join(PRESETS)}"
    ]
    assert not (tmp_path / "dpeer-run").exists()
