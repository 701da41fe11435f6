"""Options: what is taken, what is refused and how, and which of them peers compare."""

from dataclasses import dataclass
from typing import Literal

import pytest

from dpeer.exceptions import AlgorithmError
from dpeer.sections import Mark
from dpeer.training import (
    ALGORITHMS,
    Algorithm,
    Trainer,
    find_algorithm,
    make_options,
    option,
    options_among,
    shared_options,
)
from dpeer.training.algorithms.options import about_options
from dpeer.training.settings import OptionSettings


class Mine(Algorithm):
    """Mine."""

    shares = "body"

    @dataclass(frozen=True)
    class Options:
        mu: float = option(0.1, "a pull", ge=0, lt=10)
        k: int = 3
        kind: Literal["near", "far"] = "near"
        on: bool = False
        own: int = option(1, "a peer's own", shared=False, ge=1)
        many: tuple[int, ...] = option(lambda: (1, 2), "some numbers")

        def __post_init__(self) -> None:
            if self.k == 13:
                raise ValueError("k must not be 13")

    def train(self, peer: Trainer) -> None:
        """Nothing."""


def test_defaults_and_values() -> None:
    assert make_options(Mine, {}) == Mine.Options() == Mine().options
    made = make_options(Mine, {"mu": 2, "kind": "far", "own": 4})
    assert made == Mine.Options(mu=2.0, kind="far", own=4)
    assert type(made.mu) is float, "a whole number will do for a float, and becomes one"


def test_what_peers_compare_are_the_shared_ones_as_plain_values() -> None:
    assert shared_options(make_options(Mine, {"k": 5})) == {
        "mu": 0.1, "k": 5, "kind": "near", "on": False, "many": [1, 2],
    }  # fmt: skip
    assert about_options(Mine)["own"].mark is Mark.OWN
    assert about_options(Mine)["k"].mark is Mark.SHARED
    assert shared_options(find_algorithm("fedbabu")().options) == {}
    assert shared_options(find_algorithm("dfedsmdc")().options) == {"rho": 0.05, "sam": "body"}


WITHOUT_FLAG = {
    "fedrod": {"personal", "hidden"},
    "fedavg-ls": {"smoothing"},
    "fedopt": {"server_optimizer", "server_lr", "tau", "beta1", "beta2"},
    "fafed": {"corrected", "alpha", "beta2", "floor"},
    "fedlada": {"alpha", "beta2", "floor"},
    "fedadamw": {"aggregate", "blocks", "correct", "floor", "gamma"},
}


def test_built_in_options_that_have_a_flag_are_the_settings_of_that_name() -> None:
    stated = set()
    defaults = OptionSettings().model_dump()
    for algorithm in ALGORITHMS.values():
        for name, about in about_options(algorithm).items():
            if not about.has_flag:
                assert name in WITHOUT_FLAG[algorithm.name]
                assert about.words
                continue
            stated.add(name)
            assert getattr(algorithm().options, name) == defaults[name]
            assert about.words == OptionSettings.model_fields[name].description
    assert stated == set(OptionSettings.model_fields)
    beyond = {"rho": -0.1, "sparsity": 1.0, "prune_rate": 1.5, "ditto_lambda": -1, "finetune_epochs": 0}
    for name, bad in beyond.items():
        algorithm = next(a for a in ALGORITHMS.values() if name in about_options(a))
        with pytest.raises(AlgorithmError):
            make_options(algorithm, {name: bad})


def test_of_all_settings_those_that_are_its_options() -> None:
    values = OptionSettings().model_dump() | {"body_lr": 1.0}
    assert options_among(find_algorithm("dfedsam"), values) == {"rho": 0.05}
    assert options_among(find_algorithm("dfedavgm"), values) == {}
    assert find_algorithm("dfedsmdc").settings() == ("head_lr", "head_epochs", "rho", "sam")


def test_a_name_alone_does_not_make_an_option_a_setting() -> None:
    class Named(Mine):
        @dataclass(frozen=True)
        class Options:
            rho: float = 0.7
            size: int = 1

    assert options_among(Named, OptionSettings().model_dump() | {"size": 8}) == {}
    assert Named.settings() == ()
    assert list(about_options(Named)) == ["rho", "size"]
