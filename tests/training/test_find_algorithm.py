"""Algorithms of a user's own: how they are found, and what is said where they cannot be used."""

import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from dpeer.exceptions import AlgorithmError, DpeerError, UnknownName
from dpeer.training import ALGORITHMS, Algorithm, Task, Trainer, build_learner, find_algorithm

GOOD = """
    from dataclasses import dataclass
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

    class Abstract(Algorithm):
        shares = "body"

    class Nowhere(Algorithm):
        def train(self, peer): ...

    class Everything(Nowhere):
        shares = "all"

    class Loose(Mine):
        class Options:
            k: int = 3

    class Thawed(Mine):
        @dataclass
        class Options:
            k: int = 3

    class Odd(Mine):
        @dataclass(frozen=True)
        class Options:
            k: "NoSuchType" = 3

    class Uses(Mine):
        uses = ("head_lr", "rho")

    class Alone(Mine):
        def __init__(self, options=None):
            self.mine = True

    class NoOptions(Mine):
        def __init__(self):
            super().__init__()

    class Fails(Mine):
        def train(self, peer):
            return peer.nothing

    class Beside(Quiet):
        def extras(self, split):
            return {"c": 3}

    class Counts(Mine):
        def extras(self, split):
            return {"c": 0.5}

    def function(peer): ...
    number = 3
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


def refused(act: Callable[[], object], message: str, error: type[DpeerError] = AlgorithmError) -> None:
    with pytest.raises(error, match=message) as caught:
        act()
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


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
    with pytest.raises(UnknownName, match="unknown algorithm 'dfedsmcd': did you mean 'dfedsmdc'"):
        find_algorithm("dfedsmcd")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Mien", r"has no 'Mien': did you mean 'Mine'\? it has Mine, Quiet, "),
        ("Algorithm", "is the class Algorithm; it must be a subclass of dpeer.training.Algorithm"),
        ("function", "is a function; it must be a subclass"),
        ("number", "is a int; it must be a subclass"),
        ("dataclass", "is a function; it must be a subclass"),
        ("Abstract", r"Abstract does not define train\(self, peer\)"),
        ("Nowhere", "its shares is missing; it must be one of 'model', 'body', 'nothing'"),
        ("Everything", "its shares is 'all'; it must be one of 'model', 'body', 'nothing'"),
        ("Loose", r"algorithm Loose: its Options must be a frozen dataclass: put @dataclass\(frozen=True\) above it"),
        ("Thawed", "its Options must be a frozen dataclass"),
        ("Odd", "algorithm Odd: its Options cannot be checked: NameError: name 'NoSuchType' is not defined"),
        ("Uses", "its uses name 'rho', which is no hyperparameter"),
    ],
)
def test_what_is_no_algorithm_is_refused_in_a_line(where: str, name: str, message: str) -> None:
    refused(lambda: find_algorithm(f"{where}:{name}"), message)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Alone", r"algorithm Alone: its __init__ must call super\(\).__init__\(options\)"),
        ("NoOptions", "algorithm NoOptions cannot be made with its options: TypeError"),
        ("Fails", "algorithm Fails failed in 'train': AttributeError: 'Trainer' object has no attribute 'nothing'"),
        ("Beside", r"algorithm Beside shares nothing, so that its extras \(c\) go nowhere"),
        ("Counts", r"algorithm Counts: its extras are \{'c': 0.5\}; they must be numbers of values"),
    ],
)
def test_what_goes_wrong_later_names_the_algorithm(
    where: str, name: str, message: str, make_task: Callable[..., Task]
) -> None:
    refused(lambda: build_learner(make_task(), f"{where}:{name}", rank=0, seed=0).train(0), message)


def test_what_cannot_be_imported_is_refused_in_a_line(tmp_path: Path) -> None:
    refused(lambda: find_algorithm("no/such.py:Mine"), r"^algorithm 'no/such.py:Mine': no such file: 'no/such.py'")
    refused(lambda: find_algorithm("no_such_module:Mine"), "cannot be imported: ModuleNotFoundError")
    refused(lambda: find_algorithm("mine.py"), "'mine.py' names no class; write 'mine.py:CLASS'")
    for text, message in (
        ("def broken(:\n", "cannot be imported: SyntaxError"),
        ("1 / 0\n", "cannot be imported: ZeroDivisionError"),
        ("raise SystemExit(3)\n", "cannot be imported: SystemExit"),
    ):
        path = tmp_path / "broken.py"
        path.write_text(text)
        refused(lambda path=path: find_algorithm(f"{path}:Mine"), message)


def test_a_class_can_be_given_as_it_is(make_task: Callable[..., Task]) -> None:
    class Here(Algorithm):
        shares = "model"

        def train(self, peer: Trainer) -> None:
            peer.fit(peer.model, epochs=1, lr=0.1)

    assert find_algorithm(Here) is Here
    assert build_learner(make_task(), Here, rank=0, seed=0).train(0) is not None
    refused(lambda: find_algorithm(int), "algorithm 'int' is the class int; it must be a subclass")
