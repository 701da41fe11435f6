"""The files in examples/papers: each can be run as it is and small, and asks what its paper prints."""

import itertools
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dpeer.experiments.cells import Cell, make_cell
from dpeer.experiments.experiment import Experiment, load
from dpeer.federation.config import resolve, with_defaults
from dpeer.federation.privacy import privacy_config
from dpeer.federation.settings import aside
from dpeer.privacy.plan import noise_over_drift
from dpeer.sections import names
from dpeer.topology import ServerSampling, take_part
from dpeer.topology.settings import GraphSettings, build_graph
from dpeer.training import ALGORITHMS, find_algorithm

ROOT = Path(__file__).parents[2]
PAPERS = ROOT / "examples" / "papers"
FILES = {path.relative_to(PAPERS).with_suffix("").as_posix(): path for path in sorted(PAPERS.rglob("*.toml"))}
HOOKS = ("train", "mixed", "finish", "extras", "start", "predictor", "sit_out")
OF_SOME = {name for algorithm in ALGORITHMS.values() for name in algorithm.settings()}
"""Settings that mean something to some algorithms only."""

Open = Callable[..., Experiment]


@pytest.fixture
def opened() -> Open:
    """Read a file."""

    def read(name: str, *, small: bool = False) -> Experiment:
        return load(FILES[name], {"task_options": {"data": "here"}}, {}, small=small)

    return read


def cells(found: Experiment, tmp_path: Path) -> Iterator[tuple[str, list[Cell]]]:
    """The first repetition: tables, and the run of each of their rows."""
    for condition in found.conditions:
        yield condition.label, [make_cell(found.base, row, condition, 0, tmp_path) for row in found.variants]


def effective(cell: Cell) -> dict[str, Any]:
    """What decides about a run's results: its algorithm's code, and all settings that mean anything to it."""
    settings, algorithm = with_defaults(cell.settings), find_algorithm(cell.settings.algorithm)
    nothing = {*aside(), "algorithm", "preset", "seed", *(OF_SOME - {*algorithm.settings()})}
    if cell.variant.alone:
        nothing |= {*names(GraphSettings)} - {"size"}
    if settings.topology == "full":
        nothing |= {"weights"}  # those of metropolis are uniform there
    if settings.topology != "random-regular":
        nothing |= {"degree"}
    hooks = {f"{name}()": getattr(algorithm, name) for name in HOOKS}
    return {name: value for name, value in settings.model_dump().items() if name not in nothing} | hooks


def differing(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


# What holds for all of them ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("small", [False, True], ids=["full", "small"])
@pytest.mark.parametrize("name", FILES)
def test_it_can_be_run(name: str, small: bool, opened: Open, tmp_path: Path) -> None:
    found = opened(name, small=small)
    assert found.baseline == ("local" if name.startswith("dfedmdc/") else None)
    assert len(found.seeds) >= 3
    folders = set()
    for label, table in cells(found, tmp_path):
        for cell in table:
            settings = with_defaults(cell.settings)
            if small:
                build_graph(settings)  # at full scale the larger ones take a while
                assert settings.size <= 32
                assert (
                    privacy_config(resolve(settings, 0), build_graph(settings)).guarantee is None
                    or settings.privacy == "client"
                )
            folders.add((cell.folder, None if cell.variant.settled else label))
            assert settings.task_options["data"] == "here"
            assert settings.device == "auto"
            assert (settings.model in ("cnn", "vit-tiny", "roberta-tiny")) == small
            assert settings.rounds == (found.base["rounds"] if small else FULL_ROUNDS[name.split("/")[0]](name))
            assert settings.grad_clip is None


FULL_ROUNDS: dict[str, Callable[[str], int]] = {
    "dfedmdc": lambda name: 200 if "figure-4" in name else 300 if "tables-6" in name else 500,
    "dp-fedsam": lambda name: 200 if re.search("emnist|figure-5", name) else 300,
    "dp2-fedsam": lambda name: 200,
    "dp-fedadamw": lambda name: 300 if "resnet" in name else 100,
}


@pytest.mark.slow
@pytest.mark.parametrize("small", [False, True], ids=["full", "small"])
@pytest.mark.parametrize("name", FILES)
def test_no_two_rows_are_the_same_run(name: str, small: bool, opened: Open, tmp_path: Path) -> None:
    """FedRep with one head epoch would be DFedMDC, as would DFedSMDC with radius 0."""
    for label, table in cells(opened(name, small=small), tmp_path):
        for one, other in itertools.combinations(table, 2):
            assert differing(effective(one), effective(other)), (label, one.variant.label, other.variant.label)
        for cell in table:
            settings = with_defaults(cell.settings)
            assert settings.rho > 0, "SAM of radius 0 is none"
            assert settings.sparsify is None or not settings.sparsify.endswith((":1", ":1.0"))


@pytest.mark.parametrize("name", FILES)
def test_small_keeps_what_distinguishes_a_row(name: str, opened: Open, tmp_path: Path) -> None:
    full, small = (opened(name, small=small) for small in (False, True))
    asked = [[row.label for row in found.variants] for found in (full, small)]
    kinds = [{re.sub(r"=[^:]*", "", label) for label in labels} for labels in asked]
    assert kinds[0] == kinds[1], "the same methods, and the same settings that rows differ in"
    if asked[0] != asked[1] and name == "dp-fedsam/figure-5-a-b":  # its radii and epochs are smaller
        return
    others = [[re.sub(r":body-lr=[^:]*", "", label) for label in labels] for labels in asked]
    assert others[0] == others[1], "but for the rates, the values too"
    assert len(full.conditions) == len(small.conditions) or name.rpartition("/")[2] in ("figure-5", "figure-5-c")
    _, large = next(cells(full, tmp_path))
    _, little = next(cells(small, tmp_path))
    for one, other in itertools.combinations(range(len(large)), 2):
        lost = differing(effective(large[one]), effective(large[other])) - differing(
            effective(little[one]), effective(little[other])
        )
        assert lost <= {"head_lr"}, "one rate was chosen for all"


@pytest.mark.parametrize("name", FILES)
def test_its_header_has_the_command_and_the_documentation_its_name(name: str) -> None:
    text = FILES[name].read_text()
    assert f"dpeer compare examples/papers/{name}.toml --task-option data=DIR --out " in text
    assert "has not been run" in text
    assert "Not as in the paper" in text
    assert max(len(line) for line in text.splitlines() if "dpeer compare" not in line) <= 120
    page = (ROOT / "docs" / "experiments.md").read_text()
    assert f"](../examples/papers/{name}.toml)" in page


# DFedMDC -------------------------------------------------------------------------------------------------------------

SERVER = ("fedavg", "fedsam", "fedper", "fedrep", "fedbabu", "fedrod", "ditto")
PEERS = ("dfedavgm", "dis-pfl", "dfedsam", "dfedmdc", "dfedsmdc")
D1, D3, FEW = "dirichlet-equal:0.1", "dirichlet-equal:0.3", "pathological-sampled"
MAIN = {
    "dfedmdc/tables-2-and-3-cifar10": ({D1: None, D3: 0.8, f"{FEW}:2": 0.9, f"{FEW}:5": None}, 500),
    "dfedmdc/tables-2-and-3-cifar100": ({D1: None, D3: 0.45, f"{FEW}:5": None, f"{FEW}:10": 0.65}, 500),
    "dfedmdc/tables-6-and-7": ({D1: 0.2, D3: 0.14, f"{FEW}:10": 0.4, f"{FEW}:20": 0.3}, 300),
}
"""Divisions with the accuracies that Tables 3 and 7 ask for, and rounds."""


@pytest.mark.parametrize("name", MAIN)
def test_all_methods_train_as_the_dfedmdc_paper_prints(name: str, opened: Open, tmp_path: Path) -> None:
    found, (targets, rounds) = opened(name), MAIN[name]
    assert {one.values["partition"]: found.target_of(one) for one in found.conditions} == targets
    assert {row.algorithm for row in found.variants} == {"local", *SERVER, *PEERS}
    for label, table in cells(found, tmp_path):
        for cell in table:
            s, method = with_defaults(cell.settings), cell.variant.algorithm
            assert (s.size, s.rounds, s.batch_size, s.model) == (100, rounds, 128, "resnet18-gn")
            assert (s.body_lr, s.lr_decay, s.momentum, s.weight_decay) == (0.1, 0.995, 0.9, 0.0)
            assert (s.body_epochs, s.rho, s.sparsity, s.ditto_lambda, s.finetune_epochs) == (5, 0.7, 0.5, 0.75, 5)
            assert s.head_lr == (0.001 if method in ("dfedmdc", "dfedsmdc") else 0.1)
            assert s.head_epochs == (10 if method == "fedrep" else 5 if "pathological" in label else 1)
            graph = ("full", "uniform") if method in SERVER else ("random-regular", "metropolis")
            if method != "local":
                assert (s.topology, s.weights) == graph
                assert s.participation == 1.0
            assert method in SERVER or s.degree == 10


def test_ten_neighbors_are_those_of_a_fixed_symmetric_graph(opened: Open, tmp_path: Path) -> None:
    _, table = next(cells(opened("dfedmdc/table-4"), tmp_path))
    graph = build_graph(table[1].settings)
    assert all(len(graph.at(number, rank).in_neighbors) == 10 for rank in range(100) for number in (0, 7))
    assert (graph.weights == graph.weights.T).all()
    exponential = build_graph(table[1].settings.model_copy(update={"topology": "exponential"}))
    assert len(exponential.at(0, 0).in_neighbors) == 14, "as the files say"


def test_the_ablations_of_dfedmdc(opened: Open, tmp_path: Path) -> None:
    sam = opened("dfedmdc/table-4")
    assert [one.values["partition"] for one in sam.conditions] == [D3, f"{FEW}:2"]
    assert [row.changes.get("sam") for row in sam.variants] == [None, None, "body", "head", "both"]
    graphs = opened("dfedmdc/figure-3")
    assert [one.values["topology"] for one in graphs.conditions] == ["ring", "grid", "exponential", "full"]
    assert {row.algorithm for row in graphs.variants} == {"local", *PEERS}
    assert opened("dfedmdc/figure-4").base["rounds"] == 200
    clients = opened("dfedmdc/figure-5")
    assert [one.values["size"] for one in clients.conditions] == [5, 10, 50, 100, 200]
    for label, table in cells(clients, tmp_path):
        graph = build_graph(table[1].settings)
        assert len(graph.at(0, 0).in_neighbors) == min(10, graph.size - 1), label


# The papers with privacy ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("dp-fedsam/")])
def test_each_peer_adds_the_noise_of_a_client_of_dp_fedsam(name: str, opened: Open, tmp_path: Path) -> None:
    for _, table in cells(opened(name), tmp_path):
        for cell in table:
            s = with_defaults(cell.settings)
            assert s.noise_multiplier == pytest.approx(0.95 / math.sqrt(s.size / 10), abs=5e-5)
            assert (s.privacy, s.dp_adversary, s.clip_norm) == ("client", "neighbor", 0.2)
            assert (s.participation, s.participation_mode) == (0.1, "server")
            # The mean of the sample has the noise that the paper's server adds: sigma C / m.
            drawn = take_part(build_graph(s), s.participation, s.participation_mode, s.seed)
            assert isinstance(drawn, ServerSampling)
            assert s.noise_multiplier / math.sqrt(drawn.count) == pytest.approx(0.95 / drawn.count, rel=1e-3)
            assert (s.body_lr, s.lr_decay, s.momentum, s.topology, s.weights) == (0.1, 0.9995, 0.5, "full", "uniform")
            assert s.batch_size == (32 if s.task == "emnist" else 50)
            assert s.model == ("fedavg-cnn" if s.task == "emnist" else "resnet18-gn")
            assert s.body_epochs == cell.variant.changes.get("body_epochs", 30)
            assert s.rho == cell.variant.changes.get("rho", 0.5)


@pytest.mark.parametrize("name", ["dp-fedsam/tables-1-and-2-cifar", "dp-fedsam/table-3"])
def test_a_flag_makes_cifar_100_of_it(name: str, tmp_path: Path) -> None:
    found = load(FILES[name], {"task": "cifar100"}, {}, small=False)
    tasks = {cell.settings.task for _, table in cells(found, tmp_path) for cell in table}
    assert tasks == {"cifar100"}


def test_the_same_noise_in_aggregate_mode(opened: Open, tmp_path: Path) -> None:
    """What the headers say of `--dp-adversary aggregate`."""
    _, table = next(cells(opened("dp-fedsam/table-3"), tmp_path))
    own = table[-1].settings
    averaged = {"dp_adversary": "aggregate", "dp_min_honest": 50, "participation": 1.0}
    other = own.model_copy(update={**averaged, "noise_multiplier": 0.95, "size": 500})
    graph = build_graph(own)
    stds = [
        made.noise_std
        for made in (privacy_config(resolve(one, 0), graph).guarantee for one in (own, other))
        if made is not None
    ]
    assert stds[0] == pytest.approx(stds[1], rel=1e-3)


def test_the_budgets_of_dp_fedsams_table_2_are_used_up_after_so_many_rounds() -> None:
    dp = pytest.importorskip("dp_accounting")
    from dp_accounting import rdp

    def epsilon(rounds: int) -> float:
        accountant = rdp.RdpAccountant([2 + n / 10 for n in range(150)])
        accountant.compose(dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(0.95)), rounds)
        return float(accountant.get_epsilon(1 / 500))

    text = " ".join(FILES["dp-fedsam/tables-1-and-2-cifar"].read_text().replace("\n#", "").split())
    message = re.search(r"epsilon (\d+), (\d+), (\d+) and (\d+) .* after (\d+), (\d+), (\d+) and (\d+) rounds", text)
    assert message is not None
    numbers = [int(number) for number in message.groups()]
    for budget, rounds in zip(numbers[:4], numbers[4:], strict=True):
        assert epsilon(rounds) <= budget < epsilon(rounds + 1)
    assert f"epsilon is {epsilon(300):.1f} at the end" in text


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("dp2-fedsam/")])
def test_each_peer_adds_the_noise_of_a_client_of_dp2_fedsam(name: str, opened: Open, tmp_path: Path) -> None:
    lines = FILES[name].read_text().splitlines()
    budgets = [float(line.partition("# epsilon ")[2]) for line in lines if "},  # epsilon " in line] or [1.0]
    found = opened(name)
    assert len(budgets) == len(found.conditions)
    for budget, (_, table) in zip(budgets, cells(found, tmp_path), strict=True):
        for cell in table:
            s = with_defaults(cell.settings)
            sigma = math.sqrt(7 * 0.05**2 * 200 * (budget + 2 * math.log(s.size))) / budget
            assert s.noise_multiplier == pytest.approx(sigma / math.sqrt(0.05 * s.size), abs=5e-5)
            cifar = s.task == "cifar10"
            assert (s.clip_norm, s.momentum) == ((0.1, 0.7) if cifar else (0.2, 0.3))
            assert s.rho == cell.variant.changes.get("rho", 0.1 if cifar else 0.5)
            assert (s.body_lr, s.head_lr, s.lr_decay, s.head_epochs) == (0.1, 0.005, 0.99, 2)
            assert s.body_epochs == cell.variant.changes.get("body_epochs", 2)
            assert (s.privacy, s.dp_adversary) == ("client", "neighbor")
            assert (s.participation, s.participation_mode) == (0.05, "server")
            assert s.noise_multiplier / math.sqrt(0.05 * s.size) == pytest.approx(sigma / (0.05 * s.size), rel=1e-3)
            assert s.model == ("dp-cnn" if cifar else "resnet18-gn")


PARAMETERS = {"resnet18-gn": 11_173_962, "dp-cnn": 667_402}


@pytest.mark.parametrize("name", [name for name in FILES if "training cannot survive" in FILES[name].read_text()])
def test_dpeer_warns_of_the_noise_where_a_header_says_so(name: str, opened: Open, tmp_path: Path) -> None:
    for label, table in cells(opened(name), tmp_path):
        settings = table[-1].settings
        guarantee = privacy_config(resolve(settings, 0), build_graph(settings)).guarantee
        assert guarantee is not None
        ratio = guarantee.noise_ratio(PARAMETERS[str(settings.model)])
        quiet = "0.5261" in label  # epsilon 2 on CIFAR-10
        assert (noise_over_drift(ratio, settings.size, settings.rounds) > 1) != quiet


def test_the_divisions_and_radii_of_dp2_fedsam(opened: Open) -> None:
    found = opened("dp2-fedsam/tables-2-and-3-cifar10")
    divisions = [(one.values["size"], one.values["partition"]) for one in found.conditions]
    two, five = f"{FEW}:2", f"{FEW}:5"
    assert divisions == [(500, five), (1000, two), (1000, five), (1000, two)]
    tuned = ["fedavg", "fedavg:finish=all:2", "fedsam", "fedsam:finish=all:2"]
    assert [row.label for row in found.variants] == [*tuned, "dfedmdc", "dfedsmdc"]
    shown = opened("dp2-fedsam/figures-6-and-7")
    assert [row.changes["rho"] for row in shown.variants if "rho" in row.changes] == [0.05, 0.1, 0.5, 1.0]
