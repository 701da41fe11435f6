"""The files in examples/papers/dp-fedadamw: their values are those of the paper's text, their epsilons are right."""

import math
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from dpeer.experiments.cells import Cell, make_cell
from dpeer.experiments.experiment import Experiment, load
from dpeer.federation.config import resolve, with_defaults
from dpeer.federation.presets import PRESETS
from dpeer.federation.privacy import privacy_config
from dpeer.federation.settings import Settings
from dpeer.topology import Isolated, Participation
from dpeer.topology.settings import build_graph

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "examples" / "papers" / "dp-fedadamw"
NAMES = sorted(path.stem for path in FOLDER.glob("*.toml"))
TINY_IMAGENET = {"task": "tiny-imagenet", "records": 2000, "delta": 1e-6}
"""The flags of the headers: its 100,000 images, and Table 15."""

COMPARED = ["fedavg", "scaffold", "fedavg-ls", "fedsam", "fedsam:dp-sam=same-batch", "localadamw", "fedadamw"]
"""The rows of Tables 2 to 5: section 7.1, and SAM as the paper has it, too."""

Open = Callable[..., Experiment]


@pytest.fixture
def opened() -> Open:
    def read(name: str, **flags: Any) -> Experiment:
        options = {"data": "here", **flags.pop("task_options", {})}
        return load(FOLDER / f"{name}.toml", {"task_options": options, **flags}, {}, small=False)

    return read


def runs(found: Experiment, tmp_path: Path) -> list[tuple[Cell, Settings]]:
    """All runs of the first repetition, with the settings that they use."""
    made = [make_cell(found.base, row, one, 0, tmp_path) for one in found.conditions for row in found.variants]
    return [(cell, with_defaults(cell.settings)) for cell in made]


def test_there_is_a_file_for_each_table_of_the_paper() -> None:
    assert {re.sub(r"(table-\d+).*", r"\1", name) for name in NAMES} == {f"table-{number}" for number in range(2, 10)}


@pytest.mark.parametrize("name", NAMES)
def test_every_row_trains_as_the_paper_prints(name: str, opened: Open, tmp_path: Path) -> None:
    resnet, text = "resnet" in name, name == "table-4"
    found = opened(name)
    assert [*found.seeds] == [0, 1, 2, 3, 4], "section 7.1"
    for cell, s in runs(found, tmp_path):
        # Tables 15 and 16.
        assert (s.size, s.rounds, s.local_steps) == (4 if text else 50, 300 if resnet else 100, 50 if resnet else 20)
        assert (s.batch_size, s.delta) == (50 if resnet else 16, 1e-5)
        assert str(s.lora).startswith("r=16,alpha=32")
        # Tables 12 and 13: the training records, and how many a peer has.
        assert s.records == (67_349 // 4 if text else 50_000 // 50)
        assert privacy_config(resolve(s, 0), build_graph(s)).sampling_rate(999) == s.batch_size / s.records
        # Section 9.4.
        assert (s.privacy, s.clip_norm, s.lr_schedule, s.grad_clip, s.finish) == ("sample", 0.1, "cosine", None, "none")
        # Table 17, and for rows with Adam of another kind what it has for AdamW.
        plain = cell.variant.algorithm in ("fedavg", "scaffold", "fedavg-ls", "fedsam", "fedopt")
        assert (s.body_lr, s.weight_decay, s.momentum) == ((0.1, 0.001, 0.0) if plain else (3e-4, 0.01, 0.9))
        assert (s.optimizer == "adamw") == (cell.variant.algorithm in ("localadamw", "fedadamw"))
        if cell.variant.algorithm == "fedsam":
            assert s.rho in (0.01, 0.05, 0.1, 0.5), "section 9.4"
        # All is shared, and those are averaged that Tables 15 and 16 have a server sample.
        assert (s.head, s.topology, s.weights) == ("", "full", "uniform")
        assert s.participation == (1.0 if text else 0.2 if resnet else 0.1)
        assert s.participation_mode == ("peers" if text else "server")


@pytest.mark.parametrize("name", NAMES)
def test_every_table_has_the_data_and_models_of_the_paper(name: str, opened: Open) -> None:
    found = opened(name)
    model = {"table-2-resnet18": "resnet18-gn", "table-2-vit-base": "vit-base", "table-4": "roberta"}
    assert found.base["model"] == model.get(name, "swin-base")
    data = {"table-2-resnet18": "cifar10", "table-2-vit-base": "cifar10", "table-4": "glue", "table-5": "cifar10"}
    assert found.base["task"] == data.get(name, "cifar100")
    divided = ["dirichlet-equal:0.8"] if name == "table-4" else ["dirichlet-equal:0.1"]
    if name < "table-4":
        divided = ["dirichlet-equal:0.6", *divided]
    assert list(dict.fromkeys(one.values["partition"] for one in found.conditions)) == divided
    noise = [one.values.get("target_epsilon") for one in found.conditions]
    assert noise == ([1.0, 2.0, 3.0] if name == "table-5" else [None] * len(noise))
    assert found.base.get("noise_multiplier") == (None if name == "table-5" else 1.0)


def test_the_rows_are_those_of_the_tables(opened: Open) -> None:
    for name in NAMES:
        found = [re.sub(":(body-lr|weight-decay|momentum)=[^:]*", "", row.label) for row in opened(name).variants]
        if name < "table-6":
            assert found == COMPARED
    parts = [row.changes.get("algorithm_options", {}) for row in opened("table-6").variants]
    assert parts == [{}, {"aggregate": "none"}, {"correct": False}, {"gamma": 0}, {}]
    assert [row.algorithm for row in opened("table-6").variants] == ["localadamw", *["fedadamw"] * 4]
    kinds = [row.changes.get("algorithm_options", {}) for row in opened("table-7").variants]
    assert kinds == [{"aggregate": "none"}, {"aggregate": "full"}, {}], "NoAgg, Agg-v and Agg-mean-v, the default"
    strengths = [row.changes.get("algorithm_options", {}).get("gamma", 0.5) for row in opened("table-8").variants]
    assert strengths == [0.0, 0.25, 0.5, 0.75, 1.0]
    others = ["fedopt", "fafed", "fafed", "fafed", "fedlada", "fedadamw"]
    assert [row.algorithm for row in opened("table-9").variants] == others


ROWS = [
    ("dp-fedavg-sample", "table-2-resnet18", "fedavg"), ("dp-scaffold", "table-2-resnet18", "scaffold"),
    ("dp-fedavg-ls", "table-2-resnet18", "fedavg-ls"), ("dp-fedsam-sample", "table-2-resnet18", "fedsam"),
    ("dp-localadamw", "table-2-resnet18", "localadamw"), ("dp-fedadamw", "table-2-resnet18", "fedadamw"),
    ("dp-localadamw-transformer", "table-3", "localadamw"), ("dp-fedadamw-transformer", "table-3", "fedadamw"),
    ("dp-fedopt", "table-9", "fedopt"), ("dp-fafed", "table-9", "fafed"), ("dp-fedlada", "table-9", "fedlada"),
    ("dp-fedadamw-transformer", "table-9", "fedadamw"),
]  # fmt: skip


@pytest.mark.parametrize(("preset", "name", "row"), ROWS)
def test_a_preset_and_its_row_are_one_experiment(
    preset: str, name: str, row: str, opened: Open, tmp_path: Path
) -> None:
    """Both have every value of the preset; the head's rate has no use where all is shared."""
    found = next(s for cell, s in runs(opened(name), tmp_path) if re.sub(":body-lr.*", "", cell.variant.label) == row)
    expected = {key: value for key, value in PRESETS[preset].values.items() if key != "head_lr"}
    assert {key: getattr(found, key) for key in expected} == expected
    for message in ("--lora r=16,alpha=32", "--init-from", "--participation-mode server"):
        assert message in PRESETS[preset].remark, "what no value of a preset says"
    assert str(found.lora).startswith("r=16,alpha=32")
    assert found.participation_mode == "server"


FLAGS: list[tuple[str, dict[str, Any]]] = [
    ("table-2-resnet18", {"task": "cifar100"}), ("table-2-vit-base", {"task": "cifar100"}),
    ("table-3", {"model": "swin-tiny"}), ("table-3", TINY_IMAGENET), ("table-5", {"task": "cifar100"}),
    *((f"table-{number}", TINY_IMAGENET) for number in (5, 6, 7, 8, 9)),
    ("table-4", {"task_options": {"name": "qqp"}, "records": 363_846 // 4, "delta": 1e-6}),
    ("table-4", {"task_options": {"name": "qnli"}, "records": 104_743 // 4}),
    ("table-4", {"task_options": {"name": "mnli"}, "records": 392_702 // 4, "delta": 1e-6}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "flags"), FLAGS)
def test_flags_make_the_other_half_of_a_table(name: str, flags: dict[str, Any], opened: Open, tmp_path: Path) -> None:
    """Those that the header says, with the records of Tables 12 and 13 and the deltas of Tables 15 and 16."""
    text = " ".join((FOLDER / f"{name}.toml").read_text().replace("\n#", "").split())
    typed = [f"--{key} {value:g}" if key == "delta" else f"--{key} {value}" for key, value in flags.items()
             if key != "task_options"]  # fmt: skip
    typed = [f"--task-option name={flags['task_options']['name']}", *typed] if "task_options" in flags else typed
    assert " ".join(typed).replace("1e-06", "1e-6") in text
    for _, s in runs(opened(name, **flags), tmp_path):
        assert {key: getattr(s, key) for key in flags if key != "task_options"} == {
            key: value for key, value in flags.items() if key != "task_options"
        }
        assert s.task_options["data"] == "here"
        assert s.task_options.get("name") == flags.get("task_options", {}).get("name")


# What is spent -------------------------------------------------------------------------------------------------------


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


def message(name: str, pattern: str) -> list[float]:
    """The numbers in a sentence of the header."""
    text = " ".join((FOLDER / f"{name}.toml").read_text().replace("\n#", "").split())
    found = re.search(pattern, text)
    assert found is not None, f"{name} does not say {pattern}"
    return [float(number.replace(",", "")) for number in found.groups()]


NUMBER = r"([\d,]+(?:\.\d+)?)"
SHORT = math.sqrt(0.5)
"""Two gradients of one batch cost as much as one with so much of the noise."""


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("table-4", "table-5")])
def test_the_headers_say_what_the_paper_s_noise_comes_to(name: str) -> None:
    batch = 50 if "resnet" in name else 16
    some, spent, most, more = message(
        name,
        f"{NUMBER} such steps come to epsilon {NUMBER} at delta 1e-5 \\(with seed 0, {NUMBER} steps of the peer that "
        f"is drawn most often: {NUMBER}\\)",
    )
    rounds, share, local = (300, 0.2, 50) if batch == 50 else (100, 0.1, 20)
    assert some == rounds * share * local, "those that a client of Table 15 takes on average"
    assert most == local * often(rounds, share)
    assert spent == pytest.approx(epsilon(batch, 1000, 1.0, round(some)), rel=5e-3)
    assert more == pytest.approx(epsilon(batch, 1000, 1.0, round(most)), rel=5e-3)
    if "--task tiny-imagenet" in (FOLDER / f"{name}.toml").read_text():
        (tiny,) = message(name, f"2,000 records, and the average comes to {NUMBER}\\.(?: |$)")
        assert tiny == pytest.approx(epsilon(16, 2000, 1.0, 200, 1e-6), rel=2e-3)
    if name < "table-4":
        (twice,) = message(name, f"twice the budget: {some:,.0f} steps come to {NUMBER}(?:\\.| \\()")
        assert twice == pytest.approx(epsilon(batch, 1000, SHORT, round(some)), rel=2e-3)
    if name == "table-3":
        (tiny,) = message(name, f"\\(Tiny-ImageNet: {NUMBER}\\)")
        assert tiny == pytest.approx(epsilon(16, 2000, SHORT, 200, 1e-6), rel=2e-3)


def test_what_the_paper_s_noise_comes_to_on_text() -> None:
    spent = message("table-4", f"epsilon {NUMBER} on SST-2, {NUMBER} on QQP, {NUMBER} on QNLI and {NUMBER} on MNLI")
    each = [(16_837, 1e-5), (90_961, 1e-6), (26_185, 1e-5), (98_175, 1e-6)]
    assert spent == pytest.approx([epsilon(16, count, 1.0, 2000, delta) for count, delta in each], abs=5e-4)
    (twice,) = message("table-4", f"they come to {NUMBER} on SST-2")
    assert twice == pytest.approx(epsilon(16, 16_837, SHORT, 2000), rel=2e-3)


def test_the_noise_of_the_budgets_of_table_5() -> None:
    steps, *noises = message(
        "table-5", f"{NUMBER} of them with seed 0; .* sigma is {NUMBER}, {NUMBER} and {NUMBER} there"
    )
    assert steps == 20 * often(100, 0.1)
    for budget, noise in enumerate(noises, 1):
        assert epsilon(16, 1000, noise, 360) <= budget < epsilon(16, 1000, round(noise - 0.01, 2), 360)


def test_the_rows_of_table_9_spend_the_same_but_for_fafed_as_printed(opened: Open, tmp_path: Path) -> None:
    for cell, s in runs(opened("table-9"), tmp_path):
        assert s.noise_multiplier is not None
        looks = 2 if cell.variant.label.startswith("fafed") and "corrected=false" not in cell.variant.label else 1
        if cell.variant.label == "fafed":
            assert s.noise_multiplier == 1.0, "Table 9 prints one sigma"
            continue
        assert 1 <= s.noise_multiplier / math.sqrt(looks) == pytest.approx(1, abs=1e-4)
    (spent,) = message("table-9", f"spends more than the others \\({NUMBER}\\)")
    assert spent == pytest.approx(epsilon(16, 1000, SHORT, 200), rel=2e-3)
