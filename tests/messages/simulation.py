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

CRASH = '[[fault]]\nwhat = "crash"\n'
ONCE = "ranks = [1]\nround = 3\n"

OF_FILES = {
    "ranks = [8] {in}: expected ranks from 0 to 7": CRASH + "ranks = [8]\nround = 1",
    "ranks {in} = -1: input should be greater than or equal to 0": CRASH + "ranks = [-1]\nround = 1",
    "ranks = [1, 1] {in}: name each rank once": CRASH + "ranks = [1, 1]\nround = 1",
    "ranks {in} = []: list should have at least 1 item after validation, not 0": CRASH + "ranks = []\nround = 1",
    "ranks is missing {in}: add ranks = [N, ...]": CRASH + "round = 1",
    "round is missing {in}: add round = N": CRASH + "ranks = [1]",
    "round = 40 {in}: expected a round of this run, 0 to 39": CRASH + "ranks = [1]\nround = 40",
    "for {in} = -3: input should be greater than 0": CRASH + ONCE + "for = -3",
    "times = 2 {in}: only what = 'slow' has it, and this is a 'crash'": CRASH + ONCE + "times = 2",
    "what is missing {in}: add what = one of crash, cut, slow": "[[fault]]\n" + ONCE,
    "fault in {file} = {'what': 'crash'}: expected tables [[fault]]": '[fault]\nwhat = "crash"',
    "{file} is not valid TOML: Expected ']]' at the end of an array declaration (at end of document)": "[[fault",
    "for {in} = '3': input should be a valid number": CRASH + 'ranks = [1]\nround = 1\nfor = "3"',
    "ranks {in}: all 8 ranks are on one side: name fewer": (
        f'[[fault]]\nwhat = "cut"\nranks = {[*range(8)]}\nround = 1'
    ),
    "round_seconds in {file} = 1e+300: input should be less than or equal to 3600": "round_seconds = 1e300",
}
UNKNOWN = {
    "unknown fault 'crsh' in what {in}: did you mean 'crash'? valid: crash, cut, slow": (
        f'[[fault]]\nwhat = "crsh"\n{ONCE}'
    ),
    "unknown key 'rank' {in}: did you mean 'ranks'? valid: what, ranks, round, for, times": CRASH + ONCE + "rank = [1]",
    "unknown key 'seed' in {file}: valid: round_seconds, fault": "seed = 1",
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
