"""Five random schedules of kill -9, SIGSTOP and restart on eight processes over TCP: none hangs.

`make test-all` plays twenty.
"""

import json
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.thinning import only

pytestmark = pytest.mark.slow

SIZE = 8
SCHEDULES = 5
"""So many, one after the other, befall each federation: most of the work is to start one."""

SPAN = 6
"""Rounds of each schedule."""

ROUNDS = SCHEDULES * SPAN
GATED = '''
"""The small task; a round lasts a moment at least, and none begins that the file `gate` does not allow."""

import time
from pathlib import Path

import small
from dpeer.peer import rounds

trains = rounds.train_and_release


def task(rank, size, seed):
    def gated(learner, number, *rest):
        time.sleep(0.05)
        while number >= int(Path("gate").read_text()):
            time.sleep(0.02)
        return trains(learner, number, *rest)

    rounds.train_and_release = gated
    return small.task(rank, size, seed)
'''


@dataclass(frozen=True)
class Accident:
    """What befalls a process.

    Attributes:
        how: "kill" or "stop".
        rank: Whom.
        number: Once this many rounds are in its metrics.jsonl.
        after: Seconds after that, so that it is hit in any part of a round.
        healed: When it is restarted or goes on: "at once", "hit again" (once more while it starts, or goes on for a
            moment), when those who are well are "past" the next round, or wait at the "end" of the schedule for it.
    """

    how: str
    rank: int
    number: int
    after: float
    healed: str


def drawn(generator: random.Random, first: int) -> list[Accident]:
    """A schedule, which begins in round `first`; five ranks at least stay well, each with a neighbor that does.

    One that is cut off from both pauses until a neighbor is back.
    """
    ranks = generator.sample(range(SIZE), generator.randint(1, 3))
    while any((rank - 1) % SIZE in ranks and (rank + 1) % SIZE in ranks for rank in {*range(SIZE)}.difference(ranks)):
        ranks = generator.sample(range(SIZE), len(ranks))
    found = [
        Accident(
            how=generator.choice(["kill", "stop"]),
            rank=rank,
            number=first + generator.randrange(1, SPAN - 2),
            after=round(generator.uniform(0, 0.1), 3),
            healed=generator.choice(["at once", "hit again", "past", "end"]),
        )
        for rank in ranks
    ]
    return sorted(found, key=lambda one: one.number)


class Federation:
    """Eight processes, and what befalls them."""

    def __init__(
        self,
        dpeer_process: Callable[..., Any],
        until: Callable[..., Any],
        lines: Callable[..., int],
        folder: Path,
        port: int,
    ) -> None:
        self._dpeer, self._until, self._lines, self._folder = dpeer_process, until, lines, folder
        self._common = (
            "start", "--topology", "ring", "--size", SIZE, "--task", "gated.py:task", "--batch-size", 20,
            "--body-epochs", 1, "--alone", "never", "--rounds", ROUNDS, "--evaluate-every", ROUNDS, "--threads", 1,
            "--base-port", port,
            "--dead-after", 1.5, "--out", "run",
        )  # fmt: skip
        self._ill: set[int] = set()
        self.allow(0)
        self.peers = {rank: self._dpeer(*self._common, "--rank", rank) for rank in range(SIZE)}

    def allow(self, rounds: int) -> None:
        """Let rounds begin up to this one."""
        draft = self._folder / "gate.new"
        draft.write_text(str(rounds))
        draft.rename(self._folder / "gate")

    def done(self, ranks: Iterator[int] | set[int], rounds: int) -> None:
        """Wait until these ranks have completed so many rounds."""
        self._until(lambda: all(self._lines("run", rank) >= rounds for rank in ranks))

    def hit(self, accident: Accident) -> None:
        """Kill or stop a process, in the round in which it is due; if it is waited for by all, then in that one."""
        self.done({accident.rank}, accident.number)
        time.sleep(accident.after)
        self.strike(accident)
        self._ill.add(accident.rank)
        if accident.healed in ("at once", "hit again"):
            self.heal(accident)
        if accident.healed == "hit again":
            time.sleep(accident.after)
            self.strike(accident)
            self.heal(accident)

    def strike(self, accident: Accident) -> None:
        process = self.peers[accident.rank]
        process.signal(signal.SIGKILL if accident.how == "kill" else signal.SIGSTOP)
        if accident.how == "kill":
            process.wait()

    def heal(self, accident: Accident) -> None:
        """Restart what was killed, and let go on what was stopped."""
        if accident.how == "kill":
            self.peers[accident.rank] = self._dpeer(*self._common, "--rank", accident.rank, "--resume")
        else:
            self.peers[accident.rank].signal(signal.SIGCONT)
        self._ill.discard(accident.rank)

    def endure(self, schedule: list[Accident], last: int) -> None:
        """Let a schedule happen; at its end all have completed the rounds up to `last`."""
        self.allow(last)
        for accident in schedule:
            self.hit(accident)
        well = {*range(SIZE)} - self._ill
        for accident in sorted(schedule, key=lambda one: one.healed, reverse=True):
            if accident.rank not in self._ill:
                continue
            self.done(well, accident.number + 2 if accident.healed == "past" else last)
            self.heal(accident)
        self.done({*range(SIZE)}, last)


@contextmanager
def named(what: object) -> Iterator[None]:
    """Say what was going on when something fails."""
    try:
        yield
    except BaseException:
        print(what)
        raise


@pytest.mark.parametrize("seed", only([1], range(4)))
def test_whatever_befalls_them_all_processes_run_all_rounds(
    seed, task, dpeer_process, until, rounds_done, free_ports, tmp_path
):
    (tmp_path / "gated.py").write_text(GATED)
    ours = Federation(dpeer_process, until, rounds_done, tmp_path, free_ports(SIZE))
    ours.allow(1)
    ours.done({*range(SIZE)}, 1)
    generator = random.Random(seed)
    for first in range(0, ROUNDS, SPAN):
        schedule = drawn(generator, first)
        with named(f"seed {seed}, rounds {first} to {first + SPAN}: {schedule}"):
            # The last round is not begun before all are back: who is done may leave.
            ours.endure(schedule, min(first + SPAN, ROUNDS - 1))
    ours.allow(ROUNDS)
    for rank, process in ours.peers.items():
        assert process.wait() == 0, (rank, process.output)
        lines = (tmp_path / "run" / f"rank-{rank}" / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["round"] for line in lines] == [*range(ROUNDS)]
        summary = json.loads((tmp_path / "run" / f"rank-{rank}" / "summary.json").read_text())
        assert (summary["status"], summary["completed_rounds"]) == ("done", ROUNDS)
        assert "second-body" not in (tmp_path / "run" / f"rank-{rank}" / "log.jsonl").read_text()
