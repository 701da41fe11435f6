"""Plays months of members that come and go in minutes, on real peers with keys; not a test: it takes ten minutes.

    python -m tests.system.member_scenario [--out members-scenario] [--rounds 120] [--pause 0.03] [--loopback]

Eight peers on a random graph of degree 4 train handwritten digits, two in each of four network namespaces (root and
`ip`), or at addresses 127.0.0.N (--loopback). Commands are typed as docs/running.md prints them:

    off       rank 1 is stopped, before all that follows
    add       rank 8 joins
    move      rank 2 goes to another address
    leave     rank 5 is removed while it runs
    lost      rank 3 is killed, its folder removed, and comes back
    dead      rank 6 is killed
    evict     it is removed
    graph     the graph becomes exponential
    extend    twenty rounds more
    back      rank 1 is started again

Prints each command's seconds and last line; for each step how long the others' rounds were before it and at most from
it to the next, and how many of these lacked an edge between two that took part; and how each peer has ended. Ends with
1 if a column of the recorded mixes does not sum to one, a change of the list has cost more than one round an edge, or
peers have ended otherwise than they should, or with several lists. Lengths are printed only: a busy machine has others.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from dpeer.federation.config import load
from dpeer.federation.member_changes import in_short
from dpeer.federation.member_client import look
from dpeer.federation.member_zero import list_zero, named_graph
from dpeer.peer.core.member_list import MemberList
from dpeer.peer.member_files import read_lists

SIZE, HOSTS, PORT = 8, 4, 7700

CHANGES = ("add", "move", "leave", "evict", "graph", "extend")
"""The steps that change the list."""

TASK = '''
"""Handwritten digits that come at a fixed pace, so that a round's length is not that of a busy machine."""

import time

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import Dataset

from dpeer.training import Task, partition


class Paced(Dataset):
    def __init__(self, images, labels, pause):
        self.images, self.targets, self.pause = images, labels, pause

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        time.sleep(self.pause)
        return self.images[index], self.targets[index]


def task(rank, size, seed, pause=0.0):
    pixels, labels = load_digits(return_X_y=True)
    images = torch.tensor(pixels / 16, dtype=torch.float32)
    labels = torch.tensor(labels)
    rows = partition(labels.numpy(), 16, "iid", seed)
    half = lambda part: (images[rows[part]], labels[rows[part]])
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    return Task(model=model, head=("2",), train=Paced(*half(rank % 8), pause), test=Paced(*half(8 + rank % 8), 0.0))
'''


class Network:
    """Where ranks are: namespaces that a bridge joins, or addresses of loopback."""

    def __init__(self, *, loopback: bool) -> None:
        self.loopback = loopback
        self._name = f"dpm{os.getpid()}"

    @contextmanager
    def made(self) -> Iterator[Network]:
        """Make the namespaces, and remove them at the end."""
        if self.loopback:
            yield self
            return
        names = [f"{self._name}-{host}" for host in (*range(HOSTS), "sw")]
        try:
            for name in names:
                _ip(f"netns add {name}")
            _ip(f"-n {names[-1]} link add br0 type bridge")
            _ip(f"-n {names[-1]} link set br0 up")
            for host, name in enumerate(names[:-1]):
                _ip(f"link add e{host} netns {name} type veth peer name p{host} netns {names[-1]}")
                _ip(f"-n {names[-1]} link set p{host} master br0 up")
                _ip(f"-n {name} addr add {self.address(host)}/24 dev e{host}")
                _ip(f"-n {name} link set e{host} up")
                _ip(f"-n {name} link set lo up")
            yield self
        finally:
            for name in names:
                subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def address(self, host: int) -> str:
        """A host's address."""
        return f"127.0.0.{11 + host}" if self.loopback else f"10.77.0.{11 + host}"

    def at(self, host: int) -> list[str]:
        """What stands before a command that runs on a host."""
        return [] if self.loopback else ["ip", "netns", "exec", f"{self._name}-{host}"]


def _ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True)


class Step(NamedTuple):
    """A step: the rounds that rank 0 has completed when it begins, and the ranks that it is about."""

    name: str
    at: int
    subjects: tuple[int, ...]


class Scenario:
    """The federation's folder, its processes, and what is typed."""

    def __init__(self, folder: Path, network: Network, rounds: int, pause: float) -> None:
        self.folder, self.network, self.rounds, self.pause = folder, network, rounds, pause
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.hosts = {rank: rank % HOSTS for rank in range(SIZE + 1)}
        self.steps: list[Step] = []
        self.lists: dict[int, MemberList] = {}

    def command(self, line: str, host: int = 0) -> str:
        """Type a command on a host; returns what it printed."""
        began = time.monotonic()
        words = [*self.network.at(host), sys.executable, "-m", *shlex.split(line)]
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False, timeout=300)
        seconds = time.monotonic() - began
        last = ([line for line in (done.stdout + done.stderr).splitlines() if line] or [""])[-1]
        print(f"  {line}\n    exit {done.returncode} after {seconds:.1f} s: {last}", flush=True)
        if done.returncode:
            print(done.stdout, done.stderr)
        elif line.startswith("dpeer members"):
            counts = look(self.folder / "run" / "rank-0")[0].counts
            self.lists[counts.version] = counts
        return done.stdout

    def begin(self) -> None:
        """Write the federation and start its peers."""
        self.folder.mkdir(parents=True)
        (self.folder / "paced.py").write_text(TASK)
        lines = [f"{self.network.address(self.hosts[rank])}:{PORT + rank} Site {rank}" for rank in range(SIZE)]
        (self.folder / "hosts.txt").write_text("\n".join(lines) + "\n")
        self.command(
            "dpeer init . --hosts hosts.txt --keys --operator --task paced.py:task --topology random-regular "
            f"--task-option pause={self.pause} --rounds {self.rounds} --body-epochs 1 --head-epochs 1 --local-steps 1"
        )
        for rank in range(SIZE):
            self.start(rank)

    def start(self, rank: int, *more: str) -> None:
        """Start a peer on its host."""
        words = [
            *self.network.at(self.hosts[rank]),
            sys.executable,
            "-m",
            "dpeer",
            "start",
            "--rank",
            str(rank),
            "--threads",
            "1",
            "--alone",
            "never",
            "--dead-after",
            "5",
            "--out",
            "run",
            *more,
        ]
        with (self.folder / f"output-{rank}").open("ab") as output:
            self.processes[rank] = subprocess.Popen(words, cwd=self.folder, stdout=output, stderr=subprocess.STDOUT)

    def completed(self, rank: int) -> int:
        """The rounds that a rank has completed."""
        return len(self.lines(rank, "metrics.jsonl"))

    def lines(self, rank: int, name: str, disks: tuple[str, ...] = ("lost", "run")) -> list[dict[str, Any]]:
        """A file of JSON lines of a rank, on the disk that it has lost and the present one; whole lines count."""
        files = (self.folder / disk / f"rank-{rank}" / name for disk in disks)
        text = "".join(file.read_text() for file in files if file.exists())
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def rounds_more(self, count: int = 6) -> None:
        """Wait until rank 0 has completed so many rounds more."""
        goal, until = self.completed(0) + count, time.monotonic() + 300
        while self.completed(0) < goal and time.monotonic() < until and self.processes[0].poll() is None:
            time.sleep(0.1)

    def step(self, name: str, *subjects: int) -> None:
        """Note that a step begins, and which ranks it is about."""
        self.rounds_more()
        self.steps.append(Step(name, self.completed(0), subjects))
        print(f"{name}: rank 0 has completed {self.completed(0)} rounds", flush=True)

    def play(self) -> None:
        """All steps."""
        signed = "--operator keys/operator.secret"
        self.rounds_more(8)
        self.step("off", 1)
        self.processes[1].send_signal(signal.SIGTERM)
        self.processes[1].wait(60)
        self.step("add", 8)
        key = self.command("dpeer keygen --rank 8 --out keys").split('"')[1]
        at = f"tcp://{self.network.address(self.hosts[8])}:{PORT + 8}"
        self.command(f"dpeer members add run/rank-0 --rank 8 --address {at} --key {key} {signed}")
        self.start(8, "--members", "members-1.json", "--secret", "keys/rank-8.secret")
        self.step("move", 2)
        self.hosts[2] = 3
        at = f"tcp://{self.network.address(3)}:{PORT + 20}"
        self.command(f"dpeer members change run/rank-0 --rank 2 --address {at} {signed}")
        self.command("dpeer drain run/rank-2 --back-within 120")
        self.start(2, "--resume")
        self.step("leave", 5)
        self.command(f"dpeer members remove run/rank-0 --rank 5 {signed}")
        self.step("lost", 3)
        self.processes[3].kill()
        self.processes[3].wait()
        (self.folder / "lost").mkdir()
        shutil.move(self.folder / "run" / "rank-3", self.folder / "lost")
        self.rounds_more(3)
        self.start(3)
        self.step("dead", 6)
        self.processes[6].kill()
        self.processes[6].wait()
        self.rounds_more(3)
        self.step("evict", 6)
        self.command(f"dpeer members remove run/rank-0 --rank 6 {signed}")
        self.step("graph")
        self.command(f"dpeer members change run/rank-0 --topology exponential {signed}")
        self.step("extend")
        self.command(f"dpeer members extend run/rank-0 --rounds {self.rounds + 20} {signed}")
        self.step("back", 1)
        self.start(1, "--resume")
        self.rounds_more(6)
        self.command("dpeer members show run/rank-0")
        until = time.monotonic() + 900
        while any(one.poll() is None for one in self.processes.values()) and time.monotonic() < until:
            time.sleep(0.5)

    def end(self) -> None:
        """Leave no process behind."""
        for one in self.processes.values():
            if one.poll() is None:
                one.kill()
            one.wait()


class Report:
    """What the files of a run say.

    Attributes:
        wrong: What should be otherwise.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.wrong: list[str] = []
        self._scenario = scenario
        self._ranks = [rank for rank in range(SIZE + 1) if scenario.lines(rank, "metrics.jsonl")]
        self._entries: dict[int, dict[int, dict[str, Any]]] = defaultdict(dict)
        for rank in self._ranks:
            for entry in scenario.lines(rank, "metrics.jsonl"):
                released_before = entry["bytes_sent"] == 0  # a process that was stopped or killed has not mixed
                if entry["active"] and not entry["adopted"] and not released_before:
                    self._entries[entry["round"]][rank] = entry

    def print(self) -> None:
        """Print it."""
        self._print_steps(self._mixes())
        self._print_ends()
        for line in self.wrong:
            print(f"WRONG: {line}")

    def _print_steps(self, lacking: set[int]) -> None:
        """By step: rounds of the others, and how many lack an edge."""
        steps = self._scenario.steps
        print("\nstep     rounds     before  longest  times   waits  lack an edge")
        for step, end in zip(steps, [*(later.at for later in steps[1:]), max(self._entries) + 1], strict=True):
            lengths = self._lengths(step.subjects)
            before = median([lengths[number] for number in range(step.at - 10, step.at) if number in lengths])
            longest = max((number for number in range(step.at, end) if number in lengths), key=lengths.__getitem__)
            waits = median(one["exchange_seconds"] for one in self._entries[longest].values())
            lack = sorted(number + 1 for number in lacking if step.at <= number < end)
            print(
                f"{step.name:<8} {step.at + 1:>3} - {end:<3}  {before:5.2f} s  {lengths[longest]:5.2f} s "
                f"{lengths[longest] / before:6.2f} {waits:5.2f} s  {in_short(lack) or 'none'}"
            )
            if step.name in CHANGES and len(lack) > 1:
                self.wrong.append(f"{step.name}: rounds {in_short(lack)} lack an edge, expected one at most")

    def _lengths(self, subjects: Collection[int]) -> dict[int, float]:
        """Of each round the median length over the ranks that took part, but for these."""
        lengths = defaultdict(list)
        for rank in {*self._ranks} - {*subjects}:
            lines = self._scenario.lines(rank, "log.jsonl")
            ends = {line["round"]: line["time"] for line in lines if line["event"] == "round"}
            for number, at in ends.items():
                if number - 1 in ends and rank in self._entries[number] and rank in self._entries[number - 1]:
                    lengths[number].append(at - ends[number - 1])
        return {number: median(some) for number, some in lengths.items()}

    def _mixes(self) -> set[int]:
        """Check the columns of all mixes; returns the rounds that lack an edge between two that took part."""
        settings, lists = load(self._scenario.folder / "dpeer.toml", {}), {**self._scenario.lists}
        lists[0] = list_zero(settings, settings, settings.rounds, {})
        graphs = {version: named_graph(settings, one.graph, len(one.members)) for version, one in lists.items()}
        used = {rank: _used(self._scenario, rank) for rank in self._ranks}

        def row(version: int, number: int, rank: int) -> dict[int, float]:
            members = sorted(lists[version].members)
            if rank not in members:
                return {}
            found = graphs[version].at(number, members.index(rank)).row
            return {members[place]: weight for place, weight in found.items()}

        lacking, unknown = set(), []
        for number, entries in sorted(self._entries.items()):
            sums = dict.fromkeys(entries, 0.0)
            for rank, entry in entries.items():
                rows = (row(version, number, rank) for version in (used[rank].get(number, 0), *lists))
                near = {*entry["heard"], *entry["missed"], rank}
                named = next(one for one in rows if one.keys() == near)
                heard = {other: named[other] for other in entry["heard"]}
                for other, weight in {**heard, rank: 1.0 - sum(heard.values())}.items():
                    sums[other] = sums.get(other, 0.0) + weight
                if named.keys() & entries.keys() - heard.keys() - {rank}:
                    lacking.add(number)
            if sums.keys() - entries:
                unknown.append(number + 1)
            elif (error := max(abs(value - 1) for value in sums.values())) > 1e-9:
                self.wrong.append(f"round {number + 1}: a column of the mixes sums to one but for {error:.4f}")
        print(
            f"\ncolumns are not known of rounds: {in_short(unknown) or 'none'} (a stopped or killed peer mixed nothing)"
        )
        return lacking

    def _print_ends(self) -> None:
        """How each peer has ended, by which list."""
        print()
        last = set()
        for rank in self._ranks:
            folder = self._scenario.folder / "run" / f"rank-{rank}"
            file = folder / "summary.json"
            summary = json.loads(file.read_text()) if file.exists() else {}
            status, code = summary.get("status", "killed"), self._scenario.processes[rank].poll()
            counts, _ = read_lists(folder)
            stamp = "list 0" if counts is None else f"list {counts.version} {counts.digest.hex()[:8]}"
            print(
                f"rank {rank}: {status}, exit {code}, {summary.get('completed_rounds')} rounds, "
                f"accuracy {summary.get('accuracy')}, {stamp}"
            )
            expected = {5: ("left", 0), 6: ("killed", -9)}.get(rank, ("done", 0))
            if (status, code) != expected:
                self.wrong.append(f"rank {rank} has ended {status} with exit code {code}, expected {expected}")
            if status == "done":
                last.add(stamp)
        if len(last) != 1 or len(self._ranks) != SIZE + 1:
            self.wrong.append(f"ranks {in_short(self._ranks)} have run, with {', '.join(sorted(last))} at the end")


def _used(scenario: Scenario, rank: int) -> dict[int, int]:
    """By round, the number of the list that counted when a rank began it, as its log has it: or of the next one."""
    found = {0: 0}
    for disk in ("run", "lost"):  # rounds of a lost disk were only sat out on the next one
        counts = 0
        for line in scenario.lines(rank, "log.jsonl", (disk,)):
            if line["event"] == "member-list" and " counts: " in line["message"]:
                counts = line["version"]
            elif line["event"] in ("round", "connected"):
                found[line["round"] + (line["event"] == "round")] = counts
    return found


def main() -> int:
    """Play it; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("members-scenario"))
    parser.add_argument("--rounds", type=int, default=120)
    parser.add_argument("--pause", type=float, default=0.03)
    parser.add_argument("--loopback", action="store_true")
    given = parser.parse_args()
    with Network(loopback=given.loopback).made() as network:
        scenario = Scenario(given.out.resolve(), network, given.rounds, given.pause)
        try:
            scenario.begin()
            scenario.play()
        finally:
            scenario.end()
        report = Report(scenario)
        report.print()
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
