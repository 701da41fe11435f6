"""The files in examples/papers: each can be run, and asks for the values that its paper prints."""

import itertools
import math
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dpeer.experiments.cells import Cell, make_cell
from dpeer.experiments.experiment import Experiment, load
from dpeer.federation.config import resolve
from dpeer.federation.presets import PRESETS
from dpeer.federation.settings import aside
from dpeer.sections import names
from dpeer.topology import Isolated, Participation
from dpeer.topology.settings import GraphSettings
from dpeer.training import ALGORITHMS, find_algorithm

ROOT = Path(__file__).parents[2]
PAPERS = ROOT / "examples" / "papers"
FILES = {path.relative_to(PAPERS).with_suffix("").as_posix(): path for path in sorted(PAPERS.rglob("*.toml"))}
ADAMW = [name.removeprefix("dp-fedadamw/") for name in FILES if name.startswith("dp-fedadamw/")]
HOOKS = ("train", "mixed", "extras", "start", "predictor")
OF_SOME = {name for algorithm in ALGORITHMS.values() for name in algorithm.uses}
"""Settings that mean something to some algorithms only."""

NUMBER = r"([\d,]+(?:\.\d+)?)"


def opened(name: str, **flags: Any) -> Experiment:
    options = {"data": "here", **flags.pop("task_options", {})}
    return load(FILES[name], {"task_options": options, **flags}, {})


def cells(found: Experiment) -> Iterator[tuple[str, list[Cell]]]:
    """The first repetition: tables, and the run of each of their rows."""
    for condition in found.conditions:
        yield condition.label, [make_cell(found.base, row, condition, 0, Path("out")) for row in found.variants]


def used(cell: Cell) -> SimpleNamespace:
    """The settings that a run uses."""
    return SimpleNamespace(**resolve(cell.settings, 0).values())


def runs(found: Experiment) -> list[tuple[Cell, SimpleNamespace]]:
    """The same, as one list with the settings that they use."""
    return [(cell, used(cell)) for _, table in cells(found) for cell in table]


def header(name: str) -> str:
    """A file's text in one line, without comment signs."""
    return " ".join(FILES[name].read_text().replace("\n#", "").split())


def stated(name: str, pattern: str) -> list[float]:
    """The numbers in a sentence of the header."""
    found = re.search(pattern, header(name))
    assert found is not None, f"{name} does not state {pattern}"
    return [float(number.replace(",", "")) for number in found.groups()]


def effective(cell: Cell) -> dict[str, Any]:
    """What decides about a run's results: its algorithm's code, and all settings that mean anything to it."""
    settings, algorithm = used(cell), find_algorithm(cell.settings.algorithm)
    nothing = {*aside(), "algorithm", "preset", "seed", *(OF_SOME - {*algorithm.uses})}
    if cell.variant.alone:
        nothing |= {*names(GraphSettings)} - {"size"}
    if settings.topology == "full":
        nothing |= {"weights"}  # those of metropolis are uniform there
    hooks = {f"{name}()": getattr(algorithm, name) for name in HOOKS}
    return {name: value for name, value in vars(settings).items() if name not in nothing} | hooks


def differing(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


FULL_ROUNDS: dict[str, Callable[[str], int]] = {
    "dfedmdc": lambda name: 200 if "figure-4" in name else 300 if "tables-6" in name else 500,
    "dp-fedsam": lambda name: 200 if re.search("emnist|figure-5", name) else 300,
    "dp2-fedsam": lambda name: 200,
    "dp-fedadamw": lambda name: 300 if "resnet" in name else 100,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_it_can_be_run_and_no_two_rows_are_the_same_run(name: str) -> None:
    """FedRep with one head epoch would be DFedMDC, as would DFedSMDC with radius 0."""
    found = opened(name)
    assert found.baseline == ("local" if name.startswith("dfedmdc/") else None)
    assert len(found.seeds) >= 3
    for label, table in cells(found):
        for cell in table:
            settings = used(cell)
            assert (settings.task_options["data"], settings.device, settings.grad_clip) == ("here", "auto", None)
            assert settings.rounds == FULL_ROUNDS[name.split("/")[0]](name)
            assert settings.rho > 0, "SAM of radius 0 is none"
            assert settings.sparsify is None or not settings.sparsify.endswith((":1", ":1.0"))
        whole = [(cell.variant.label, effective(cell)) for cell in table]
        for (one, own), (other, another) in itertools.combinations(whole, 2):
            assert differing(own, another), (label, one, other)


@pytest.mark.parametrize("name", FILES)
def test_its_header_has_the_command_and_the_documentation_its_name(name: str) -> None:
    text = FILES[name].read_text()
    assert f"dpeer compare examples/papers/{name}.toml --task-option data=DIR --out " in text
    assert "has not been run" in text
    assert "Not as in the paper" in text
    assert max(len(line) for line in text.splitlines() if "dpeer compare" not in line) <= 120
    assert f"]({name}.toml)" in (ROOT / "examples" / "papers" / "README.md").read_text()


D1, D3, FEW = "dirichlet-equal:0.1", "dirichlet-equal:0.3", "pathological-sampled"


ROWS = [
    ("dp-fedavg-sample", "table-2-resnet18", "fedavg"), ("dp-scaffold", "table-2-resnet18", "scaffold"),
    ("dp-fedavg-ls", "table-2-resnet18", "fedavg-ls"), ("dp-fedsam-sample", "table-2-resnet18", "fedsam"),
    ("dp-localadamw", "table-2-resnet18", "localadamw"), ("dp-fedadamw", "table-2-resnet18", "fedadamw"),
    ("dp-localadamw-transformer", "table-3", "localadamw"), ("dp-fedadamw-transformer", "table-3", "fedadamw"),
    ("dp-fedopt", "table-9", "fedopt"), ("dp-fafed", "table-9", "fafed"), ("dp-fedlada", "table-9", "fedlada"),
    ("dp-fedadamw-transformer", "table-9", "fedadamw"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "name", "row"), ROWS)
def test_a_preset_and_its_row_are_one_experiment(preset: str, name: str, row: str) -> None:
    """Both have every value of the preset; the head's rate has no use where all is shared."""
    every = runs(opened(f"dp-fedadamw/{name}"))
    found = next(s for cell, s in every if re.sub(":body-lr.*", "", cell.variant.label) == row)
    expected = {key: value for key, value in PRESETS[preset].values.items() if key != "head_lr"}
    assert {key: getattr(found, key) for key in expected} == expected
    for flag in ("--lora r=16,alpha=32", "--init-from", "--participation-mode server"):
        assert flag in PRESETS[preset].remark, "which no value of a preset has"


def often(rounds: int, share: float) -> int:
    """In how many rounds the peer trains that is drawn most often of 50 with seed 0."""
    drawn = Participation(Isolated(50), share, 0)
    return max(sum(rank in drawn.participants(number) for number in range(rounds)) for rank in range(50))


@lru_cache
def epsilon(batch: int, records: int, noise: float, steps: int, delta: float = 1e-5) -> float:
    """Epsilon by Google's library, of steps that draw each record with probability batch / records."""
    dp = pytest.importorskip("dp_accounting")
    from dp_accounting import pld

    accountant = pld.PLDAccountant(value_discretization_interval=5e-4 if records < 10_000 else 1e-4)
    accountant.compose(dp.PoissonSampledDpEvent(batch / records, dp.GaussianDpEvent(noise)), steps)
    return float(accountant.get_epsilon(delta))


SHORT = math.sqrt(0.5)
"""Two gradients of one batch cost as much as one with so much of the noise."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table-3", "table-9"])
def test_the_headers_have_the_epsilon_of_the_paper_s_noise(name: str) -> None:
    batch, file = 50 if "resnet" in name else 16, f"dp-fedadamw/{name}"
    some, spent, most, more = stated(
        file,
        f"{NUMBER} such steps come to epsilon {NUMBER} at delta 1e-5 \\(with seed 0, {NUMBER} steps of the peer that "
        f"is drawn most often: {NUMBER}\\)",
    )
    rounds, share, local = (300, 0.2, 50) if batch == 50 else (100, 0.1, 20)
    assert some == rounds * share * local, "those that a client of Table 15 takes on average"
    assert most == local * often(rounds, share)
    assert spent == pytest.approx(epsilon(batch, 1000, 1.0, round(some)), rel=5e-3)
    assert more == pytest.approx(epsilon(batch, 1000, 1.0, round(most)), rel=5e-3)
    if "--task tiny-imagenet" in FILES[file].read_text():
        (tiny,) = stated(file, f"2,000 records, and the average comes to {NUMBER}\\.(?: |$)")
        assert tiny == pytest.approx(epsilon(16, 2000, 1.0, 200, 1e-6), rel=2e-3)
    if name < "table-4":
        (twice,) = stated(file, f"twice the budget: {some:,.0f} steps come to {NUMBER}(?:\\.| \\()")
        assert twice == pytest.approx(epsilon(batch, 1000, SHORT, round(some)), rel=2e-3)
    if name == "table-3":
        (tiny,) = stated(file, f"\\(Tiny-ImageNet: {NUMBER}\\)")
        assert tiny == pytest.approx(epsilon(16, 2000, SHORT, 200, 1e-6), rel=2e-3)
    if name == "table-9":
        (spent,) = stated(file, f"spends more than the others \\({NUMBER}\\)")
        assert spent == pytest.approx(epsilon(16, 1000, SHORT, 200), rel=2e-3)
