"""The hash of the source of an algorithm of a user's own: other code gives another one, wherever it stands."""

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from dpeer.exceptions import AlgorithmError
from dpeer.plugins import check_source
from dpeer.training import find_algorithm, source_hash

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


def test_the_hash_is_of_the_files_of_the_class_and_its_bases(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        dedent(
            """
            import functools
            import torch
            from abc import ABC
            from dataclasses import dataclass
            from typing import Generic, TypeVar
            from dpeer.training import Algorithm

            T = TypeVar("T")

            class Base(Algorithm):
                shares = "body"

                @torch.no_grad()
                def train(self, peer): ...

                @functools.cached_property
                def number(self): return 3

            class Mine(Base, Generic[T], ABC):
                @property
                def other(self): return 4
            """
        )
    )
    once = path.read_bytes()
    assert source_hash(find_algorithm(f"{path}:Base")) == hashlib.sha256(once).hexdigest()
    assert source_hash(find_algorithm(f"{path}:Mine")) == hashlib.sha256(once).hexdigest()


def test_the_hash_is_of_what_was_imported(write: Write) -> None:
    where = write("a", "plain", "0.1")
    found = find_algorithm(where)
    before = source_hash(found)
    write("a", "plain", "0.2")
    assert source_hash(found) == before != source_hash(find_algorithm(write("b", "plain", "0.2")))


def test_a_class_of_which_no_file_is_known_is_for_one_process_alone(write: Write) -> None:
    space = {"__name__": "nowhere"}
    exec("from dpeer.training import Algorithm\n" + FILES["plain"].replace("RATE", "0.1"), space)
    typed = space["Mine"]
    assert source_hash(typed) is None
    with pytest.raises(AlgorithmError):
        check_source("algorithm Mine", typed, AlgorithmError)
    check_source("algorithm Mine", find_algorithm(write("a", "mixin", "0.1")), AlgorithmError)
