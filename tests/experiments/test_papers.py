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
from dpeer.privacy import PeerData, SampleTerms
from dpeer.sections import names
from dpeer.topology import Isolated, Participation, ServerSampling, take_part
from dpeer.topology.settings import GraphSettings, build_graph
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


SERVER = ("fedavg", "fedsam", "fedper", "fedrep", "fedbabu", "fedrod", "ditto")
PEERS = ("dfedavgm", "dis-pfl", "dfedsam", "dfedmdc", "dfedsmdc")
D1, D3, FEW = "dirichlet-equal:0.1", "dirichlet-equal:0.3", "pathological-sampled"
MAIN = {
    "dfedmdc/tables-2-and-3-cifar10": ([D1, D3, f"{FEW}:2", f"{FEW}:5"], 500),
    "dfedmdc/tables-2-and-3-cifar100": ([D1, D3, f"{FEW}:5", f"{FEW}:10"], 500),
    "dfedmdc/tables-6-and-7": ([D1, D3, f"{FEW}:10", f"{FEW}:20"], 300),
}
"""Divisions and rounds."""


@pytest.mark.parametrize("name", MAIN)
def test_all_methods_train_as_the_dfedmdc_paper_prints(name: str) -> None:
    found, (divisions, rounds) = opened(name), MAIN[name]
    assert [one.values["partition"] for one in found.conditions] == divisions
    assert {row.algorithm for row in found.variants} == {"local", *SERVER, *PEERS}
    for cell, s in runs(found):
        method, sampled = cell.variant.algorithm, "pathological" in str(s.partition)
        assert (s.size, s.rounds, s.batch_size, s.model) == (100, rounds, 128, "resnet18-gn")
        assert (s.body_lr, s.lr_decay, s.momentum, s.weight_decay) == (0.1, 0.995, 0.9, 0.0)
        assert (s.body_epochs, s.rho) == (5, 0.7)
        assert s.head_lr == (0.001 if method in ("dfedmdc", "dfedsmdc") else 0.1)
        assert s.head_epochs == (10 if method == "fedrep" else 5 if sampled else 1)
        graph = ("full", "uniform") if method in SERVER else ("random-regular:10", "metropolis")
        assert method == "local" or (s.topology, s.weights, s.participation) == (*graph, 1.0)


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("dp-fedsam/")])
def test_each_peer_adds_the_noise_of_a_client_of_dp_fedsam(name: str) -> None:
    for cell, s in runs(opened(name)):
        assert s.noise_multiplier == pytest.approx(0.95 / math.sqrt(s.size / 10), abs=5e-5)
        assert (s.privacy, s.clip_norm) == ("client", 0.2)
        assert (s.participation, s.participation_mode) == (0.1, "server")
        # The mean of the sample has the noise that the paper's server adds: sigma C / m.
        drawn = take_part(build_graph(s), s.participation, s.participation_mode, s.seed)
        assert isinstance(drawn, ServerSampling)
        assert s.noise_multiplier / math.sqrt(drawn.count) == pytest.approx(0.95 / drawn.count, rel=1e-3)
        assert (s.body_lr, s.lr_decay, s.momentum, s.topology, s.weights) == (0.1, 0.9995, 0.5, "full", "uniform")
        emnist = s.task == "emnist"
        assert (s.batch_size, s.model) == ((32, "fedavg-cnn") if emnist else (50, "resnet18-gn"))
        assert s.body_epochs == cell.variant.changes.get("body_epochs", 30)
        assert s.rho == cell.variant.changes.get("rho", 0.5)


def test_the_budgets_of_dp_fedsams_table_2_are_used_up_after_so_many_rounds() -> None:
    dp = pytest.importorskip("dp_accounting")
    from dp_accounting import rdp

    def spent(rounds: float) -> float:
        accountant = rdp.RdpAccountant([2 + n / 10 for n in range(150)])
        accountant.compose(dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(0.95)), int(rounds))
        return float(accountant.get_epsilon(1 / 500))

    name, four = "dp-fedsam/tables-1-and-2-cifar", r"(\d+), (\d+), (\d+) and (\d+)"
    numbers = stated(name, f"epsilon {four} .* after {four} rounds")
    for budget, rounds in zip(numbers[:4], numbers[4:], strict=True):
        assert spent(rounds) <= budget < spent(rounds + 1)
    assert f"epsilon is {spent(300):.1f} at the end" in header(name)


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("dp2-fedsam/")])
def test_each_peer_adds_the_noise_of_a_client_of_dp2_fedsam(name: str) -> None:
    lines = FILES[name].read_text().splitlines()
    budgets = [float(line.partition("# epsilon ")[2]) for line in lines if "},  # epsilon " in line] or [1.0]
    for budget, (_, table) in zip(budgets, cells(opened(name)), strict=True):
        for cell in table:
            s = used(cell)
            sigma = math.sqrt(7 * 0.05**2 * 200 * (budget + 2 * math.log(s.size))) / budget
            assert s.noise_multiplier == pytest.approx(sigma / math.sqrt(0.05 * s.size), abs=5e-5)
            cifar = s.task == "cifar10"
            assert (s.clip_norm, s.momentum, s.model) == ((0.1, 0.7, "dp-cnn") if cifar else (0.2, 0.3, "resnet18-gn"))
            assert s.rho == cell.variant.changes.get("rho", 0.1 if cifar else 0.5)
            assert (s.body_lr, s.head_lr, s.lr_decay, s.head_epochs) == (0.1, 0.005, 0.99, 2)
            assert s.body_epochs == cell.variant.changes.get("body_epochs", 2)
            assert s.privacy == "client"
            assert (s.participation, s.participation_mode) == (0.05, "server")


@pytest.mark.slow
@pytest.mark.parametrize("name", ADAMW)
def test_every_row_trains_as_the_dp_fedadamw_paper_prints(name: str) -> None:
    resnet, text = "resnet" in name, name == "table-4"
    found = opened(f"dp-fedadamw/{name}")
    assert [*found.seeds] == [0, 1, 2, 3, 4], "section 7.1"
    for cell, s in runs(found):
        # Tables 15 and 16.
        assert (s.size, s.rounds, s.local_steps) == (4 if text else 50, 300 if resnet else 100, 50 if resnet else 20)
        assert (s.batch_size, s.delta) == (50 if resnet else 16, 1e-5)
        assert str(s.lora).startswith("r=16,alpha=32")
        # Tables 12 and 13: the training records, and how many a peer has.
        assert s.records == (67_349 // 4 if text else 50_000 // 50)
        terms = SampleTerms(resolve(cell.settings, 0).protected, Path(), PeerData(records=999))
        assert terms.rate == s.batch_size / s.records
        # Section 9.4.
        assert (s.privacy, s.clip_norm, s.lr_schedule, s.grad_clip, s.finish) == ("sample", 0.1, "cosine", None, "none")
        # Table 17, and for rows with Adam of another kind what it has for AdamW.
        plain = cell.variant.algorithm in ("fedavg", "scaffold", "fedavg-ls", "fedsam", "fedopt")
        assert (s.body_lr, s.weight_decay, s.momentum) == ((0.1, 0.001, 0.0) if plain else (3e-4, 0.01, 0.9))
        assert (s.optimizer == "adamw") == (cell.variant.algorithm in ("localadamw", "fedadamw"))
        assert cell.variant.algorithm != "fedsam" or s.rho in (0.01, 0.05, 0.1, 0.5)
        # All is shared, and those are averaged that Tables 15 and 16 have a server sample.
        assert (s.head, s.topology, s.weights) == ("", "full", "uniform")
        assert s.participation == (1.0 if text else 0.2 if resnet else 0.1)
        assert s.participation_mode == ("peers" if text else "server")
        if name == "table-9":
            looks = 2 if cell.variant.label.startswith("fafed") and "corrected=false" not in cell.variant.label else 1
            assert s.noise_multiplier is not None
            assert cell.variant.label == "fafed" or s.noise_multiplier == pytest.approx(math.sqrt(looks), abs=1e-4)


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


TINY_IMAGENET = {"task": "tiny-imagenet", "records": 2000, "delta": 1e-6}
"""The flags of the headers: its 100,000 images, and Table 15."""

FLAGS: list[tuple[str, dict[str, Any]]] = [
    ("table-2-resnet18", {"task": "cifar100"}), ("table-2-vit-base", {"task": "cifar100"}),
    ("table-3", {"model": "swin-tiny"}), ("table-3", TINY_IMAGENET), ("table-5", {"task": "cifar100"}),
    *((f"table-{number}", TINY_IMAGENET) for number in (5, 6, 7, 8, 9)),
    ("table-4", {"task_options": {"name": "qqp"}, "records": 363_846 // 4, "delta": 1e-6}),
    ("table-4", {"task_options": {"name": "qnli"}, "records": 104_743 // 4}),
    ("table-4", {"task_options": {"name": "mnli"}, "records": 392_702 // 4, "delta": 1e-6}),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "flags"), FLAGS)
def test_flags_make_the_other_half_of_a_table(name: str, flags: dict[str, Any]) -> None:
    """Those of the header, with the records of Tables 12 and 13 and the deltas of Tables 15 and 16."""
    plain = {key: value for key, value in flags.items() if key != "task_options"}
    typed = [f"--{key} {value:g}" if key == "delta" else f"--{key} {value}" for key, value in plain.items()]
    typed = [f"--task-option name={flags['task_options']['name']}", *typed] if "task_options" in flags else typed
    assert " ".join(typed).replace("1e-06", "1e-6") in header(f"dp-fedadamw/{name}")
    for _, s in runs(opened(f"dp-fedadamw/{name}", **flags)):
        assert {key: getattr(s, key) for key in plain} == plain
        assert s.task_options == {**s.task_options, "data": "here", **flags.get("task_options", {})}


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
@pytest.mark.parametrize("name", [name for name in ADAMW if name not in ("table-4", "table-5")])
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


@pytest.mark.slow
def test_the_headers_have_the_epsilons_on_text_and_the_noise_of_budgets() -> None:
    text, budgets = "dp-fedadamw/table-4", "dp-fedadamw/table-5"
    spent = stated(text, f"epsilon {NUMBER} on SST-2, {NUMBER} on QQP, {NUMBER} on QNLI and {NUMBER} on MNLI")
    each = [(16_837, 1e-5), (90_961, 1e-6), (26_185, 1e-5), (98_175, 1e-6)]
    assert spent == pytest.approx([epsilon(16, count, 1.0, 2000, delta) for count, delta in each], abs=5e-4)
    (twice,) = stated(text, f"they come to {NUMBER} on SST-2")
    assert twice == pytest.approx(epsilon(16, 16_837, SHORT, 2000), rel=2e-3)
    steps, *noises = stated(budgets, f"{NUMBER} of them with seed 0; .* sigma is {NUMBER}, {NUMBER} and {NUMBER} there")
    assert steps == 20 * often(100, 0.1)
    for budget, noise in enumerate(noises, 1):
        assert epsilon(16, 1000, noise, 360) <= budget < epsilon(16, 1000, round(noise - 0.01, 2), 360)
