"""Bad input through the whole command: one line on stderr that names what is wrong, and the documented exit code."""

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]

TASKS = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.training import Task, partition


class Net(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 6), norm)
        self.fc = nn.Linear(6, 2)

    def forward(self, x):
        return self.fc(self.body(x))


def made(head=("fc",), norm=None, samples=12):
    data = TensorDataset(torch.randn(samples, 4), torch.arange(samples) % 2)
    return Task(model=Net(norm or nn.Identity()), head=head, train=data, test=data)


def good(rank, size, seed):
    return made()


def typo_in_head(rank, size, seed):
    return made(head=("fcc",))


def batch_norm(rank, size, seed):
    return made(norm=nn.BatchNorm1d(6))


def few_samples(rank, size, seed):
    partition([0, 1] * 20, size, "iid", seed)
    return made()


def raising(rank, size, seed):
    raise FileNotFoundError("no scans\\nfor this site")


def nothing(rank, size, seed):
    return None


def broken_loss(rank, size, seed):
    task = made()
    task.loss = lambda outputs, targets: outputs.undefined
    return task
"""


@pytest.fixture
def tasks(in_tmp_path: Path) -> str:
    (in_tmp_path / "mine.py").write_text(TASKS)
    return "mine.py"


@pytest.fixture
def refused(dpeer: Command) -> Command:
    """Run a command that must end with an exit code and one line that contains all of these."""

    def check(code: int, message: tuple[str, ...], *arguments: object) -> None:
        ended = dpeer(*arguments)
        assert ended.code == code, ended.err
        assert len(ended.complaints) == 1, ended.err
        (line,) = ended.complaints
        assert line.startswith("dpeer: ")
        assert not line.startswith("dpeer: unexpected ")
        for part in message:
            assert part in line
        assert "Traceback" not in ended.err
        assert ended.out == ""

    return check


SMALL = ("--size", 2, "--rounds", 2, "--body-epochs", 1)


@pytest.mark.parametrize("command", [("simulate",), ("cluster",), ("start", "--rank", 0)], ids=lambda c: c[0])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--topology", "rnig"), ("unknown topology 'rnig'", "did you mean 'ring'?", "torus")),
        (("--size", 1), ("--size", "1", "greater than or equal to 2")),
        (("--size", "eight"), ("--size", "eight", "integer")),
        (
            ("--topology", "star", "--weights", "uniform"),
            ("star: weights uniform: the graph is not regular", "metropolis"),
        ),
        (("--topology", "grid", "--size", 7), ("size 7 is prime",)),
        (("--body-lr", "-1"), ("--body-lr", "-1", "greater than 0")),
        (("--keep", "first"), ("--keep", "first", "last", "best")),
        (("--federation", "none.toml"), ("--federation", "none.toml", "No such file")),
        (("--task-option", "data"), ("--task-option 'data'", "KEY=VALUE")),
        (("--resume",), ("--resume: no run of", "dpeer-run", "start one without --resume")),
        (("--resume", "--overwrite"), ("--resume and --overwrite exclude each other",)),
        (("--topolgy", "ring"), ("--topolgy", "--topology")),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_started(
    command: tuple[object, ...],
    arguments: tuple[object, ...],
    message: tuple[str, ...],
    refused: Command,
    tmp_path: Path,
) -> None:
    refused(2, message, *command, *arguments)
    assert list(tmp_path.glob("dpeer-run/rank-*")) == []


@pytest.mark.parametrize("command", [("simulate",), ("start", "--rank", 0)], ids=lambda c: c[0])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--task", "digit"), ("unknown task 'digit'", "did you mean 'digits'?")),
        (("--task", "mine.py:good", "--algorithm", "dfedmcd"), ("'dfedmcd'", "did you mean 'dfedmdc'?", "local")),
        (("--task", "mine.py:typo_in_head"), ("'fcc'", "matches no parameter", "did you mean 'fc'?")),
        (("--task", "mine.py:batch_norm"), ("BatchNorm1d 'body.1' cannot be shared", "GroupNorm")),
        (
            ("--task", "digits", "--size", 200, "--partition", "iid"),
            ("1438 training samples for 200 peers", "at most 143 peers"),
        ),
        (("--task", "mine.py:few_samples", "--size", 41), ("40", "41")),
        (("--task", "mine.py"), ("'mine.py' names no factory", "'mine.py:task'")),
        (("--task", "yours.py:task"), ("there is no file 'yours.py'",)),
        (("--task", "mine.py:god"), ("'god'", "good")),
        (("--task", "no.such.package:task"), ("no.such.package:task", "cannot be imported", "No module named 'no'")),
        (("--task", "mine.py:raising"), ("mine.py:raising", "FileNotFoundError: no scans for this site")),
        (("--task", "mine.py:nothing"), ("returned a NoneType", "dpeer.training.Task")),
        (("--task", "mine.py:good", "--task-option", "path=x"), ("mine.py:good", "path")),
        (("--task", "mine.py:good", "--partition", "iid"), ("--partition iid", "mine.py:good", "--task-option")),
        (("--task", "digits", "--partition", "dirchlet:0.3"), ("'dirchlet", "dirichlet")),
        (("--task", "mine.py:good", "--keep", "best", "--validation", 0), ("--keep best", "validation")),
    ],
)
def test_what_a_task_cannot_be_is_one_line(
    command: tuple[object, ...],
    arguments: tuple[object, ...],
    message: tuple[str, ...],
    refused: Command,
    tasks: str,
    free_port: int,
) -> None:
    port = ("--base-port", free_port) if command[0] == "start" else ()
    refused(2, message, *command, *SMALL, *port, *arguments)


@pytest.fixture
def free_port() -> int:
    """Free now; nothing is meant to bind it."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return min(port, 60000)


def test_a_loss_that_fails_in_the_first_round_is_one_line(refused: Command, tasks: str) -> None:
    refused(
        2, ("loss failed on a training batch", "AttributeError"), "simulate", *SMALL, "--task", "mine.py:broken_loss"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rank", 8), ("rank 8 does not exist", "size 8: 0..7")),
        (("--rank", 9, "--size", 9), ("rank 9 does not exist", "0..8")),
        (("--rank", "one"), ("--rank 'one'", "a number from 0")),
        (("--rank", "-1"), ("--rank '-1'",)),
        ((), ("--rank",)),
        (("--rank", 0, "--base-port", 65530), ("--base-port 65530", "65537", "65535")),
    ],
)
def test_a_rank_that_does_not_exist_is_refused(
    arguments: tuple[object, ...], message: tuple[str, ...], refused: Command
) -> None:
    refused(2, message, "start", *arguments)


@pytest.mark.parametrize("name", ["SLURM_PROCID", "OMPI_COMM_WORLD_RANK"])
def test_a_rank_from_the_environment_is_checked_like_one_that_was_typed(
    name: str, refused: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_PROCID", raising=False)
    monkeypatch.setenv(name, "9")
    refused(2, ("rank 9 does not exist",), "start", "--rank", "env")
    monkeypatch.setenv(name, "x9")
    refused(2, (name, "x9"), "start", "--rank", "env")


@pytest.fixture
def busy_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("command", ["simulate", "cluster"])
def test_a_mistyped_baseline_is_said_before_the_run_not_after_it(
    command: str, refused: Command, tasks: str, tmp_path: Path
) -> None:
    refused(2, ("'locl'", "did you mean 'local'?"), command, *SMALL, "--task", "mine.py:good", "--baseline", "locl")
    assert list(tmp_path.glob("dpeer-run/rank-*")) == []


def test_the_runs_own_algorithm_is_no_baseline(refused: Command, tasks: str, tmp_path: Path) -> None:
    arguments = (*SMALL, "--task", "mine.py:good", "--algorithm", "dfedavgm", "--baseline", "dfedavgm")
    refused(2, ("--baseline dfedavgm", "another algorithm"), "simulate", *arguments)
    assert list(tmp_path.glob("dpeer-run/rank-*")) == []


def test_a_baseline_that_cannot_work_does_not_take_the_runs_results_along(
    dpeer: Command, tasks: str, tmp_path: Path
) -> None:
    ended = dpeer("simulate", *SMALL, "--task", "mine.py:good", "--quantize", 8, "--baseline", "dis-pfl")
    assert ended.code == 2
    assert "dfedsmdc after" in ended.out
    (line,) = [line for line in ended.complaints if line.startswith("dpeer: ")]
    assert "--quantize 8 cannot be used with dis-pfl" in line


def test_a_port_in_use_is_named(refused: Command, tasks: str, busy_port: int) -> None:
    refused(
        2, (f"'tcp://127.0.0.1:{busy_port}' is in use",),
        "start", "--rank", 0, "--base-port", min(busy_port, 65534), *SMALL, "--task", "mine.py:good",
    )  # fmt: skip


def test_listening_to_other_hosts_needs_insecure(refused: Command, tmp_path: Path) -> None:
    (tmp_path / "dpeer.toml").write_text('size = 2\n[rank.0]\naddress = "tcp://0.0.0.0:7700"')
    refused(2, ("rank 0", "'tcp://0.0.0.0:7700'", "--insecure"), "start", "--rank", 0)


def test_neighbors_without_any_address_are_named(refused: Command, tasks: str, tmp_path: Path, free_port: int) -> None:
    (tmp_path / "dpeer.toml").write_text(f'size = 4\n[rank.0]\naddress = "tcp://127.0.0.1:{free_port}"')
    refused(2, ("ranks 1 and 2 are neighbors and neither has an address",), "start", "--rank", 1, "--task",
            "mine.py:good")  # fmt: skip


def test_an_unknown_key_of_dpeer_toml_is_refused_with_the_nearest(refused: Command, tmp_path: Path) -> None:
    (tmp_path / "dpeer.toml").write_text("topolgy = 'ring'")
    for command in (("simulate",), ("cluster",), ("start", "--rank", 0)):
        refused(2, ("dpeer.toml", "'topolgy'", "did you mean 'topology'?"), *command)


def test_an_unknown_command_is_refused_with_the_nearest(refused: Command) -> None:
    refused(2, ("'clutser'", "did you mean 'cluster'?"), "clutser")
    refused(2, ("--verison",), "--verison")


# -- an earlier run in the way, or gone -------------------------------------------------------------------------------


@pytest.fixture
def finished(dpeer: Command, tasks: str) -> tuple[object, ...]:
    """The command of a run of two rounds that has been done, for another one of three."""
    command = ("simulate", "--size", 2, "--body-epochs", 1, "--task", "mine.py:good")
    assert dpeer(*command, "--rounds", 2).code == 0
    return (*command, "--rounds", 3)


def test_an_output_folder_in_use_stays_as_it_is(
    finished: tuple[object, ...], refused: Command, dpeer: Command, tmp_path: Path
) -> None:
    before = (tmp_path / "dpeer-run" / "rank-0" / "metrics.jsonl").read_bytes()
    refused(2, ("rank-0' holds an earlier run", "--resume", "--overwrite", "--out"), *finished)
    assert (tmp_path / "dpeer-run" / "rank-0" / "metrics.jsonl").read_bytes() == before
    assert dpeer(*finished, "--overwrite").code == 0
    assert before != (tmp_path / "dpeer-run" / "rank-0" / "metrics.jsonl").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("command", [("simulate",), ("start", "--rank", 0)], ids=lambda c: c[0])
@pytest.mark.parametrize(
    "mistake",
    [("--topology", "rnig"), ("--algorithm", "dfedmcd"), ("--task", "mine.py:god"), ("--task", "mine.py:typo_in_head")],
    ids=lambda mistake: mistake[1],
)
def test_a_mistyped_overwrite_removes_nothing(
    command: tuple[object, ...],
    mistake: tuple[str, str],
    finished: tuple[object, ...],
    refused: Command,
    tmp_path: Path,
    free_port: int,
) -> None:
    metrics = tmp_path / "dpeer-run" / "rank-0" / "metrics.jsonl"
    before = metrics.read_bytes()
    port = ("--base-port", free_port) if command[0] == "start" else ()
    refused(2, (), *command, *finished[1:], "--overwrite", *port, *mistake)
    assert metrics.read_bytes() == before


def test_a_run_that_is_done_can_be_resumed_with_more_rounds(
    finished: tuple[object, ...], dpeer: Command, tmp_path: Path
) -> None:
    assert dpeer(*finished, "--resume").code == 0
    assert json.loads((tmp_path / "dpeer-run" / "summary.json").read_text())["completed_rounds"] == [3, 3]


def test_a_run_of_other_settings_is_not_resumed(finished: tuple[object, ...], refused: Command) -> None:
    refused(2, ("body_lr is 0.05 there and 0.5 here", "--overwrite"), *finished, "--resume", "--body-lr", 0.5)
    refused(2, ("has completed 2 rounds", "--rounds 1"), *finished, "--resume", "--rounds", 1)


@pytest.mark.parametrize("damage", ["changed", "cut", "removed", "state"])
def test_a_damaged_checkpoint_is_named(
    damage: str, finished: tuple[object, ...], refused: Command, tmp_path: Path
) -> None:
    folder = tmp_path / "dpeer-run" / "rank-1"
    (checkpoint,) = (folder / "checkpoint").iterdir()
    tensors = next((checkpoint / "learner").glob("*.safetensors"))
    match damage:
        case "changed":
            tensors.write_bytes(tensors.read_bytes()[:-1] + b"\x7f")
        case "cut":
            tensors.write_bytes(tensors.read_bytes()[:20])
        case "removed":
            shutil.rmtree(checkpoint / "learner")
        case "state":
            (checkpoint / "state.json").write_text("{")
    refused(2, (checkpoint.name, "damaged"), *finished, "--resume")


# -- tracebacks ------------------------------------------------------------------------------------------------------


def test_debug_shows_the_traceback_wherever_it_stands(dpeer: Command, tasks: str) -> None:
    command = ("simulate", *SMALL, "--task", "mine.py:raising")
    for arguments in (("--debug", *command), (*command, "--debug")):
        ended = dpeer(*arguments)
        assert ended.code == 2
        assert "Traceback (most recent call last)" in ended.err
        assert 'raise FileNotFoundError("no scans' in ended.err
        assert ended.err.splitlines()[-1].startswith("dpeer: rank 0: task 'mine.py:raising' failed")


def test_a_bug_is_one_line_too_and_its_code_is_one(dpeer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("dpeer.cli.local_run.simulate", broken)
    ended = dpeer("simulate")
    assert ended.code == 1
    assert ended.complaints == ["dpeer: unexpected ZeroDivisionError: division by zero (--debug shows where)"]


@pytest.mark.slow
@pytest.mark.parametrize("program", [("-m", "dpeer"), ("-c", "from dpeer.cli import main; main()")])
def test_the_real_command_ends_with_the_same_line_and_code(program: tuple[str, ...], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, *program, "cluster", "--topology", "rnig"],
        cwd=tmp_path, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("dpeer: unknown topology 'rnig': did you mean 'ring'?")


@pytest.mark.slow
def test_an_error_in_a_cluster_names_the_rank_and_has_the_peers_code(tasks: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dpeer", "cluster", *map(str, SMALL), "--task", "mine.py:batch_norm"],
        cwd=tmp_path, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("dpeer: "))
    assert line.startswith("dpeer: rank ")
    assert line.removeprefix("dpeer: rank ")[:3] in ("0: ", "1: ")
    assert "BatchNorm1d 'body.1' cannot be shared" in line


def test_help_and_version_are_no_errors(dpeer: Command) -> None:
    for arguments in (("--help",), ("start", "--help"), ("cluster", "-h"), ("simulate", "-h"), ("topology", "-h")):
        ended = dpeer(*arguments)
        assert (ended.code, ended.err) == (0, "")
        assert "Usage: dpeer" in ended.out
    assert dpeer("--version").out.startswith("dpeer, version ")
    bare = dpeer()
    assert bare.code == 2
    assert "Commands:" in bare.err
