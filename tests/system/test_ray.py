"""`dpeer compare` on a Ray cluster of two nodes on this machine: its bits are those of local runs, whatever is lost."""

import json
import re
import signal
import tempfile
from functools import partial
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

pytestmark = pytest.mark.slow

ON_RAY = ("--launcher", "ray")
SIZE, ROUNDS = 2, 3
NODE = {"num_cpus": 1, "object_store_memory": 100 * 2**20}

TASK = '''
"""The task of small.py; with seeds from 1 on it stands still in the last round, on the node `second`.

On the other node it does not begin before that: a node whose workers import torch slowly would find nothing to do.
"""

import os
import time
from pathlib import Path

import small


class Data(small.Data):
    def __getitem__(self, index):
        self.fetched = getattr(self, "fetched", 0) + 1
        if self.fetched > 2 * 60 and os.environ.get("NODE") == "second":
            open(f"caught-{os.getpid()}", "w").close()
            time.sleep(1000)
        return super().__getitem__(index)


def task(rank, size, seed):
    made = small.task(rank, size, seed)
    if seed >= 1:
        made.train.__class__ = Data
        while os.environ.get("NODE") != "second" and not [*Path().glob("caught-*")]:
            time.sleep(0.05)
    return made
'''


@pytest.fixture(scope="module")
def cluster():
    # Not in pytest's own folder: names of sockets are short.
    with (
        tempfile.TemporaryDirectory(prefix="dpeer-", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("RAY_TMPDIR", folder)
        patch.setenv("RAY_worker_niceness", "0")  # by default 15: beside other load a worker would hardly run
        (Path(folder) / "ray").mkdir()  # the address of the cluster is written before Ray makes it
        started = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        yield started
        started.shutdown()


@pytest.fixture(autouse=True)
def address(cluster, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)


@pytest.fixture
def compare(task, schedule, tmp_path):
    """The command, for a task that a test may make slow."""
    (tmp_path / "halting.py").write_text(TASK)

    def made(*more: object, task: str = "halting.py:task", rounds: int = ROUNDS) -> tuple[object, ...]:
        return ("compare", "--task", task, *schedule, "--size", SIZE, "--rounds", rounds, *more)

    return made


def test_cells_of_a_killed_node_go_on_elsewhere_and_all_have_the_bits_of_local_ones(
    cluster, compare, dpeer, meanwhile, results, request, tmp_path
):
    second = cluster.add_node(**NODE, env_vars={"NODE": "second"})
    rows = ("--algorithms", "dfedmdc", "--seeds", "0-2")
    caught: list[list[Path]] = []
    begun: dict[Path, str] = {}

    def kill() -> None:
        caught.append(sorted(tmp_path.glob("ray/*/summary.json")))
        begun.update({path: path.read_text() for path in tmp_path.glob("ray/*/rank-0/metrics.jsonl")})
        cluster.remove_node(second, allow_graceful=False)

    with meanwhile(lambda: [*tmp_path.glob("caught-*")], kill):
        ended = dpeer(*compare(*rows, *ON_RAY, "--out", "ray", "--json"))
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["seeds"] == [*range(3)], "figures alone are on stdout, whatever Ray reports"
    assert "3/3 " in ended.err
    for path, text in begun.items():  # gone on with, not begun anew: even the times are those of before
        assert path.read_text().startswith(text.partition("\n")[0])
    assert 0 < len(caught[0]) < 3

    request.getfixturevalue("run_cells_here")
    assert dpeer(*compare(*rows, "--out", "here")).code == 0
    cells = sorted(path.parent.name for path in tmp_path.glob("here/*/summary.json"))
    assert len(cells) == 3
    for name in cells:
        assert results(f"ray/{name}", SIZE) == results(f"here/{name}", SIZE)
    tables = [(tmp_path / out / "comparison.md").read_text() for out in ("ray", "here")]
    assert tables[0] == tables[1]


def test_a_mistake_a_node_without_dpeer_and_ctrl_c_end_a_comparison(
    cluster, compare, slow_after, dpeer, meanwhile, interrupt, rounds_done, task, tmp_path
):
    def complaint(*more: object) -> str:
        ended = dpeer(*compare("--algorithms", "local", *more, *ON_RAY, task=task))
        assert ended.code == 2
        (line,) = [line for line in ended.err.splitlines() if line.startswith("dpeer: ")]
        return line

    assert re.match("dpeer: local-default-seed0: .*sise", complaint("--task-option", "sise=3"))
    (tmp_path / "other" / "dpeer").mkdir(parents=True)
    (tmp_path / "other" / "dpeer" / "__init__.py").touch()
    node = cluster.add_node(**NODE, num_gpus=1, env_vars={"PYTHONPATH": str(tmp_path / "other")})
    lacks = r"ModuleNotFoundError: No module named 'dpeer\.\w+'"
    assert re.fullmatch(
        rf"dpeer: local-default-seed0: a Ray worker cannot run it \({lacks}\): is dpeer there\?",
        complaint("--device", "cuda"),
    )
    cluster.remove_node(node)

    rows = ("--algorithms", "dfedmdc,local", *slow_after(2))
    first = "ray/dfedmdc-ring-default-seed0"
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # From the third round on the run goes slowly until the test says `hurry`, so it is there when the interrupt comes.
    command = partial(compare, *rows, task=task, rounds=20)
    with meanwhile(lambda: all(rounds_done(first, rank) >= 2 for rank in range(SIZE)), interrupt):
        ended = dpeer(*command(*ON_RAY, "--out", "ray"))
    assert ended.code == 0, ended.err
    assert ended.err.rstrip().endswith("dpeer: stopped; the same command goes on")
    assert {number: signal.getsignal(number) for number in before} == before
    begun = {path.parent.parent.name for path in tmp_path.glob("ray/*/rank-0/metrics.jsonl")}
    assert begun == {Path(first).name}, "what waited for a node has not been begun"
    earlier = (tmp_path / first / "rank-0" / "metrics.jsonl").read_text()
    assert 2 <= earlier.count("\n") < 20
