"""A comparison that is made after the run has ended is the one that the run would have made."""

import contextlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import CheckpointError, ConfigurationError, OutputError, TaskError
from dpeer.federation.baseline.after_run import compare_after_run, give_away
from dpeer.federation.control_client import held
from dpeer.federation.run import Runner, drive_by_signals
from dpeer.federation.saved_models import saved_peer
from dpeer.federation.settings import Settings
from dpeer.federation.view import View
from dpeer.simulation.run import simulate

pytestmark = pytest.mark.usefixtures("one_thread")

TASK = """
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.training import Task


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.fc = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.2)), nn.Linear(6, 2)

    def forward(self, x):
        return self.fc(self.body(x))


def rows(rank, count):
    other = Path("other").exists()  # as if the file of the data was another one by now
    inputs = torch.randn(count, 4, generator=torch.Generator().manual_seed(rank + 10 * count + other))
    return TensorDataset(inputs, (inputs.sum(dim=1) > 0).long())


def task(rank, size, seed):
    torch.manual_seed(seed)
    return Task(model=Net(), head=("fc",), train=rows(rank, 40), validation=rows(rank, 20), test=rows(rank, 30))


def regression(rank, size, seed):
    made = task(rank, size, seed)
    parts = [
        TensorDataset(one.tensors[0], one.tensors[0].sum(dim=1, keepdim=True).expand(-1, 2))
        for one in (made.train, made.validation, made.test)
    ]
    return Task(model=made.model, head=("fc",), train=parts[0], validation=parts[1], test=parts[2],
                loss=nn.functional.mse_loss)
"""


def two_peers(
    out: str, drive: Callable[[Runner], None] = drive_by_signals, view: Any = None, *, resume: bool = False,
    **values: Any,
) -> Path:  # fmt: skip
    """Run two peers of the small task in this process; returns the run's folder."""
    made = Settings(out=Path(out).absolute(), **{"size": 2, "task": "mine.py:task", "batch_size": 8} | values)
    simulate(made, drive=drive, open_view=lambda: view or View(), resume=resume)
    return made.out


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Runs of four rounds without a comparison, unless said otherwise."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(TASK)
    return lambda *how, **values: two_peers(*how, **{"rounds": 4, "alone": "never"} | values)


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return found


def told(folder: Path) -> dict[str, Any]:
    """A summary but for what a run with another `--alone` and in another folder says anyway."""
    return {name: value for name, value in summary(folder).items() if name not in ("settings", "wall_seconds")}


def rounds(folder: Path) -> list[dict[str, Any]]:
    """What was measured in each round, but for how long it took."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if not name.endswith("_seconds")} for line in lines]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of one round."""
    folder = tmp_path_factory.mktemp("left")
    (folder / "mine.py").write_text(TASK)
    with contextlib.chdir(folder):
        two_peers("run", rounds=1, alone="never")
    return folder


@pytest.fixture
def ended(left: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, to be changed."""
    shutil.copytree(left, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


class Stopping(View):
    """Stops the run once every peer has completed some rounds."""

    def __init__(self, rounds: int) -> None:
        self.rounds, self.done, self.runner = rounds, set[int](), None

    def drive(self, runner: Runner) -> None:
        self.runner = runner
        drive_by_signals(runner)

    def record(self, rank: int, entry: Mapping[str, Any]) -> None:
        if entry["round"] + 1 == self.rounds:
            self.done.add(rank)
        if len(self.done) == 2 and self.runner is not None:
            self.runner.stop()


@pytest.mark.parametrize(
    "options",
    [{}, {"keep": "best", "evaluate_on": "validation", "algorithm": "dfedavgm", "finish": "head:2", "seed": 3}],
)  # fmt: skip
def test_it_is_the_one_that_the_run_would_have_made(run: Callable[..., Path], options: dict[str, Any]) -> None:
    expected, out = run("beside", **options | {"alone": "always"}), run("later", **options)
    for rank in range(2):
        there, folder = expected / f"rank-{rank}", out / f"rank-{rank}"
        assert summary(folder)["worth"]["verdict"] is None
        found = compare_after_run(folder)
        assert found.verdict is not None
        assert told(folder) == told(there)
        for name in ("model.safetensors", "test-rows.json"):
            assert (folder / name).read_bytes() == (there / name).read_bytes()
        assert rounds(folder) == rounds(there), "nothing of the run depends on it"
        cards = [json.loads((one / "model.json").read_text()) | {"written": None} for one in (folder, there)]
        assert cards[0] == cards[1]
        assert not (folder / "alone").exists()
        assert compare_after_run(folder) == found, "there is nothing left to be done"
    assert told(out) == told(expected), "the run's summary has it, too"


def test_a_run_that_ended_early_is_compared_over_its_completed_rounds(run: Callable[..., Path]) -> None:
    stopping = Stopping(3)
    out = run("early", stopping.drive, stopping, rounds=50, keep="best") / "rank-0"
    ended = summary(out)
    rounds = ended["completed_rounds"]
    assert ended["status"] == "stopped"
    assert 3 <= rounds < 50
    lines: list[str] = []
    found = compare_after_run(out, tell=lines.append)
    assert lines[0] == f"the run ended after {rounds} of 50 rounds: these are compared"
    assert (found.rounds, found.planned, found.rows) == (rounds, rounds, 30)
    assert found.joined == ended["accuracy"]
    assert summary(out)["kept_point"] == ("alone" if found.kept == "alone" else ended["kept_point"])
    assert found.constant is not None
    assert found.verdict is not None
    # dfedsmdc: five epochs of two gradients, and one of the head.
    other = run("local", algorithm="local", body_epochs=11, rounds=rounds, finish="none", keep="best") / "rank-0"
    assert found.alone == summary(other)["accuracy"]


def test_a_peer_that_was_left_behind_is_compared_with_its_model_as_it_was_finished_at_home(
    run: Callable[..., Path],
) -> None:
    stopping = Stopping(3)
    out = run("early", stopping.drive, stopping, rounds=50, finish="head:2", body_lr=0.01) / "rank-0"
    saved_peer(out, lambda line: None).files.conclude("left-behind")
    finished = summary(out)
    assert finished["accuracy_finished"] is not None
    model = (out / "model.safetensors").read_bytes()
    found = compare_after_run(out)
    assert found.joined == finished["accuracy_finished"]
    other = saved_peer(out, lambda line: None)
    other.parts.learner.fine_tune(other.completed - 1)
    other.parts.learner.write_model(out / "again")
    assert (out / "again").read_bytes() == model


def test_a_private_run_is_compared_without_a_release(run: Callable[..., Path]) -> None:
    out = run("private", privacy="client", noise_multiplier=2.0, rounds=2) / "rank-0"
    ledger = {path: path.read_bytes() for path in (out / "privacy").iterdir()}
    found = compare_after_run(out)
    assert (found.joined, found.rounds) == (summary(out)["accuracy"], 2)
    assert {path: path.read_bytes() for path in (out / "privacy").iterdir()} == ledger


def test_what_is_no_run_that_has_ended_is_told(ended: Path) -> None:
    out = ended
    with held(out / "rank-0"), pytest.raises(OutputError):
        compare_after_run(out / "rank-0")
    (out / "rank-0" / "summary.json").unlink()
    with pytest.raises(ConfigurationError):
        compare_after_run(out / "rank-0")
    (out / "rank-1" / "model.safetensors").unlink()
    with pytest.raises(ConfigurationError):
        compare_after_run(out / "rank-1")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"diverged": True}, "training has diverged"),
        ({"rounds_mixed": 0}, "in no round was a neighbor's body mixed"),
    ],
)
def test_a_run_of_which_nothing_can_be_told_says_why(ended: Path, changes: dict[str, Any], told: str) -> None:
    folder = ended / "rank-0"
    (folder / "summary.json").write_text(json.dumps(summary(folder) | changes))
    with pytest.raises(ConfigurationError, match=told):
        compare_after_run(folder)


@pytest.mark.parametrize("content", [True, False])
def test_other_data_than_the_runs_are_refused(ended: Path, tmp_path: Path, content: bool) -> None:
    folder = ended / "rank-0"
    if content:
        (tmp_path / "other").touch()
    else:  # of data that are not in memory only this is known
        (folder / "summary.json").write_text(json.dumps(summary(folder) | {"class_counts": [19, 21]}))
    kept = summary(folder)
    with pytest.raises(CheckpointError):
        compare_after_run(folder)
    assert summary(folder) == kept


def test_a_model_that_cannot_be_copied_is_told(ended: Path, tmp_path: Path) -> None:
    clinging = "\n\nclass Net(Net):\n    def __deepcopy__(self, memo):\n        raise ValueError('one of a kind')\n"
    (tmp_path / "mine.py").write_text(TASK.replace("\n\ndef rows", clinging + "\n\ndef rows"))
    with pytest.raises(TaskError):
        compare_after_run(ended / "rank-0")


@pytest.mark.parametrize(("rows", "refused"), [(3, ConfigurationError), (9, ConfigurationError), (10, CheckpointError)])
def test_a_gain_on_few_rows_tells_of_single_ones_and_stays_at_home(
    rows: int, refused: type[Exception], tmp_path: Path
) -> None:
    worth = {"measure": "test_loss", "rows": rows, "gain": 0.4, "low": -0.1, "high": 1.1, "verdict": "inconclusive"}
    (tmp_path / "summary.json").write_text(json.dumps({"rank": 0, "size": 2, "worth": worth}))
    # With rows enough it goes on, to the checkpoint that this folder has not.
    with pytest.raises(refused, match="below 10 a gain tells of single rows" if rows < 10 else "has no checkpoint"):
        give_away(tmp_path, tmp_path / "worth-0.json")
    assert not (tmp_path / "worth-0.json").exists()
