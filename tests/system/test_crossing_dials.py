"""Real peers with keys that dial each other at once: two connections, of which one lasts, and no round is lost."""

import json
from contextlib import contextmanager

import pytest

from dpeer.federation.keys import write_secret
from tests.lines import lines_to
from tests.thinning import only

pytestmark = pytest.mark.slow

ROUNDS = 100
"""Of a quarter of a second until the test lets the peers hurry, so that they are under way for as long as it looks."""

QUICK = ("--body-epochs", 1, "--head-epochs", 1, "--batch-size", 20, "--evaluate-every", ROUNDS)

LOST = {"neighbor-dead", "neighbor-lost", "neighbor-back", "neighbor-reconnected"}
"""Events of a neighbor that was not on one connection all the time."""


class Sites:
    """Sites of which each knows where the others are reached, by a line, and listens at a port of its own."""

    def __init__(self, folder, first, lines, top):
        self.folder, self.first, self.lines, self._top = folder, first, lines, top
        self.keys = [write_secret(rank, folder / "keys") for rank in range(len(lines))]

    def file(self, rank, known):
        """The federation file of a site, with the addresses of these."""
        text = list(self._top)
        for one, (secret, key) in enumerate(self.keys[: max(rank + 1, 2)]):
            text += [f"[rank.{one}]", f'key = "{key.hex()}"']
            if one == rank:
                text += [f'secret = "{secret}"', f'bind = "tcp://127.0.0.1:{self.first + rank}"']
            if one in known:
                text.append(f'address = "{self.lines[one].address}"')
        path = self.folder / f"site-{rank}.toml"
        path.write_text("\n".join(text) + "\n")
        return path


@pytest.fixture
def sites(tmp_path, free_ports, task):
    """Start-up of so many sites, with more lines at the top of each file."""

    @contextmanager
    def make(count, *more):
        top = ["size = 2", f'task = "{task}"', 'alone = "never"', 'topology = "full"', *more]
        first = free_ports(count)
        with lines_to([first + rank for rank in range(count)], cut=True) as lines:
            yield Sites(tmp_path, first, lines, top)

    return make


@pytest.fixture
def started(dpeer_process):
    """Start a site with its own file."""
    return lambda file, rank, *more: dpeer_process(
        "start", "--federation", file, "--rank", rank, "--threads", 1, "--out", "out", *QUICK,
        "--task-option", "pause=0.006", *more,
    )  # fmt: skip


@pytest.fixture
def heard(tmp_path):
    """By round, the neighbors that a rank has mixed; of the rounds that it took part in."""

    def read(rank):
        path = tmp_path / f"out/rank-{rank}/metrics.jsonl"
        text = path.read_text() if path.exists() else ""
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return {line["round"]: line["heard"] for line in lines if line["active"]}

    return read


@pytest.fixture
def events(tmp_path):
    """The events of a rank's log."""
    return lambda rank: [
        json.loads(line)["event"] for line in (tmp_path / f"out/rank-{rank}/log.jsonl").read_text().splitlines()
    ]


@pytest.mark.parametrize(
    "first", only([None, 1], [None, 0, 1]), ids=["at once", "lower rank's first", "higher rank's first"]
)
def test_of_two_connections_one_lasts_and_of_those_in_use_the_one_that_the_lower_rank_has_dialled(
    sites, started, heard, events, first, simulate, results, task, until, hurry
):
    """Both have dialled before any byte passes; a later connection is opened once rounds run on the first one.

    A lower rank whose own connection is not established yet gives it up for the other one. So of two that open at once
    either may last.
    """
    with sites(2, f"rounds = {ROUNDS}") as federation:
        to_zero, to_one = federation.lines
        peers = [started(federation.file(rank, {1 - rank}), rank) for rank in range(2)]
        until(lambda: to_zero.dialled and to_one.dialled)
        if first is not None:
            (to_one if first == 0 else to_zero).mend()
            until(lambda: all(len(heard(rank)) > 1 for rank in range(2)))
        to_one.mend()
        to_zero.mend()
        (goes,) = until(lambda: [line for line in federation.lines if line.ended])
        stays = to_one if goes is to_zero else to_zero
        assert first is None or stays is (to_one if first == 0 else to_zero)
        then = len(heard(0))
        until(lambda: len(heard(0)) > then + 1)
        assert [(line.dialled, line.ended) for line in (stays, goes)] == [(1, 0), (1, 1)], "none dials anew"
        hurry()
        for peer in peers:
            peer.succeed()
        until(lambda: stays.ended)
    for rank in range(2):
        assert heard(rank) == {number: [1 - rank] for number in range(ROUNDS)}
        assert not LOST & {*events(rank)}
    common = ("--size", 2, "--task", task, "--rounds", ROUNDS, "--topology", "full", *QUICK)
    simulate(*common, "--out", "simulated")
    assert results("out", 2) == results("simulated", 2)
