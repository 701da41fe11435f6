"""All that a peer says under privacy at sample level follows from noised sums: of its data nothing goes another way.

Two federations are trained whose noised sums are replaced by the same fixed numbers. In the second one the first site
has other values, other labels and fewer records, and says the same `--records`. So every hello and every body of it
must be the same to the last byte, whatever the algorithm, the head, the task and the unit.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from numpy.typing import NDArray

from dpeer.peer.transport import Sent
from dpeer.privacy import SampleTerms
from dpeer.privacy.mechanism import ClippedSum
from dpeer.simulation.network import FaultyTransport
from dpeer.training import ALGORITHMS
from tests.thinning import only

pytestmark = pytest.mark.slow

Messages = dict[str, set[tuple[bytes, ...]]]
SentByBoth = Callable[..., tuple[Messages, Messages]]

CLASSES = ("well", "ill", "dead")
PRIVATE = (
    "--size", 2, "--topology", "full", "--rounds", 2, "--privacy", "sample", "--noise-multiplier", 2, "--grad-clip", 0,
)  # fmt: skip
TABLE = (
    *PRIVATE, "--task", "csv", "--task-option", "path=site-{rank}.csv", "--body-epochs", 1, "--batch-size", 25,
)  # fmt: skip
PLAIN = (
    *TABLE, "--records", 50, "--task-option", "target=diagnosis", "--task-option", "columns=age,bmi",
    "--task-option", "classes=well,ill,dead",
)  # fmt: skip
OF_ONE_PIECE = {"dfedavgm", "dfedsam", "ditto", "fedavg", "fedsam"}
"""Algorithms that keep no head at home that could stay as it was."""
REFUSED = {"dis-pfl", "fedrod"}
"""Algorithms that read data past the noise, and are refused."""


def fixed(leak: float = 0.0) -> Callable[..., NDArray[np.float32]]:
    """What takes the place of `ClippedSum.released`: sums that follow from how often it was asked, and a leak."""

    def released(self: ClippedSum, total: NDArray[np.float64], threads: int = 1) -> NDArray[np.float32]:
        numbers = self.__dict__.get("fixed")
        if numbers is None:
            numbers = np.random.default_rng(1)
            object.__setattr__(self, "fixed", numbers)
        noised = numbers.normal(0, self.noise_std, total.size) + leak * total
        found: NDArray[np.float32] = (noised / self.expected).astype(np.float32)
        return found

    return released


def table(path: Path, seed: int, rows: int, shift: float, labels: int, patients: int) -> None:
    """A site's table."""
    rng = np.random.default_rng(seed)
    lines = [
        f"{rng.normal(shift, 1):.4f},{rng.normal(shift, 3):.4f},{' '.join(rng.choice(['ok', 'bad'], 3))},"
        f"p{row % patients},{CLASSES[rng.integers(0, labels)]}"
        for row in range(rows)
    ]
    path.write_text("\n".join(["age,bmi,words,patient,diagnosis", *lines, ""]))


def texts(folder: Path, seed: int, rows: int) -> None:
    """A site's texts with two labels."""
    rng = np.random.default_rng(seed)
    folder.mkdir(exist_ok=True)
    words = ["good", "bad", "plot", "é", "x" * (3 + 30 * seed)]
    for file, count in (("train.tsv", rows), ("dev.tsv", 10 + seed)):
        lines = [f"{' '.join(rng.choice(words, rng.integers(1, 9)))}\t{rng.integers(0, 2)}" for _ in range(count)]
        (folder / file).write_text("\n".join(["sentence\tlabel", *lines, ""]))


@pytest.fixture
def sent_by_both(simulate, tmp_path, monkeypatch):
    """Train twice, with the first site's data as they are and with others, and give the hellos and bodies of both."""
    found: list[tuple[bytes, ...]] = []
    send = FaultyTransport.send

    def listening(transport: FaultyTransport, link: Any, frames: Any) -> Sent:
        message = tuple(bytes(frame) for frame in frames)
        if msgpack.unpackb(message[0])["rank"] == 0:
            found.append(message)
        return send(transport, link, frames)

    def run(name: str, *options: object) -> Messages:
        found.clear()
        simulate(*options, "--out", name)
        kinds: Messages = {"hello": set(), "body": set()}
        for message in found:
            kinds.get(msgpack.unpackb(message[0])["kind"], set()).add(message)
        assert all(kinds.values())
        return kinds

    def twice(*options: object) -> tuple[Messages, Messages]:
        table(tmp_path / "site-1.csv", 7, 60, 0.0, 3, 40)
        texts(tmp_path / "texts-1", 2, 30)
        table(tmp_path / "site-0.csv", 0, 61, 0.0, 2, 50)
        texts(tmp_path / "texts-0", 0, 30)
        first = run("first", *options)
        table(tmp_path / "site-0.csv", 3, 44, 9.0, 3, 36)
        texts(tmp_path / "texts-0", 1, 24)
        return first, run("second", *options)

    monkeypatch.setattr(FaultyTransport, "send", listening)
    monkeypatch.setattr(ClippedSum, "released", fixed())
    return twice


def heads(algorithm: str) -> tuple[str, ...]:
    """How the head may be trained with an algorithm."""
    if algorithm == "fedbabu":
        return ("post",)
    return ("joint", "alternate") if algorithm in OF_ONE_PIECE else ("joint", "alternate", "post")


SCHEMA = """
format = 1
[target]
column = "diagnosis"
classes = ["well", "ill", "dead"]
[columns.age]
kind = "number"
range = [-5, 15]
[columns.words]
kind = "text"
size = 8
[columns.patient]
kind = "group"
"""
OF_GROUPS = (
    *TABLE,
    "--schema",
    "schema.toml",
    "--records",
    30,
    "--batch-size",
    15,
    "--privacy-unit",
    "group",
    "--algorithm",
)
OF_TEXTS = (
    *PRIVATE, "--task", "glue", "--partition", "own", "--task-option", "name=sst2", "--task-option", "length=16",
    "--model", "roberta-tiny", "--model-option", "layers=1", "--model-option", "width=16", "--records", 32,
    "--batch-size", 8, "--local-steps", 1, "--algorithm",
)  # fmt: skip
"""And adapters."""

QUICK = [
    (*PLAIN, "--algorithm", "dfedsmdc", "--dp-head", "alternate"),
    (*PLAIN, "--algorithm", "fedopt", "--dp-head", "post"),
    (*OF_GROUPS, "dfedmdc", "--dp-head", "post", "--finish", "none"),
    (*OF_TEXTS, "fedavg", "--lora", "r=2"),
]
ALL = [
    *QUICK,
    *(
        (*PLAIN, "--algorithm", name, "--dp-head", head)
        for name in sorted(set(ALGORITHMS) - REFUSED - {"local"})
        for head in heads(name)
        if (name, head) not in {("dfedsmdc", "alternate"), ("fedopt", "post")}
    ),
    (*OF_GROUPS, "dfedavgm"),
    (*OF_GROUPS, "dfedmdc", "--dp-head", "post", "--finish", "all:2"),
    (*OF_GROUPS, "fedadamw", "--validation", 0.2),
    (*OF_GROUPS, "dfedsam", "--dp-sam", "same-batch"),
    (*OF_GROUPS, "dfedmdc", "--alone", "always"),
    (*OF_TEXTS, "dfedmdc"),
    (*OF_TEXTS, "fedadamw", "--lora", "r=2", "--dp-head", "post", "--finish", "head:1"),
]


@pytest.mark.parametrize("options", only(QUICK, ALL), ids=lambda options: " ".join(map(str, options[-4:])))
def test_other_data_change_no_byte(sent_by_both, tmp_path, options):
    if "glue" in options:
        pytest.importorskip("transformers")
        pytest.importorskip("peft")
        content = "".join(f'[rank.{rank}.task_options]\ndata = "texts-{rank}"\n' for rank in range(2))
        (tmp_path / "dpeer.toml").write_text(content)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    first, second = sent_by_both(*options)
    assert first == second


@pytest.mark.parametrize("leak", ["values", "number"])
def test_the_comparison_finds_what_goes_another_way(sent_by_both, monkeypatch, leak):
    """So that the test above can fail: a ten-thousandth of the true sums, or the true number of records."""
    if leak == "values":
        monkeypatch.setattr(ClippedSum, "released", fixed(leak=1e-4))
    else:
        monkeypatch.setattr(SampleTerms, "nominal_units", property(lambda terms: terms.units))
    first, second = sent_by_both(*PLAIN, "--algorithm", "dfedmdc")
    assert first["body"] != second["body"]
    assert first["hello"] == second["hello"]
