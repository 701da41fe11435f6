"""Error messages of membership: operators' keys, and settings that do not suit a federation that changes."""

from pathlib import Path
from typing import Any

from dpeer.exceptions import ConfigurationError, PartitionError, TopologyError
from dpeer.federation.build import task_of
from dpeer.federation.config import resolve
from dpeer.federation.epoch_graph import epoch_graph
from dpeer.federation.epoch_setup import check_changeable
from dpeer.federation.operators import check_operators, read_operator, write_operator
from dpeer.federation.settings import Settings
from dpeer.topology import build_listed
from tests.messages.message import Message

ONE, TWO = "ab" * 32, "cd" * 32


def operators(*keys: Any, **more: Any) -> Any:
    return lambda _: check_operators(Settings(operators=list(keys), **more))


def changeable(**values: Any) -> Any:
    return lambda _: check_changeable(resolve(Settings.model_validate({"operators": [ONE], **values}), 0))


def another_operator(folder: Path) -> None:
    read_operator(write_operator(folder)[0], (ONE, TWO))


def twice(folder: Path) -> None:
    write_operator(folder)
    write_operator(folder)


MESSAGES = {
    "no key": Message(
        operators(ONE, "ab"), ConfigurationError,
        "operators.1 = 'ab': expected 64 hexadecimal digits, as `dpeer keygen --operator` prints them",
    ),
    "capital letters": Message(
        operators(ONE.upper()), ConfigurationError,
        f"operators.0 = '{ONE.upper()}': expected 64 hexadecimal digits, as `dpeer keygen --operator` prints them",
    ),
    "an operator twice": Message(
        operators(ONE, TWO, ONE), ConfigurationError, f"operators.2 = '{ONE}' stands twice: list each operator once"
    ),
    "more signers than operators": Message(
        operators(ONE, signers=2), ConfigurationError,
        "signers = 2: the federation file lists 1 operators: list as many keys, or ask for fewer signers",
    ),
    "signers without operators": Message(
        lambda _: check_operators(Settings(signers=2)), ConfigurationError,
        "signers = 2: the federation file lists 0 operators: list as many keys, or ask for fewer signers",
    ),
    "operators of a run without a name": Message(
        operators(ONE), ConfigurationError,
        'operators: give the run a name of its own, too, such as name = "ward-study-1"',
    ),
    "a long name of a run": Message(
        lambda _: Settings(name="a" * 65), ConfigurationError,
        "name = '…': expected 1 to 64 printable characters, such as ward-study-1",
    ),
    "many operators": Message(
        operators(*(f"{number:064x}" for number in range(65))), ConfigurationError, "operators: 65 keys, at most 64"
    ),
    "another operator's secret": Message(
        another_operator, ConfigurationError,
        "--operator '{folder}/operator.secret': its public key …… is not among the federation's operators: "
        "abababababababab…, cdcdcdcdcdcdcdcd…",
    ),
    "an operator's secret that exists": Message(
        twice, ConfigurationError,
        "--out '{folder}': {folder}/operator.secret exists: a secret is never overwritten; remove it first if nothing "
        "uses it any more",
    ),
    "a server's sample": Message(
        changeable(topology="full", weights="uniform", participation_mode="server"), ConfigurationError,
        "--participation-mode server: all peers take the mean of a sample of the first members, and the operators may "
        "change it: leave it out, or start a federation without `operators`",
    ),
    "noise for averages": Message(
        changeable(privacy="client", noise_multiplier=2.0, dp_adversary="aggregate", dp_min_honest=2),
        ConfigurationError,
        "--dp-adversary aggregate: its noise is for the averages of the first graph, and the operators may change it: "
        "leave it out, or start a federation without `operators`",
    ),
    "many members": Message(
        changeable(size=1025), ConfigurationError, "operators: a federation that can change has at most 1024 members"
    ),
    "a rank without a share": Message(
        lambda _: task_of(resolve(Settings(size=2, task="digits", operators=[ONE]).of_rank(2, joins=True), 2)),
        PartitionError,
        "rank 2: dirichlet:0.3 divides the data into 2 shares, for ranks 0 to 1: start the federation with --shares 3 "
        "to keep one for each rank that joins, or give it data of its own (--partition own)",
    ),
    "shares of nothing": Message(
        lambda folder: task_of(resolve(Settings(
            size=2, shares=3, task="csv", partition="own",
            task_options={"path": str(table(folder)), "target": "y"},
        ), 0)),
        ConfigurationError,
        "--shares 3: every peer has data of its own (--partition own), and nothing is divided: leave it out",
    ),
    "a first member that joins": Message(
        lambda _: Settings(size=2, operators=[ONE]).of_rank(1, joins=True), ConfigurationError,
        "--join: rank 1 is one of the first 2 members, which the federation file names: start it without --join",
    ),
    "a rank that is no member": Message(
        lambda _: Settings(size=2, operators=[ONE]).of_rank(2), ConfigurationError,
        "rank 2 does not exist in a federation of size 2: 0..1; one that an operator has let in since starts with "
        "--join",
    ),
    "a graph without edges": Message(lambda _: build_listed([], 3), TopologyError, "edges: the graph has none"),
    "a loop": Message(
        lambda _: build_listed([(0, 1), (2, 2)], 3), TopologyError,
        "the graph: an edge joins rank 2 to itself: leave it out, its own weight is always there",
    ),
    "a grid of a prime": Message(
        lambda _: epoch_graph({"topology": "grid"}, range(5)), TopologyError,
        "grid: size 5 is prime, which leaves only a line: choose another size, or the line itself by grid shape 1x5",
    ),
}  # fmt: skip


def table(folder: Path) -> Path:
    path = folder / "table.csv"
    path.write_text("a,y\n" + "".join(f"{n},{n % 2}\n" for n in range(60)))
    return path
