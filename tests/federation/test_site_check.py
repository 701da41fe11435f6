"""Checks of `dpeer check` on one host: each in a case in which it warns or fails, and what a forecast has."""

import errno
import fcntl
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch

from dpeer.exceptions import ConfigurationError
from dpeer.federation import addresses, keys, site_check, trackers
from dpeer.federation.control_client import held
from dpeer.federation.findings import Finding, Findings, Level
from dpeer.federation.site_check import check_site
from dpeer.training.step_pace import RoundPace
from tests.conftest import SMALL_TASK

TASK = (
    SMALL_TASK
    + """

def broken(rank, size, seed):
    raise ValueError("no scans for this site")
"""
)

QUICK = {"body_epochs": 1, "rounds": 4, "alone": "never", "base_port": 1, "threads": 1}


class Looked(NamedTuple):
    findings: list[Finding]
    forecast: dict[str, Any] | None

    def of(self, check: str) -> list[tuple[Level, str]]:
        return [(one.level, one.text) for one in self.findings if one.check == check]

    @property
    def bad(self) -> dict[str, tuple[Level, str]]:
        """The check, level and words of all that is not in order."""
        return {one.check: (one.level, one.text) for one in self.findings if one.level is not Level.PASS}


Look = Callable[..., Looked]


@pytest.fixture
def look(in_tmp_path: Path) -> Look:
    """Check rank 1 of a federation file of four ranks, with more lines; flags by name."""
    Path("mine.py").write_text(TASK)

    def run(lines: str = "", flags: dict[str, Any] | None = None, **asked: Any) -> Looked:
        Path("dpeer.toml").write_text(f"size = 4\n{lines}")
        free = socket.socket()
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        findings = Findings()
        given = {"task": "mine.py:task", **QUICK, "base_port": port - 1, **(flags or {})}
        return Looked(findings.all, check_site(findings, **{"file": None, "flags": given, "rank": "1", **asked}))

    return run


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    found = {str(path): path.lstat() for path in folder.rglob("*") if "__pycache__" not in path.parts}
    return {name: (stat.st_mtime_ns, stat.st_size) for name, stat in found.items()}


def test_a_rank_that_can_start_passes_everywhere_and_nothing_is_written(look: Look, in_tmp_path: Path) -> None:
    look()
    before = tree(in_tmp_path)
    found = look()
    assert found.bad == {}
    assert tree(in_tmp_path).keys() == before.keys()
    assert [one.check for one in found.findings] == [
        "settings", "key", "output", "proxy", "address", "port", "device", "task",
        "threads", "memory", "disk",
    ]  # fmt: skip
    forecast = found.forecast
    body = 4 * (4 * 6 + 6)
    assert (forecast["neighbors"], forecast["rounds"]) == ([0, 2], 4)
    assert (forecast["sent_bytes"], forecast["received_bytes"]) == (2 * body, 2 * body)
    assert forecast["steps"] == 2, "a batch of 32 holds all: one of the head, one of the body"
    assert forecast["disk_bytes"] > 4 * body
    assert 0 < forecast["train_seconds"] < 60


def test_a_start_without_a_file_and_without_a_task_warns_first(in_tmp_path: Path) -> None:
    """Fourteen times PASS say nothing of a federation whose file lies in another folder."""
    findings = Findings()
    check_site(findings, None, {**QUICK, "size": 2, "out": "digits"}, "1")
    first = findings.all[0]
    assert (first.check, first.level) == ("settings", Level.WARN)
    assert "no federation file: all by default, task digits among it: name the file by --federation FILE" in first.text


def own_key(folder: Path, *, listed: bool = True) -> str:
    lines = []
    for rank in range(4):
        _, public = keys.write_secret(rank, folder / "keys")
        lines.append(f"rank.{rank}.key = '{public.hex()}'\n")
    return "".join([*lines, "secret = 'keys/rank-1.secret'\n" if listed else ""])


def test_a_missing_secret_fails_and_nothing_is_opened_without_it(look: Look, in_tmp_path: Path) -> None:
    found = look(own_key(in_tmp_path, listed=False))
    assert found.bad.keys() == {"key"}
    assert "this peer has no secret" in found.bad["key"][1]
    assert found.of("port") == []


def test_a_secret_that_others_can_read_fails_and_a_mounted_one_warns(
    look: Look, in_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = own_key(in_tmp_path)
    assert look(lines).bad == {}
    Path("keys/rank-1.secret").chmod(0o644)
    level, text = look(lines).bad["key"]
    assert level is Level.FAIL
    assert "chmod 600" in text
    monkeypatch.setattr(keys, "_accepted", lambda path: "mode 0644 is accepted, as of a mounted secret")
    assert look(lines).bad["key"] == (Level.WARN, "mode 0644 is accepted, as of a mounted secret")


@dataclass
class Case:
    """What makes a check of rank 1 find something."""

    check: str
    level: Level
    words: str
    lines: str = ""
    flags: Any = None
    asked: Any = None
    around: Callable[[Path], AbstractContextManager[Any]] | None = None


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    with held(folder / "dpeer-run" / "rank-1"):
        yield


@contextmanager
def earlier_run(folder: Path) -> Iterator[None]:
    path = folder / "dpeer-run" / "rank-1"
    path.mkdir(parents=True)
    (path / "metrics.jsonl").write_text("{}\n")
    yield


@contextmanager
def a_file(folder: Path) -> Iterator[None]:
    (folder / "dpeer-run").write_text("")
    yield


def patched(target: Any, name: str, value: Any) -> Callable[[Path], AbstractContextManager[Any]]:
    @contextmanager
    def around(folder: Path) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(target, name, value)
            yield

    return around


def refuse(names: Any) -> None:
    raise ConfigurationError(f"{names[0]} is not installed")


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def room(of_disk: int) -> Callable[[Any], Usage]:
    """What `shutil.disk_usage` gives."""
    return lambda path: Usage(10**12, 0, of_disk)


def files(free: int, every: int = 10**6) -> Callable[[Path], AbstractContextManager[Any]]:
    """A disk on which so many files can be made, of so many in all."""
    real = os.statvfs(".")
    blocks = {name: getattr(real, name) for name in ("f_bavail", "f_frsize", "f_blocks", "f_bfree")}
    return patched(os, "statvfs", lambda path: SimpleNamespace(f_flag=0, f_files=every, f_favail=free, **blocks))


def dangling(folder: Path) -> AbstractContextManager[None]:
    (folder / "dpeer-run").symlink_to("nowhere")
    return nullcontext()


def no_file(**options: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def no_lock(file: Any, operation: int) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


@contextmanager
def without_temporary_folder(folder: Path) -> Iterator[None]:
    def gettempdir() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "gettempdir", gettempdir)
        patch.setattr(tempfile, "tempdir", "/nowhere")
        yield


CASES = {
    "a rank that is none": Case("settings", Level.FAIL, "rank 7 does not exist", asked={"rank": "7"}),
    "a setting that does not exist": Case("settings", Level.FAIL, "did you mean 'topology'?", "topolgy = 'ring'\n"),
    "no keys": Case("key", Level.WARN, "--insecure, without keys", "insecure = true\n"),
    "operators of a run without a name": Case(
        "settings", Level.FAIL, "give the run a name of its own", flags={"operators": ["ab" * 32]}),
    "an earlier run": Case("output", Level.FAIL, "holds an earlier run", around=earlier_run),
    "nothing to resume": Case("output", Level.FAIL, "no run of rank 1", asked={"resume": True}),
    "a running peer": Case("output", Level.FAIL, "in use by a running peer", around=in_use),
    "a file as folder": Case("output", Level.FAIL, "is a file", around=a_file),
    "a link that leads nowhere": Case(
        "output", Level.FAIL, "is a link to nowhere, which does not exist: make that folder", around=dangling),
    "a share without locks": Case(
        "output", Level.FAIL, "has no locks (No locks available)", around=patched(fcntl, "flock", no_lock)),
    "a folder that takes no file": Case(
        "output", Level.FAIL, "(No space left on device): mend that",
        around=patched(site_check.tempfile, "TemporaryFile", no_file)),
    "no folder for temporary files": Case("output", Level.WARN, "set TMPDIR to one", around=without_temporary_folder),
    "no proxy": Case("proxy", Level.FAIL, "expected http://HOST:PORT", flags={"proxy": "ftp://a:1"}),
    "a proxy of no environment": Case(
        "proxy", Level.FAIL, "neither https_proxy nor all_proxy", flags={"proxy": "environment"}),
    "two that dial out": Case(
        "address", Level.FAIL, "ranks 0 and 1 are neighbors and neither has an address",
        "rank.2.address = 'tcp://127.0.0.1:7'\n"),
    "not loopback": Case(
        "address", Level.FAIL, "without encryption", "rank.1.address = 'tcp://10.0.0.3:7'\n"
        "rank.3.address = 'tcp://10.0.0.4:7'\n"),
    "a name that is none": Case(
        "address", Level.WARN, "rank.2.address: host 'clinic.invalid' cannot be resolved",
        "rank.1.address = 'tcp://127.0.0.1:0'\nrank.2.address = 'tcp://clinic.invalid:7'\n",
        around=patched(addresses, "unresolvable", lambda address: "clinic.invalid")),
    "status for all": Case("serve", Level.WARN, "every host that reaches it can read it", flags={"serve": "*:0"}),
    "status at another host's address": Case(
        "serve", Level.FAIL, "this host cannot listen there", flags={"serve": "192.0.2.1:0"}),
    "a tracker without its library": Case(
        "trackers", Level.FAIL, "tensorboard is not installed", flags={"log_to": ["tensorboard"]},
        around=patched(trackers, "check", refuse)),
    "a device that is none": Case("device", Level.FAIL, "--device cuda:7", flags={"device": "cuda:7"}),
    "a device that is idle": Case(
        "device", Level.WARN, "this host has a GPU", around=patched(torch.cuda, "is_available", lambda: True)),
    "a task that raises": Case("task", Level.FAIL, "no scans for this site", flags={"task": "mine.py:broken"}),
    "a table that is missing": Case(
        "task", Level.FAIL, "visits.csv", flags={"task": "csv", "task_options": {"path": "visits.csv", "target": "y"}}),
    "a budget that is too small": Case(
        "task", Level.FAIL, "epsilon",
        flags={"privacy": "client", "noise_multiplier": 0.1, "target_epsilon": 0.001}),
    "no memory": Case("memory", Level.FAIL, "free some", around=patched(site_check, "available_memory", lambda: 1000)),
    "a full disk": Case(
        "disk", Level.FAIL, "make room", around=patched(site_check.shutil, "disk_usage", room(1000))),
    "a disk that is almost full": Case(
        "disk", Level.WARN, "little is left", around=patched(site_check.shutil, "disk_usage", room(200_000))),
    "a disk that takes no more files": Case(
        "files", Level.FAIL, "40 files can be made", around=files(40)),
    "a disk that takes few more files": Case(
        "files", Level.WARN, "400 files can be made", around=files(400)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_check_finds_what_is_wrong_and_no_other_does(look: Look, in_tmp_path: Path, case: Case) -> None:
    with ExitStack() as stack:
        if case.around is not None:
            stack.enter_context(case.around(in_tmp_path))
        found = look(case.lines, case.flags, **(case.asked or {}))
    assert {name: level for name, (level, _) in found.bad.items()} == {case.check: case.level}
    assert case.words in found.bad[case.check][1]
    assert case.check != "settings" or (len(found.findings), found.forecast) == (1, None), "nothing else is looked at"


def test_a_disk_that_counts_no_files_has_room_for_them(look: Look, in_tmp_path: Path) -> None:
    with files(0, every=0)(in_tmp_path):
        assert look().bad == {}


def test_a_port_that_is_taken_fails(look: Look) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = look(flags={"base_port": server.getsockname()[1] - 1})
    assert {name: level for name, (level, _) in found.bad.items()} == {"port": Level.FAIL}
    assert "is in use" in found.bad["port"][1]


def test_the_ledger_of_a_private_run_stays_as_it_is(look: Look, in_tmp_path: Path) -> None:
    """What is trained to be timed is charged in a folder that is thrown away."""
    private = {"privacy": "client", "noise_multiplier": 2.0, "topology": "full"}
    folder = in_tmp_path / "dpeer-run" / "rank-1" / "privacy"
    folder.mkdir(parents=True)
    (folder / "ledger.jsonl").write_text("damaged\n")
    before = tree(in_tmp_path / "dpeer-run")
    found = look(flags=private)
    assert found.bad.keys() == {"output"}, "the start would end with it, too"
    assert "private run" in found.bad["output"][1]
    assert tree(in_tmp_path / "dpeer-run") == before
    (folder / "ledger.jsonl").unlink()
    forecast = look(flags=private).forecast
    assert "after 4 releases" in str(forecast["privacy"])
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("alone", "level", "words"),
    [
        (0.04, Level.PASS, "a step takes 30 ms with 8, 40 ms with one"),
        (0.02, Level.WARN, "a step takes 30 ms with 8, 20 ms with one: other programs use this host's cores, or the "
         "model is small: --threads 1"),
    ],
)  # fmt: skip
def test_one_thread_is_timed_beside_the_others(alone: float, level: Level, words: str) -> None:
    """Where another program uses a core, one thread is the faster choice, and the check advises it."""
    set_to: list[int] = []

    class Learner:
        figures = property(lambda self: self)
        pace: RoundPace | None = RoundPace(0, 10, 0.3, 0.3, 8)
        steps = steps_asked = (10,)

        def train(self, number: int, *, share: float) -> None:
            assert set_to == [1]
            self.pace = RoundPace(0, 10, 10 * alone, 10 * alone, 1)

    torch_ = SimpleNamespace(set_num_threads=set_to.append)
    assert [*site_check._threads(Learner(), torch_)] == [(level, words)]
    assert set_to == [1, 8]


def test_one_thread_of_a_start_is_not_timed_again_and_a_gpus_not_at_all() -> None:
    def threads(pace: RoundPace | None) -> list[tuple[Level, str]]:
        return [*site_check._threads(SimpleNamespace(figures=SimpleNamespace(pace=pace)), None)]

    assert threads(None) == []
    assert threads(RoundPace(0, 10, 0.012, 0.01, 1)) == [(Level.PASS, "one: a step takes 1.2 ms")]
