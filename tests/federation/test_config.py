"""Settings from a federation file and from flags; defaults, and the model that is kept."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import ConfigurationError, UnknownName
from dpeer.federation.build import PeerParts, build
from dpeer.federation.checks import check_settings
from dpeer.federation.config import VALIDATION, from_flags, load, parse_option, resolve
from dpeer.federation.settings import Settings, default_of, revalidated
from dpeer.topology.settings import build_graph
from dpeer.training import Hyperparameters

Write = Callable[..., Path]


@pytest.fixture
def write(in_tmp_path: Path) -> Write:
    def make(text: str, name: str = "federation.toml") -> Path:
        path = in_tmp_path / name
        path.write_text(text)
        return path

    return make


def complaint(file: Path | None, flags: dict[str, Any] | None = None) -> str:
    with pytest.raises(ConfigurationError) as raised:
        load(file, flags or {})
    assert raised.value.exit_code == 2
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "key", "nearest"),
    [
        ("topolgy = 'ring'", "topolgy", "topology"),
        ("body-lr = 0.1", "body-lr", "body_lr"),
        ("size = 4\n[ranks.3]\nbind = 'tcp://127.0.0.1:1'", "ranks", "rank"),
        ("[rank.3]\nadress = 'tcp://127.0.0.1:1'", "'adress' in [rank.3] of", "address"),
        ("[rank.3]\nbnd = 'tcp://127.0.0.1:1'", "'bnd' in [rank.3] of", "bind"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_name(text: str, key: str, nearest: str, write: Write) -> None:
    path = write(text)
    with pytest.raises(UnknownName) as raised:
        load(path, {})
    assert str(path) in str(raised.value)
    assert key in str(raised.value)
    assert f"did you mean {nearest!r}?" in str(raised.value)


def test_flags_win_over_the_file_and_over_what_it_says_of_a_rank(write: Write) -> None:
    path = write("size = 4\nrounds = 7\nbatch_size = 8\n[rank.1]\nbatch_size = 2\nbody_epochs = 3")
    settings = load(path, {"rounds": 9, "batch_size": 16, "seed": None})
    assert (settings.size, settings.rounds, settings.seed) == (4, 9, 0)
    assert [settings.of_rank(rank).batch_size for rank in range(4)] == [16] * 4
    assert [settings.of_rank(rank).body_epochs for rank in range(4)] == [5, 3, 5, 5]
    unchanged = load(path, {})
    assert [unchanged.of_rank(rank).batch_size for rank in range(4)] == [8, 2, 8, 8]
    assert unchanged.rounds == 7


def test_dpeer_toml_is_used_when_it_exists_and_no_file_is_named(write: Write) -> None:
    assert load(None, {}).size == 8
    write("size = 5", "dpeer.toml")
    other = write("size = 6")
    assert load(None, {}).size == 5
    assert load(other, {}).size == 6
    write("sze = 5", "dpeer.toml")
    assert "key 'sze' in dpeer.toml" in complaint(None)


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("n=3", "n", 3),
        ("x=0.5", "x", 0.5),
        ("on=true", "on", True),
        ("sites=[1, 2]", "sites", [1, 2]),
        ("name='a b'", "name", "a b"),
        ("data=/path/to/data", "data", "/path/to/data"),
        ("query=a=b", "query", "a=b"),
        ("empty=", "empty", ""),
        ("two=1\nthree=2", "two", "1\nthree=2"),
    ],
)
def test_task_options_are_toml_values_where_they_can_be_and_else_strings(text: str, key: str, value: object) -> None:
    assert parse_option(text) == (key, value)
    assert type(parse_option(text)[1]) is type(value)


def test_task_options_of_a_rank_go_over_the_common_ones_and_flags_over_both(write: Write) -> None:
    path = write(
        "[task_options]\ndata = 'everywhere'\nnoise = 1\n[rank.3.task_options]\ndata = 'here'\nextra = 2\n"
        "[rank.4]\nbatch_size = 4"
    )
    settings = load(path, {"task_options": {}})
    common = {"data": "everywhere", "noise": 1}
    assert settings.of_rank(0).task_options == settings.of_rank(4).task_options == common
    assert settings.of_rank(3).task_options == {"data": "here", "noise": 1, "extra": 2}

    settings = load(path, {"task_options": {"noise": 5, "data": "flag"}})
    assert settings.of_rank(0).task_options == {"data": "flag", "noise": 5}
    assert settings.of_rank(3).task_options == {"data": "flag", "noise": 5, "extra": 2}


def test_the_size_is_that_of_a_graph_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "graph.txt").write_text("0 1\n1 2\n")
    topology = f"file:{tmp_path / 'graph.txt'}"
    assert Settings(topology=topology).size == 3
    assert Settings(topology=topology, size=4).size == 4


def test_adamw_brings_rates_of_its_own_unless_they_are_given() -> None:
    used = resolve(Settings(optimizer="adamw"), 0).training
    assert (used.body_lr, used.head_lr) == (0.001, 0.001)
    used = resolve(Settings(optimizer="adamw", body_lr=0.01), 0).training
    assert (used.body_lr, used.head_lr) == (0.01, 0.001)
    used = resolve(Settings(), 0).training
    assert (used.body_lr, used.head_lr) == (default_of("body_lr"), default_of("head_lr"))


def test_clipping_is_switched_off_by_zero_in_a_file_or_flag() -> None:
    assert from_flags({"grad_clip": 0.0}).grad_clip is None
    assert Settings(grad_clip=0).grad_clip is None
    assert Settings(grad_clip=None).grad_clip is None
    assert Hyperparameters(grad_clip=0).grad_clip is None
    assert Settings(grad_clip=10).grad_clip == 10.0
    with pytest.raises(ConfigurationError):
        from_flags({"grad_clip": -1.0})


PRIVATE = {"privacy": "client", "noise_multiplier": 2.0}

OWN = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.training import Task


def task(rank, size, seed, samples=200, brings=False):
    data = TensorDataset(torch.randn(samples, 4, generator=torch.Generator().manual_seed(rank)),
                         torch.arange(samples) % 2)
    model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2))
    return Task(model=model, head=("1",), train=data, test=data, validation=data if brings else None)
"""


@pytest.mark.parametrize(
    ("given", "keep", "validation"),
    [
        ({}, "best", VALIDATION),
        ({"keep": "best"}, "best", VALIDATION),
        ({"keep": "last"}, "last", 0.0),
        ({"keep": "last", "validation": 0.3}, "last", 0.3),
        ({"validation": 0.3}, "best", 0.3),
        ({"validation": 0.0}, "last", 0.0),
        (PRIVATE, "last", 0.0),
        ({"privacy": "sample", "noise_multiplier": 2.0}, "last", 0.0),
        ({"preset": "paper-cifar"}, "last", 0.0),
        ({"preset": "paper-cifar", "keep": "best", "validation": 0.1}, "best", 0.1),
        # What figures are of has not chosen the model.
        ({"evaluate_on": "validation", "validation": 0.2}, "last", 0.2),
    ],
)
def test_the_best_model_is_kept_where_nothing_speaks_against_it(
    given: dict[str, Any], keep: str, validation: float
) -> None:
    found = resolve(Settings(**given), 0)
    assert (found.run.keep, found.data.validation) == (keep, validation)


def made(tmp_path: Path, **values: Any) -> PeerParts:
    (tmp_path / "own.py").write_text(OWN)
    if values.pop("own", False):
        values["task"] = f"{tmp_path / 'own.py'}:task"
    return build(resolve(Settings(**{"size": 4, "rounds": 2, "out": tmp_path / "run", **values}), 1))


def message(parts: PeerParts) -> list[str]:
    return [line for line in parts.notes if "is kept" in line]


@pytest.mark.slow
@pytest.mark.parametrize("own", [True, False])
def test_training_samples_are_held_out_of_every_task(own: bool, tmp_path: Path) -> None:
    plain, parts = made(tmp_path, own=own, keep="last"), made(tmp_path, own=own)
    whole, held = plain.learner.about.samples, len(parts.learner.trainer.task.validation)
    assert parts.learner.about.samples == whole - held
    assert held == pytest.approx(VALIDATION * whole, rel=0.3)
    assert message(plain) == []
    assert message(parts) == [
        f"the model with the least loss on validation data is kept: {held} samples, held out of {whole} for training "
        "(--keep last trains on all of them)"
    ]
    assert (parts.facts["settings"]["keep"], parts.facts["settings"]["validation"]) == ("best", VALIDATION)
    # Peers need not agree on it.
    assert parts.fingerprint == plain.fingerprint


@pytest.mark.slow
def test_validation_data_that_a_task_brings_choose_and_nothing_else_is_held_out(tmp_path: Path) -> None:
    own: dict[str, Any] = {"own": True, "task_options": {"brings": True}}
    parts = made(tmp_path, **own)
    assert parts.learner.about.samples == 200
    assert message(parts) == [
        "the model with the least loss on validation data is kept: 200 samples, that the task brings"
    ]
    assert (parts.facts["settings"]["keep"], parts.facts["settings"]["validation"]) == ("best", 0.0)
    with pytest.raises(ConfigurationError):
        made(tmp_path, **own, validation=0.2)


def declaring(*weights: object, top: str = 'size = 3\nweights = "declared"\n') -> str:
    return top + "".join(f"[rank.{rank}]\nweight = {one}\n" for rank, one in enumerate(weights) if one != "")


def test_the_weights_of_all_ranks_are_one_value(write: Write) -> None:
    settings = load(write(declaring(400, 20, 30.5)), {})
    assert settings.weights == "declared:400,20,30.5"
    assert [settings.of_rank(rank).weights for rank in range(3)] == ["declared:400,20,30.5"] * 3
    assert build_graph(settings).declared == (400.0, 20.0, 30.5)
    assert resolve(settings, 1).topology == build_graph(settings)
    assert "weight" not in resolve(settings, 1).plain()
    assert revalidated(settings).weights == settings.weights
    assert revalidated(settings.model_copy(update={"rank": {}})).weights == settings.weights
    # The flag names the rule, and the file has the numbers.
    file = write(declaring(1, 2, 3, top="size = 3\n"))
    assert load(file, {"weights": "declared"}).weights == load(file, {"weights": "declared:1,2,3"}).weights


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(
            (declaring(4, weight, 1), f"rank.1.weight in federation.toml = {shown}: expected a number above 0: rows, "
             "patients or votes, such as 400")
            for weight, shown in (("0", "0"), ("-2.5", "-2.5"), ("nan", "nan"), ("inf", "inf"), ("'many'", "'many'"),
                                  ("true", "True"))
        ),
        (declaring(4, "", 1), 'rank.1.weight is missing: weights = "declared" needs one of each rank'),
        (declaring(4, 1, 1, 9), "rank.3: ranks of a federation of size 3 are 0..2"),
        (
            declaring(4, 1, 1, 9, top=f"size = 3\nweights = 'declared'\noperators = ['{'ab' * 32}']\nname = 'one'\n"),
            "rank.3.weight: the member list that adds the rank has its weight (dpeer members add --weight): leave it "
            "out",
        ),
        (
            declaring(4, 1, 1, top="size = 3\n"),
            "rank.0.weight = 4: weights = 'metropolis' does not use it: give weights = \"declared\", or leave it out",
        ),
        (
            declaring(4, 1, 1, top="size = 3\nweights = 'declared:4,1,2'\n"),
            "weights = 'declared:4,1,2': [rank.N] has 'declared:4,1,1': give one of the two",
        ),
        (
            declaring(4, 1, 1, top="weights = 'declared'\n"),
            "size is missing in federation.toml, which has entries for ranks 0, 1, 2: add size = N",
        ),
    ],
)  # fmt: skip
def test_weights_that_are_wrong_or_not_used_are_refused(text: str, message: str, write: Write) -> None:
    write(text)
    assert complaint(Path("federation.toml")) == message


def test_robust_rules_do_not_go_with_declared_weights(write: Write) -> None:
    settings = load(write(declaring(4, 1, 1)), {"robust": "clip:1"})
    with pytest.raises(ConfigurationError, match=r"--robust clip:1 with weights declared: .*leave one of the two out"):
        check_settings(resolve(settings, 0))
