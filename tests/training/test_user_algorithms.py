"""Algorithms of a user's own: finding them, the hash of their source, their options, and runs of them."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Literal

import pytest

import dpeer
from dpeer.exceptions import AlgorithmError
from dpeer.plugins import check_source
from dpeer.sections import Mark
from dpeer.training import (
    ALGORITHMS,
    Algorithm,
    Trainer,
    build_learner,
    find_algorithm,
    make_options,
    option,
    shared_options,
    source_hash,
)
from dpeer.training.algorithms.options import about_options
from tests.error_texts import refused
from tests.training.small import small_task

GOOD = """
    from dpeer.training import Algorithm
    from beside import EPOCHS

    class Mine(Algorithm):
        '''Trains the body.

        And more.
        '''

        shares = "body"

        def train(self, peer):
            peer.fit(peer.body, epochs=EPOCHS, lr=0.1)

    class Quiet(Mine):
        shares = "nothing"

        def train(self, peer):
            peer.fit(peer.head, epochs=1, lr=0.1)
"""


@pytest.fixture
def where(tmp_path: Path) -> str:
    (tmp_path / "beside.py").write_text("EPOCHS = 2\n")
    path = tmp_path / "folder.of" / "mine.py"
    path.parent.mkdir()
    path.write_text(dedent(GOOD))
    (path.parent / "beside.py").write_text("EPOCHS = 2\n")
    return str(path)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "beside", raising=False)


def test_a_class_of_a_file_is_imported_once_and_described(where: str) -> None:
    found = find_algorithm(f"{where}:Mine")
    assert find_algorithm(f"{where}:Mine") is found
    assert (found.name, found.summary, found.paper, found.leaves) == ("Mine", "Trains the body.", "", "the body")
    quiet = find_algorithm(f"{where}:Quiet")
    assert (quiet.name, quiet.summary, quiet.leaves) == ("Quiet", "", "nothing")
    assert issubclass(quiet, found)
    learner = build_learner(small_task(), f"{where}:Mine", rank=0, seed=0)
    before = learner.body
    learner.train(0)
    assert (learner.body != before).any()
    assert not build_learner(small_task(), quiet, rank=0, seed=0).about.shares


# The hash of the source of an algorithm of a user's own: other code gives another one, wherever it stands.


TRAIN = "def train(self, peer): peer.fit(peer.body, epochs=1, lr=RATE)\n"
MIXIN = "class Mix:\n    " + TRAIN
FILES = {
    "mixin": "from mixin import Mix\nclass Mine(Mix, Algorithm):\n    shares = 'body'\n",
    "plain": "class Mine(Algorithm):\n    shares = 'body'\n    " + TRAIN,
}

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write `mine.py`, and `mixin.py` beside it, into a folder; gives what --algorithm takes."""

    def write(folder: str, kind: str, rate: str) -> str:
        monkeypatch.delitem(sys.modules, "mixin", raising=False)
        here = tmp_path / folder
        here.mkdir(exist_ok=True)
        (here / "mixin.py").write_text(MIXIN.replace("RATE", rate))
        text = "from dpeer.training import Algorithm\n" + FILES[kind].replace("RATE", rate)
        (here / "mine.py").write_text(text)
        return f"{here / 'mine.py'}:Mine"

    yield write
    sys.modules.pop("mixin", None)


@pytest.mark.parametrize("kind", FILES)
def test_other_code_has_another_hash_and_equal_code_elsewhere_the_same(kind: str, write: Write) -> None:
    hashes = [
        source_hash(find_algorithm(write(folder, kind, rate)))
        for folder, rate in (("a", "0.1"), ("b", "0.1"), ("c", "0.2"))
    ]
    assert hashes[0] == hashes[1] != hashes[2]
    assert None not in hashes


def test_a_class_of_which_no_file_is_known_is_for_one_process_alone(write: Write) -> None:
    space = {"__name__": "nowhere"}
    exec("from dpeer.training import Algorithm\n" + FILES["plain"].replace("RATE", "0.1"), space)
    typed = space["Mine"]
    assert source_hash(typed) is None
    with pytest.raises(AlgorithmError):
        check_source("algorithm Mine", typed, AlgorithmError)
    check_source("algorithm Mine", find_algorithm(write("a", "mixin", "0.1")), AlgorithmError)


# Options: what is taken, what is refused and how, and which of them peers compare.


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

    def train(self, peer: Trainer) -> None:
        """Nothing."""


def test_what_peers_compare_are_the_shared_ones_as_plain_values() -> None:
    assert shared_options(make_options(Mine, {"k": 5})) == {
        "mu": 0.1, "k": 5, "kind": "near", "on": False, "many": [1, 2],
    }  # fmt: skip
    assert about_options(Mine)["own"].mark is Mark.OWN
    assert about_options(Mine)["k"].mark is Mark.SHARED
    assert shared_options(find_algorithm("fedbabu")().options) == {}
    assert shared_options(find_algorithm("ditto")().options) == {"ditto_lambda": 0.75}


OPTIONS = {
    "fedrod": {"personal", "hidden"},
    "fedavg-ls": {"smoothing"},
    "fedopt": {"server_optimizer", "server_lr", "tau", "beta1", "beta2"},
    "ditto": {"ditto_lambda"},
    "dis-pfl": {"sparsity", "prune_rate"},
    "fafed": {"corrected", "alpha", "beta2", "floor"},
    "fedlada": {"alpha", "beta2", "floor"},
    "fedadamw": {"aggregate", "blocks", "correct", "floor", "gamma"},
}


def test_built_in_options_have_words_and_limits() -> None:
    for algorithm in ALGORITHMS.values():
        about = about_options(algorithm)
        assert set(about) == OPTIONS.get(algorithm.name, set())
        assert all(one.words for one in about.values())
    bad = {"sparsity": ("dis-pfl", 1.0), "prune_rate": ("dis-pfl", 1.5), "ditto_lambda": ("ditto", -1)}
    for name, (algorithm_name, value) in bad.items():
        with pytest.raises(AlgorithmError):
            make_options(find_algorithm(algorithm_name), {name: value})


def test_a_setting_is_no_option_but_an_option_may_have_the_name_of_one() -> None:
    class Named(Mine):
        @dataclass(frozen=True)
        class Options:
            rho: float = 0.7
            size: int = 1

    assert make_options(Named, {"rho": 0.2}).rho == 0.2
    with refused(AlgorithmError, "--algorithm-option rho", "a setting of its own: --rho"):
        make_options(find_algorithm("dfedsam"), {"rho": 0.2})


# In a command, a script, a resumed run and a comparison.

PROX = """
from dataclasses import dataclass

from dpeer.training import Algorithm, option
from dpeer.training.gradients import proximal


class Prox(Algorithm):
    shares = "body"

    @dataclass(frozen=True)
    class Options:
        mu: float = option(0.1, "how strongly the body is pulled back", ge=0)
        twice: bool = option(False, "whether to train the head again", shared=False)

    def train(self, peer):
        h, start = peer.hyperparameters, peer.body.data.clone()
        for _ in range(1 + self.options.twice):
            peer.fit(peer.head, epochs=h.head_epochs, lr=h.head_lr)
        peer.fit(peer.body, epochs=h.body_epochs, lr=h.body_lr, gradient=proximal(self.options.mu, start))
"""


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(PROX)
    return "mine.py:Prox"


@pytest.mark.slow
def test_a_command_and_a_script_give_the_same_bits_which_follow_its_options_also_in_a_resumed_run(
    task, mine, simulate, results, tmp_path
):
    common = ("--size", 3, "--task", task, "--batch-size", 8, "--algorithm", mine)
    options = ("--algorithm-option", "mu=0.5", "--lr-schedule", "step:2")
    simulate(*common, *options, "--rounds", 3, "--out", "simulated")
    settings = dpeer.Settings(
        size=3, task=task, rounds=3, batch_size=8, algorithm=mine, algorithm_options={"mu": 0.5}, lr_schedule="step:2",
        alone="never", out=tmp_path / "script",
    )  # fmt: skip
    dpeer.run(settings)
    assert results("script", 3) == results("simulated", 3)
    summary = json.loads((tmp_path / "simulated" / "summary.json").read_text())
    assert summary["settings"]["algorithm_options"] == {"mu": 0.5}

    simulate(*common, "--rounds", 1, "--out", "default")
    again = (*common, "--rounds", 3, "--out", "default", "--resume", "--algorithm-option")
    assert "option mu is 0.1, this run's is 0.7" in simulate(*again, "mu=0.7", code=2).err
    simulate(*again, "twice=true")
    assert results("default", 3) != results("simulated", 3)


@pytest.mark.slow
@pytest.mark.usefixtures("run_cells_here")
def test_a_row_of_a_comparison_may_be_an_algorithm_of_ones_own(task, mine, dpeer):
    rows = f"local,{mine}:mu=0.9:body-lr=0.01"
    common = ("compare", "--task", task, "--size", 2, "--rounds", 2, "--batch-size", 8, "--out", "made")
    ended = dpeer(*common, "--algorithms", rows)
    assert ended.code == 0, ended.err
    assert "mine.py Prox mu=0.9" in " ".join(ended.out.split())
    asked = [json.loads(path.read_text()) for path in Path("made").glob("*/cell.json")]
    assert {"mu": 0.9} in [cell.get("algorithm_options") for cell in asked]
    for words in (("--algorithms", f"local,{mine}:nu=3"), ("--algorithms", rows, "--algorithm-option", "nu=3")):
        wrong = dpeer(*common, *words)
        assert wrong.code == 2
        assert "'nu'" in wrong.err
    common = (*common[:-1], "common", "--algorithm-option", "mu=0.3")
    assert dpeer(*common, "--algorithms", f"local,{mine}").code == 0
    asked = [json.loads(path.read_text()) for path in Path("common").glob("*/cell.json")]
    assert sorted(json.dumps(cell.get("algorithm_options")) for cell in asked) == ["null", '{"mu": 0.3}']
