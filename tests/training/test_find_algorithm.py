"""Algorithms of a user's own: how they are found, and what is said where they cannot be used."""

import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from dpeer.training import ALGORITHMS, Algorithm, Task, Trainer, build_learner, find_algorithm

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


def test_a_class_of_a_file_is_imported_once_and_described(where: str, make_task: Callable[..., Task]) -> None:
    found = find_algorithm(f"{where}:Mine")
    assert find_algorithm(f"{where}:Mine") is found
    assert (found.name, found.summary, found.paper, found.leaves) == ("Mine", "Trains the body.", "", "the body")
    quiet = find_algorithm(f"{where}:Quiet")
    assert (quiet.name, quiet.summary, quiet.leaves) == ("Quiet", "", "nothing")
    assert issubclass(quiet, found)
    learner = build_learner(make_task(), f"{where}:Mine", rank=0, seed=0)
    before = learner.body
    learner.train(0)
    assert (learner.body != before).any()
    assert not build_learner(make_task(), quiet, rank=0, seed=0).shares


def test_a_class_of_a_module(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(where).parent)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    assert find_algorithm("mine:Mine").__module__ == "mine"
    monkeypatch.delitem(sys.modules, "mine")


def test_built_in_names_and_classes() -> None:
    for name, algorithm in ALGORITHMS.items():
        assert find_algorithm(name) is algorithm is find_algorithm(algorithm)
        assert algorithm.name == name


def test_a_class_can_be_given_as_it_is(make_task: Callable[..., Task]) -> None:
    class Here(Algorithm):
        shares = "model"

        def train(self, peer: Trainer) -> None:
            peer.fit(peer.model, epochs=1, lr=0.1)

    assert find_algorithm(Here) is Here
    assert build_learner(make_task(), Here, rank=0, seed=0).train(0) is not None
