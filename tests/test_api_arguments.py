"""What the functions of the Python API refuse."""

from collections.abc import Callable
from pathlib import Path

import pytest

import dpeer
from dpeer.exceptions import ConfigurationError, UnknownName
from tests.error_texts import refused

OWN = dpeer.Settings(task=lambda rank, size, seed: None)


@pytest.mark.parametrize(
    ("call", "fragment"),
    [
        (lambda: dpeer.run(5), "settings = 5"),
        (lambda: dpeer.run(mode="fast"), "mode = 'fast'"),
        (lambda: dpeer.run(OWN, mode="cluster"), "task '<lambda>' cannot be imported"),
        (lambda: dpeer.open_run("nowhere"), "'nowhere' holds no run"),
        (lambda: dpeer.Run(Path("run")).metrics(7), "rank 7: 'run' holds no peer of that rank"),
        (lambda: dpeer.Run(Path("run")).model(7), "rank 7: 'run/rank-7/model.safetensors' is missing"),
    ],
)
def test_an_argument_that_cannot_be_used_is_named(call: Callable[[], object], fragment: str, in_tmp_path: Path) -> None:
    with refused(ConfigurationError, fragment):
        call()


def test_a_name_that_is_not_there_is_refused_as_any_module_does() -> None:
    with pytest.raises(AttributeError, match="'dpeer' has no attribute 'nothing'"):
        _ = dpeer.nothing
    with refused(UnknownName, "unknown topology 'rnig'"):
        dpeer.run(dpeer.Settings(topology="rnig"))
