"""Plays months of members that come and go in minutes, on real peers with keys; not a test: it takes ten minutes.

    python -m tests.system.member_scenario [--out members-scenario] [--rounds 120] [--pause 0.03] [--loopback]

Eight peers on a random graph of degree 4 train handwritten digits, two in each of four network namespaces (root and
`ip`), or at addresses 127.0.0.N (--loopback). Commands are typed as docs/running.md prints them:

    off       rank 1 is stopped, before all that follows
    add       rank 8 joins
    move      rank 2 goes to another address
    leave     rank 5 is removed while it runs
    lost      rank 3 is killed, its folder removed, and comes back
    dead      rank 6 is killed, and removed
    graph     the graph becomes exponential
    extend    twenty rounds more
    back      rank 1 is started again

Prints for each step the command's seconds and last line; of rounds the length beside the median of quiet rounds; where
a column of the recorded mixes does not sum to one; and how each peer has ended.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from dpeer.federation.config import load
from dpeer.federation.member_changes import in_short
from dpeer.federation.member_client import look
from dpeer.federation.member_zero import list_zero, named_graph
from dpeer.peer.core.member_list import MemberList
from dpeer.peer.member_files import read_lists

SIZE, HOSTS, PORT = 8, 4, 7700

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


class Scenario:
    """The federation's folder, its processes, and what is typed."""

    def __init__(self, folder: Path, network: Network, rounds: int, pause: float) -> None:
        self.folder, self.network, self.rounds, self.pause = folder, network, rounds, pause
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.hosts = {rank: rank % HOSTS for rank in range(SIZE + 1)}
        self.steps: list[tuple[str, int]] = []
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

    def lines(self, rank: int, name: str) -> list[dict[str, Any]]:
        """A file of JSON lines of a rank; a part of a line does not count."""
        try:
            text = (self.folder / "run" / f"rank-{rank}" / name).read_text()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def rounds_more(self, count: int = 6) -> None:
        """Wait until rank 0 has completed so many rounds more."""
        goal, until = self.completed(0) + count, time.monotonic() + 300
        while self.completed(0) < goal and time.monotonic() < until and self.processes[0].poll() is None:
            time.sleep(0.1)

    def step(self, name: str) -> None:
        """Note that a step begins."""
        self.rounds_more()
        self.steps.append((name, self.completed(0)))
        print(f"{name}: rank 0 has completed {self.completed(0)} rounds", flush=True)

    def play(self) -> None:
        """All steps."""
        signed = "--operator keys/operator.secret"
        self.rounds_more(8)
        self.step("off")
        self.processes[1].send_signal(signal.SIGTERM)
        self.processes[1].wait(60)
        self.step("add")
        key = self.command("dpeer keygen --rank 8 --out keys").split('"')[1]
        at = f"tcp://{self.network.address(self.hosts[8])}:{PORT + 8}"
        self.command(f"dpeer members add run/rank-0 --rank 8 --address {at} --key {key} {signed}")
        self.start(8, "--members", "members-1.json", "--secret", "keys/rank-8.secret")
        self.step("move")
        self.hosts[2] = 3
        at = f"tcp://{self.network.address(3)}:{PORT + 20}"
        self.command(f"dpeer members change run/rank-0 --rank 2 --address {at} {signed}")
        self.command("dpeer drain run/rank-2")
        self.start(2, "--resume")
        self.step("leave")
        self.command(f"dpeer members remove run/rank-0 --rank 5 {signed}")
        self.step("lost")
        self.processes[3].kill()
        self.processes[3].wait()
        shutil.rmtree(self.folder / "run" / "rank-3")
        self.rounds_more(3)
        self.start(3)
        self.step("dead")
        self.processes[6].kill()
        self.processes[6].wait()
        self.rounds_more(8)
        self.command(f"dpeer members remove run/rank-0 --rank 6 {signed}")
        self.step("graph")
        self.command(f"dpeer members change run/rank-0 --topology exponential {signed}")
        self.step("extend")
        self.command(f"dpeer members extend run/rank-0 --rounds {self.rounds + 20} {signed}")
        self.step("back")
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


def report(scenario: Scenario) -> None:
    """Print lengths of rounds, sums of columns, ends and stamps."""
    ranks = [rank for rank in range(SIZE + 1) if scenario.lines(rank, "metrics.jsonl")]
    _lengths(scenario, ranks)
    _columns(scenario, ranks)
    print("\nends:")
    for rank in ranks:
        folder = scenario.folder / "run" / f"rank-{rank}"
        summary = json.loads((folder / "summary.json").read_text()) if (folder / "summary.json").exists() else {}
        used, _ = read_lists(folder)
        stamp = "-" if used is None else f"list {used.version} {used.digest.hex()[:8]}"
        print(
            f"  rank {rank}: {summary.get('status', 'killed')}, exit {scenario.processes[rank].poll()}, "
            f"{summary.get('completed_rounds')} rounds, accuracy {summary.get('accuracy')}, {stamp}"
        )


def _lengths(scenario: Scenario, ranks: list[int]) -> None:
    """Of each round the median length over the ranks that took part, beside the median of all quiet rounds."""
    ends: dict[int, dict[int, float]] = {
        rank: {line["round"]: line["time"] for line in scenario.lines(rank, "log.jsonl") if line["event"] == "round"}
        for rank in ranks
    }
    lengths = defaultdict(list)
    for found in ends.values():
        for number, at in found.items():
            if number - 1 in found:
                lengths[number].append(at - found[number - 1])
    medians = {number: median(some) for number, some in sorted(lengths.items())}
    usual = median(medians.values())
    waits = {
        number: median(
            entry["exchange_seconds"]
            for rank in ranks
            for entry in scenario.lines(rank, "metrics.jsonl")
            if entry["round"] == number
        )
        for number in medians
    }
    print(f"\nrounds: {len(medians)}, of {usual:.2f} s in the median; longer than 1.1 times that:")
    for number, seconds in medians.items():
        if seconds > 1.1 * usual:
            step = [name for name, at in scenario.steps if at <= number][-1:] or ["-"]
            print(f"  round {number + 1}: {seconds / usual:.2f}, waits {waits[number]:.2f} s (since {step[0]})")


def _columns(scenario: Scenario, ranks: list[int]) -> None:
    """Rounds in which a column of the mixes, over those that took part, does not sum to one."""
    settings = load(scenario.folder / "dpeer.toml", {})
    lists = {0: list_zero(settings, settings, settings.rounds, {}), **scenario.lists}
    graphs = {version: named_graph(settings, one.graph, len(one.members)) for version, one in lists.items()}
    used = {rank: _used(scenario, rank) for rank in ranks}
    by_round: dict[int, dict[int, dict[str, Any]]] = defaultdict(dict)
    for rank in ranks:
        for entry in scenario.lines(rank, "metrics.jsonl"):
            if entry["active"] and not entry["adopted"]:
                by_round[entry["round"]][rank] = entry
    off, lacking, unknown = [], [], []
    for number, entries in sorted(by_round.items()):
        sums, missed = dict.fromkeys(entries, 0.0), 0
        for rank, entry in entries.items():
            version = used[rank].get(number, 0)
            members = sorted(lists[version].members)
            row = graphs[version].at(number, members.index(rank)).row
            named = {members[place]: weight for place, weight in row.items()}
            heard = {other: named[other] for other in entry["heard"]}
            for other, weight in {**heard, rank: 1.0 - sum(heard.values())}.items():
                sums[other] = sums.get(other, 0.0) + weight
            missed += len(named) - 1 - len(heard)
        if sums.keys() - entries:
            unknown.append(number + 1)  # a body was mixed whose sender has lost the disk with its own row
        elif (error := max(abs(value - 1) for value in sums.values())) > 1e-9:
            off.append((number + 1, round(float(error), 4)))
        if missed:
            lacking.append(number + 1)
    print(f"\ncolumns of {len(by_round)} rounds: {len(off)} do not sum to one: {off}")
    print(f"not known, for a row was on a disk that was removed: {in_short(unknown)}")
    print(f"rounds in which an edge of a member's list lacked: {in_short(lacking)}")


def _used(scenario: Scenario, rank: int) -> dict[int, int]:
    """By round, the number of the list that counted when a rank began it, as its log has it."""
    counts, found = 0, {0: 0}
    for line in scenario.lines(rank, "log.jsonl"):
        if line["event"] == "member-list" and " counts: " in line["message"]:
            counts = line["version"]
        elif line["event"] in ("round", "connected"):
            found[line["round"] + (line["event"] == "round")] = counts
    return found


def main() -> None:
    """Play it."""
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
        report(scenario)


if __name__ == "__main__":
    main()
