"""dpeer from Python: in scripts, in processes of their own, in a notebook."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import dpeer
from dpeer.exceptions import ConfigurationError, OutputError
from dpeer.training.randomness import LOCK
from tests.thinning import only

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.fc = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.fc(self.body(x))
        return out


def make_task(rank: int, size: int, seed: int, shift: float = 0.0) -> dpeer.Task:
    net = Net()
    generator = torch.Generator().manual_seed(rank)
    data = TensorDataset(torch.randn(12, 4, generator=generator) + shift, torch.arange(12) % 2)
    return dpeer.Task(model=net, head=("fc",), train=data, test=data)


@pytest.fixture
def small(tmp_path: Path) -> Callable[..., dpeer.Settings]:
    def make(**values: Any) -> dpeer.Settings:
        return dpeer.Settings(**{"size": 3, "rounds": 2, "task": make_task, "out": tmp_path / "run", **values})

    return make


def python(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script of this code."""
    (folder / "script.py").write_text(code)
    return subprocess.run(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, timeout=200,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip


def test_a_run_gives_what_its_folder_holds(small: Callable[..., dpeer.Settings], tmp_path: Path) -> None:
    run = dpeer.run(small())
    assert run.folder == tmp_path / "run"
    assert run.summary == json.loads((run.folder / "summary.json").read_text())
    lines = (run.folder / "rank-1" / "metrics.jsonl").read_text().splitlines()
    assert run.metrics(1) == [json.loads(line) for line in lines]
    model = Net()
    model.load_state_dict(run.model(2))
    task = make_task(2, 3, 0)
    inputs, targets = task.test.tensors
    assert (model(inputs).argmax(1) == targets).float().mean().item() == pytest.approx(run.summary["accuracy"][2])
    again = dpeer.open_run(str(run.folder))
    assert again.summary == run.summary
    assert repr(again) == f"<dpeer run in {str(run.folder)!r}>"
    page = run.report(tmp_path / "page")
    assert page == tmp_path / "page" / "index.html"
    assert "dfedsmdc" in page.read_text()


def test_a_task_is_a_callable_and_its_options_reach_it(small: Callable[..., dpeer.Settings], tmp_path: Path) -> None:
    plain = dpeer.run(small(out=tmp_path / "plain"))
    shifted = dpeer.run(small(out=tmp_path / "shifted", task_options={"shift": 3.0}))
    inside = dpeer.run(small(out=tmp_path / "inside", task=lambda rank, size, seed: make_task(rank, size, seed, 3.0)))
    assert plain.metrics(0)[-1]["test_loss"] != shifted.metrics(0)[-1]["test_loss"]
    assert inside.metrics(0)[-1]["test_loss"] == shifted.metrics(0)[-1]["test_loss"]


def test_a_file_that_was_edited_between_runs_counts(small: Callable[..., dpeer.Settings], tmp_path: Path) -> None:
    """As in a notebook: an own task and an own graph, each by its file."""
    task, graph = tmp_path / "edited.py", tmp_path / "graph.txt"
    for number, (shift, edges) in enumerate([(0.0, "0 1\n1 2\n"), (3.0, "0 1\n1 2\n0 2\n")]):
        code = f"def task(rank, size, seed):\n    return make_task(rank, size, seed, {shift})\n"
        task.write_text(f"from tests.test_api import make_task\n\n{code}")
        graph.write_text(edges)
        settings = small(task=f"{task}:task", topology=f"file:{graph}", out=tmp_path / f"by-file-{number}")
        found, expected = dpeer.run(settings), dpeer.run(
            small(out=tmp_path / f"plain-{number}", task_options={"shift": shift}, topology=f"file:{graph}")
        )  # fmt: skip
        assert found.metrics(0)[-1]["test_loss"] == expected.metrics(0)[-1]["test_loss"]
        assert len(found.metrics(0)[-1]["heard"]) == number + 1


def test_every_line_comes_to_the_listener(small: Callable[..., dpeer.Settings]) -> None:
    lines: list[dict[str, Any]] = []
    run = dpeer.run(small(), on_record=lines.append)
    assert sorted((line["rank"], line["round"]) for line in lines) == [(r, t) for r in range(3) for t in range(2)]
    for line in lines:
        (same,) = [entry for entry in run.metrics(line["rank"]) if entry["round"] == line["round"]]
        assert line == {"rank": line["rank"], **same}


def test_a_run_leaves_the_scripts_own_generators_and_threads_alone(small: Callable[..., dpeer.Settings]) -> None:
    torch.manual_seed(5)
    np.random.seed(5)
    random.seed(5)
    expected = torch.rand(1).item(), np.random.random(), random.random(), torch.get_num_threads()
    torch.manual_seed(5)
    np.random.seed(5)
    random.seed(5)
    dpeer.run(small(rounds=1))
    assert (torch.rand(1).item(), np.random.random(), random.random(), torch.get_num_threads()) == expected


def test_what_the_listener_raises_ends_the_run(small: Callable[..., dpeer.Settings]) -> None:
    def fail(line: dict[str, Any]) -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError):
        dpeer.run(small(rounds=50), on_record=fail)


def test_no_peer_draws_while_the_listener_is_called(small: Callable[..., dpeer.Settings]) -> None:
    """What it draws from the process's generators would change what a peer draws."""
    free: list[bool] = []

    def listen(line: dict[str, Any]) -> None:
        other = threading.Thread(target=lambda: free.append(LOCK.acquire(blocking=False)))
        other.start()
        other.join()

    dpeer.run(small(size=2, rounds=1), on_record=listen)
    assert free == [False, False]


def test_a_listener_does_not_start_another_run(small: Callable[..., dpeer.Settings], tmp_path: Path) -> None:
    """Its own run would wait for it, and it for that run."""
    with pytest.raises(ConfigurationError):
        dpeer.run(small(), on_record=lambda line: dpeer.run(small(out=tmp_path / "inner")))
    assert dpeer.run(small(), overwrite=True).summary["status"] == "done"


def test_an_earlier_run_is_kept_resumed_or_overwritten(small: Callable[..., dpeer.Settings]) -> None:
    first = dpeer.run(small()).metrics(0)
    with pytest.raises(OutputError):
        dpeer.run(small())
    longer = dpeer.run(small(rounds=3), resume=True).metrics(0)
    assert longer[:2] == first
    assert len(longer) == 3
    assert len(dpeer.run(small(rounds=1), overwrite=True).metrics(0)) == 1


ENVIRONMENT = """
import os
import dpeer
from small import task

def mine(rank, size, seed):
    print(os.environ.get("MINE"), os.environ.get("HOME"), os.path.basename(os.getcwd()))
    return task(rank, size, seed)

GUARD
    for value in ("first", None):
        if value is None:
            del os.environ["MINE"]
        else:
            os.environ["MINE"] = value
        os.makedirs(str(value), exist_ok=True)
        os.chdir(str(value))
        dpeer.run(dpeer.Settings(size=2, rounds=1, task=mine, out="run"), mode="cluster")
        os.chdir("..")
"""


def test_the_scripts_own_task_runs_in_processes_with_folder_and_environment_of_now(small_task: Path) -> None:
    folder = small_task.parent
    small_task.rename(folder / "small.py")
    too_long_for_sockets = folder / ("scratch_of_job_" * 7) / "node"
    too_long_for_sockets.mkdir(parents=True)
    guarded = ENVIRONMENT.replace("GUARD", "if __name__ == '__main__':")
    done = python(guarded, folder, HOME="here", TMPDIR=str(too_long_for_sockets))
    assert (done.returncode, done.stderr) == (0, "")
    for value in ("first", "None"):
        assert (folder / value / "run" / "rank-1" / "output.txt").read_text() == f"{value} here {value}\n"
        lines = map(json.loads, (folder / value / "run" / "rank-1" / "log.jsonl").read_text().splitlines())
        (at,) = (line["address"] for line in lines if line["event"] == "listening")
        assert at.startswith("ipc://")
        assert not Path(at.removeprefix("ipc://")).parent.exists(), "the folder of the sockets ends with the run"
    unguarded = python(ENVIRONMENT.replace("GUARD", "if True:").replace("str(value)", "'other'"), folder)
    assert "PeerFailed" in unguarded.stderr
    assert "put the call below `if __name__ == '__main__':`" in unguarded.stderr


INTERRUPTED = """
import dpeer

def tell(line):
    print(line["round"], flush=True)

if __name__ == "__main__":
    settings = dpeer.Settings(size=3, rounds=100000, evaluate_every=1000, task="small.py:task", out=MODE)
    try:
        dpeer.run(settings, mode=MODE, on_record=tell)
    except KeyboardInterrupt:
        print(dpeer.open_run(MODE).summary["status"])
"""


@pytest.mark.parametrize("mode", only(["cluster"], ["simulate", "cluster"]))
def test_ctrl_c_stops_a_script_and_its_last_round_is_kept(mode: str, small_task: Path) -> None:
    folder = small_task.parent
    small_task.rename(folder / "small.py")
    (folder / "script.py").write_text(INTERRUPTED.replace("MODE", repr(mode)))
    with subprocess.Popen(
        [sys.executable, "script.py"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        while (line := process.stdout.readline()) and int(line) < 2:
            pass
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=200)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines()[-1] == "stopped"
    run = dpeer.open_run(folder / mode)
    rounds = [len(run.metrics(rank)) for rank in range(3)]
    # Of processes one may have completed the round for which the others still waited.
    assert max(rounds) - min(rounds) <= (mode == "cluster")
    assert min(rounds) >= 3


def test_a_run_may_be_started_from_any_thread(small: Callable[..., dpeer.Settings]) -> None:
    found: list[dpeer.Run] = []
    thread = threading.Thread(target=lambda: found.append(dpeer.run(small(rounds=1))))
    thread.start()
    thread.join()
    assert found[0].summary["status"] == "done"


def test_a_failing_peer_is_an_error_that_names_it(small: Callable[..., dpeer.Settings]) -> None:
    def broken(rank: int, size: int, seed: int) -> dpeer.Task:
        if rank == 1:
            raise OSError("no data here")
        return make_task(rank, size, seed)

    with pytest.raises(ConfigurationError) as raised:
        dpeer.run(small(task=broken))
    assert str(raised.value).startswith("rank 1: ")
    assert "no data here (test_api.py line " in str(raised.value)


def test_the_notebook_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4)
    small_one = notebook.cells[1].source.replace("size=8", "size=3").replace("rounds=5", "rounds=2")
    assert small_one != notebook.cells[1].source
    notebook.cells[1].source = small_one.replace("size=3", "size=4, body_epochs=1")
    client = nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute(env={**os.environ, "PYTHONPATH": str(ROOT)})
    (shown,) = notebook.cells[4].outputs
    assert len(eval(shown["data"]["text/plain"])) == 2
    written = "".join(one["text"] for one in notebook.cells[1].outputs if one.get("name") == "stdout")
    assert written.rpartition("\r")[2].startswith("round 2/2, loss "), "the last round, below the cell"
    (summary,) = notebook.cells[2].outputs
    assert "accuracy_mean" in summary["data"]["text/plain"]
