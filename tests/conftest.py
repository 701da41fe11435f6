"""The `dpeer` command in this process, and whole runs by it; how errors read; what the garbage collector does."""

import gc
import hashlib
import itertools
import json
import os
import pickle
import re
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dpeer.cli import main
from tests.error_texts import watched_error_texts
from tests.runs import MODELS, SCHEDULE, words_of

PROGRESS = re.compile(
    r"(simulate|cluster): \d+ peers, |round \d+/|dpeer: rank \d+ of |dpeer: loading PyTorch"
    r"|\d\d:\d\d:\d\d rank \d+ (INFO|WARNING): "
    r"|rank 0: ([\w-]+ on \S+: \d+ training samples|not at their defaults: "
    r"|nothing is held out |the model with the least loss )"
)
"""Lines on stderr that say how it goes, not that something is wrong."""

SMALL_TASK = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.training import Task


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.fc = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x):
        return self.fc(self.body(x))


def task(rank, size, seed):
    torch.manual_seed(seed)
    data = TensorDataset(torch.randn(12, 4), torch.arange(12) % 2)
    return Task(model=Net(), head=("fc",), train=data, test=data)
"""


def pytest_configure() -> None:
    """Torch computes on one thread, here and in what tests start, unless it is told otherwise.

    Several processes test at a time, and threads of which each has little to do spend most of their time in waiting.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_finish() -> None:
    """Keep what was made by now, libraries and thousands of tests, out of every later search for garbage.

    It stays until the end, and to look through it takes half a second each time. What tests leave is still collected,
    after more allocations than usual: of the usual threshold most are objects that live on.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(autouse=True)
def error_texts_are_fit() -> Iterator[None]:
    """Fail a test in which dpeer makes an error of more lines than one, or of a text too long to be read."""
    with watched_error_texts():
        yield


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Torch computes on one thread, whatever it was told before."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@contextmanager
def private_bits_fixed() -> Iterator[None]:
    """Keys of private noise and batches are hashes of a counter, from 0 on."""
    from dpeer.privacy import randomness

    numbers = itertools.count()

    def urandom(size: int) -> bytes:
        return hashlib.shake_256(b"tests %d" % next(numbers)).digest(size)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(randomness, "os", SimpleNamespace(urandom=urandom))
        yield


@pytest.fixture
def fixed_private_bits() -> Iterator[None]:
    """Private noise and batches are the same in each run of a test."""
    with private_bits_fixed():
        yield


@dataclass
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def complaints(self) -> list[str]:
        """Lines on stderr besides those of progress."""
        return [line for line in self.err.splitlines() if line and not PROGRESS.match(line)]


@pytest.fixture
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def dpeer(in_tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Run `dpeer ARGUMENTS` in tmp_path, in this process."""

    def run(*arguments: object) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Ended(ended.value.code, captured.out, captured.err)

    return run


@pytest.fixture
def run_program(
    in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """`python PROGRAM ARGUMENTS` in this process; what it printed."""

    def run(program: Path, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [str(program), *map(str, arguments)])
        monkeypatch.syspath_prepend(program.parent)
        capsys.readouterr()
        try:
            runpy.run_path(str(program), run_name="__main__")
        except SystemExit as ended:
            if ended.code:
                raise AssertionError(capsys.readouterr().err) from ended
        return str(capsys.readouterr().out)

    return run


@pytest.fixture
def small_task(in_tmp_path: Path) -> Path:
    """A file with a task: `mine.py:task` has a body of 30 parameters and a head of 14."""
    path = in_tmp_path / "mine.py"
    path.write_text(SMALL_TASK)
    return path


@pytest.fixture
def simulate(dpeer: Callable[..., Ended], one_thread: None) -> Callable[..., Ended]:
    """`dpeer simulate ARGUMENTS` in this process, which ends with `code`."""

    def run(*arguments: object, code: int = 0) -> Ended:
        ended = dpeer(*words_of(["simulate", *arguments]))
        assert ended.code == code, ended.err
        return ended

    return run


@pytest.fixture
def run_cells_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """`dpeer compare` runs its cells in this process, with settings that another process could have been sent.

    Workers of their own are what tests/system/test_compare.py is about; to start them takes as long as a comparison.
    """
    from dpeer.experiments import comparison
    from dpeer.simulation.run import simulate as run_simulation

    def run(cells: Sequence[Any], launcher: object, tell: Callable[[str], None]) -> bool:
        for cell in cells:
            cell.check()
            if not cell.done:
                cell.claim()
                settings = pickle.loads(pickle.dumps(cell.settings))
                run_simulation(settings.model_copy(update={"alone": "never"}))
                tell(cell.folder.name)
        return True

    monkeypatch.setattr(comparison, "run_cells", run)


@pytest.fixture
def task(tmp_path: Path) -> str:
    """A bring-your-own task, as --task takes it, with its schedule."""
    (tmp_path / "small.py").write_text(MODELS)
    return "small.py:task"


@pytest.fixture
def schedule() -> tuple[str, ...]:
    return SCHEDULE


@pytest.fixture
def results(tmp_path: Path) -> Callable[[str, int], dict[str, Any]]:
    """What must be the same to the bit: metrics (times aside) and models of all ranks."""

    def read(out: str, size: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for rank in range(size):
            folder = tmp_path / out / f"rank-{rank}"
            entries = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
            found[f"metrics of rank {rank}"] = [
                {key: value for key, value in entry.items() if not key.endswith("_seconds")} for entry in entries
            ]
            found[f"model of rank {rank}"] = (folder / "model.safetensors").read_bytes()
        return found

    return read
