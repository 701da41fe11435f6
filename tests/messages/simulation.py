"""Error messages of simulation/."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpeer.exceptions import AddressError, ConfigurationError, UnknownName
from dpeer.federation.folders import refuse_faults
from dpeer.federation.settings import Settings
from dpeer.simulation.faults import check_faults, read_faults
from dpeer.simulation.network import FaultyNetwork
from dpeer.simulation.run import simulate
from dpeer.simulation.virtual_time import Process
from tests.messages.message import Message, file

CRASH, FREEZE, RESTART = (f'[[fault]]\nwhat = "{kind}"\n' for kind in ("crash", "freeze", "restart"))
ONCE = "ranks = [1]\nround = 3\n"

OF_FILES = {
    "ranks = [8] {in}: expected ranks from 0 to 7": CRASH + "ranks = [8]\nround = 1",
    "ranks {in} = -1: input should be greater than or equal to 0": CRASH + "ranks = [-1]\nround = 1",
    "ranks = [1, 1] {in}: name each rank once": CRASH + "ranks = [1, 1]\nround = 1",
    "ranks {in} = []: list should have at least 1 item after validation, not 0": CRASH + "ranks = []\nround = 1",
    "ranks {in}: the ranks are missing: add ranks = [N, ...] or pick = N": CRASH + "round = 1",
    "round {in}: the time is missing: add round = N, every = N or rate = SHARE": CRASH + "ranks = [1]",
    "round = 40 {in}: expected a round of this run, 0 to 39": CRASH + "ranks = [1]\nround = 40",
    "pick = 9 {in}: the federation has 8 peers": CRASH + "pick = 9\nround = 1",
    "pick = 3 {in}: the table names 2 ranks": CRASH + "pick = 3\nranks = [1, 2]\nround = 1",
    "for {in} = -3: input should be greater than 0": CRASH + "pick = 2\nevery = 10\nfor = -3",
    "rate = 0.1 {in}: it happens by rate or every 10 rounds: leave one out": CRASH + "pick = 2\nevery = 10\nrate = 0.1",
    "pick = 2 {in}: rate draws for each rank whether it is hit: leave pick out": CRASH + "pick = 2\nrate = 0.1",
    "until = 5 {in}: it happens once: add every = N or rate = SHARE, or leave it out": CRASH
    + "ranks = [1]\nround = 3\nuntil = 5",
    "until = 2 {in}: expected round (3) or later": CRASH + ONCE + "every = 2\nuntil = 2",
    "times = 2 {in}: only what = 'slow' has it, and this is a 'crash'": CRASH + ONCE + "times = 2",
    "for {in}: the duration of the freeze is missing: add for = ROUNDS (for good is what = 'crash')": FREEZE + ONCE,
    "for = 2 {in}: a restart is over at once: leave it out, or use what = 'crash'": RESTART + ONCE + "for = 2",
    "what is missing {in}: add what = one of crash, restart, freeze, slow, partition, leave": "[[fault]]\n" + ONCE,
    "fault in {file} = {'what': 'crash'}: expected tables [[fault]]": '[fault]\nwhat = "crash"',
    "{file} is not valid TOML: Expected ']]' at the end of an array declaration (at end of document)": "[[fault",
    "for {in} = '3': input should be a valid number": CRASH + 'ranks = [1]\nround = 1\nfor = "3"',
    (
        "every = 40 {in}: the run has 40 rounds, so it would never happen: expected at most 39, or add round "
        "= N, the first one"
    ): CRASH + "ranks = [1]\nevery = 40",
    "ranks or pick {in}: all 8 ranks are on one side: name fewer": '[[fault]]\nwhat = "partition"\npick = 8\nround = 1',
    "round_seconds in {file} = 1e+300: input should be less than or equal to 3600": "round_seconds = 1e300",
}
CHANGES = {
    "change.0.jion: Extra inputs are not permitted": "[[change]]\nround = 2\nleave = [4]\njion = [8]",
    "round = 40: expected 1 to 39, because the run has 40 rounds by then": "[[change]]\nround = 40\njoin = [8]",
    "join = 8: expected a rank that none has had: 9 is free": (
        "[[change]]\nround = 2\njoin = [8]\n[[change]]\nround = 5\nleave = [8]\n[[change]]\nround = 9\njoin = [8]"
    ),
}
UNKNOWN = {
    (
        "unknown fault 'crsh' in what {in}: did you mean 'crash'? valid: crash, restart, freeze, slow, partition, leave"
    ): '[[fault]]\nwhat = "crsh"\nranks = [1]\nround = 1',
    (
        "unknown key 'rank' {in}: did you mean 'ranks'? valid: what, ranks, pick, round, every, rate, until, "
        "for, times, at"
    ): CRASH + "rank = [1]\nround = 1",
    "unknown key 'seeds' in {file}: did you mean 'seed'? valid: seed, round_seconds, fault, change": "seeds = 1",
}


def read(content: str) -> Callable[[Path], Any]:
    return file("faults.toml", content, lambda path: read_faults(path, 8, 40))


def placed(text: str) -> str:
    return text.replace("{in}", "in [[fault]] 1 of {file}").replace("{file}", "{folder}/faults.toml")


async def listen_twice(folder: Path) -> None:
    network = FaultyNetwork(random.Random(1))
    for rank in (0, 1):
        await network.transport(rank, Process()).listen("sim://0")


FAULTS = Path("faults.toml")

MESSAGES = {
    **{text: Message(read(content), ConfigurationError, placed(text)) for text, content in OF_FILES.items()},
    **{text: Message(read(content), UnknownName, placed(text)) for text, content in UNKNOWN.items()},
    **{
        f"changes: {text}": Message(read(content), ConfigurationError, f"{{folder}}/faults.toml: {text}")
        for text, content in CHANGES.items()
    },
    "a missing file": Message(
        lambda folder: read_faults(folder / "none.toml", 8, 40),
        ConfigurationError,
        "--faults '{folder}/none.toml': No such file or directory",
    ),
    "faults of real peers": Message(
        lambda _: refuse_faults(Settings(size=4, faults=FAULTS), resume=False),
        ConfigurationError,
        "--faults faults.toml: only dpeer simulate has a clock and a network of its own: use that",
    ),
    "faults of a resumed run": Message(
        lambda _: check_faults(Settings(size=4, faults=FAULTS), 4, 9, resume=True),
        ConfigurationError,
        "--faults faults.toml: a run with faults cannot be resumed, because no file holds the messages that were under "
        "way when it was stopped: start over with --overwrite",
    ),
    "the neighbors' time without a clock of each": Message(
        lambda _: simulate(Settings(size=4, rank={2: {"round_seconds": "auto"}})),
        ConfigurationError,
        "--round-seconds auto: the peers of a simulation train in turn, so none can see how long the others take: give "
        "seconds, or --faults with a file (which may be empty) for a clock of each, or use dpeer cluster",
    ),
    "an address in use": Message(listen_twice, AddressError, "address 'sim://0' is in use: give each peer its own"),
}
