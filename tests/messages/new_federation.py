"""Error messages of a new federation: its hosts file, and what it cannot be made of."""

from pathlib import Path
from typing import Any

from dpeer.exceptions import AddressError, ConfigurationError, OutputError, UnknownName
from dpeer.federation.hosts_file import Host, read_hosts
from dpeer.federation.new_federation import plan, write
from tests.messages.message import Message, file

LINE = "expected HOST, HOST:PORT, a whole address, or - for a rank that only dials out; then the site's name"


def hosts(content: str) -> Any:
    return file("hosts.txt", content, lambda path: read_hosts(path, 7700))


def planned(hosts: list[Host] | None = None, *, operator: bool = False, **flags: Any) -> Any:
    return lambda folder: plan(flags, hosts, folder, operator=operator)


def under_a_file(folder: Path) -> None:
    (folder / "trial").write_text("a file")
    write(plan({}, None, folder / "trial", operator=False), folder / "trial", keys=False, operator=False)


MESSAGES = {
    "no hosts file": Message(
        lambda folder: read_hosts(folder / "hosts.txt", 7700), ConfigurationError,
        "--hosts '{folder}/hosts.txt': No such file or directory"),
    "no text": Message(
        lambda folder: [(folder / "hosts.txt").write_bytes(b"\xff\xff"), read_hosts(folder / "hosts.txt", 7700)],
        ConfigurationError, "--hosts '{folder}/hosts.txt': no text in UTF-8"),
    "one host": Message(
        hosts("10.8.0.10\n# 10.8.0.11\n"), ConfigurationError,
        f"--hosts '{{folder}}/hosts.txt': 1 hosts: {LINE}; a line for each rank"),
    "no host": Message(
        hosts("10.8.0.10\n\n10.8.0.11:port\n"), ConfigurationError,
        f"line 3 of {{folder}}/hosts.txt: '10.8.0.11:port': {LINE}"),
    "all interfaces": Message(
        hosts("*:7700\n10.8.0.10\n"), ConfigurationError, f"line 1 of {{folder}}/hosts.txt: '*:7700': {LINE}"),
    "another size": Message(
        planned([Host("tcp://a:1"), Host("tcp://b:1")], size=3), ConfigurationError,
        "--size 3: --hosts has 2 ranks: leave --size out"),
    "two neighbors that dial out": Message(
        planned([Host("tcp://a:1"), Host(None), Host(None)]), AddressError,
        "ranks 1 and 2 are neighbors and neither has an address: give one of them `address` in the federation file "
        "(relay://HOST:PORT where none can be dialled)"),
    "one address for two": Message(
        planned([Host("tcp://a:1"), Host("tcp://a:1")]), AddressError,
        "rank.0 and rank.1 have the same address 'tcp://a:1'"),
    "one name for two": Message(
        planned([Host("tcp://a:1", "A"), Host("tcp://b:1", "A")]), ConfigurationError,
        "--hosts: two ranks are of the site 'A': give each line a name of its own"),
    "operators without a name": Message(
        planned(operators="ab" * 32), ConfigurationError,
        'operators: give the run a name of its own, too, such as name = "ward-study-1"'),
    "no such setting's value": Message(
        planned(rounds=0), ConfigurationError, "--rounds = 0: input should be greater than or equal to 1"),
    "an algorithm that is none": Message(
        planned(algorithm="dfedsmcd"), UnknownName,
        "unknown algorithm 'dfedsmcd': did you mean 'dfedsmdc'? valid: local, …"),
    "a task that is none": Message(
        planned(task="digit"), UnknownName, "unknown task 'digit': did you mean 'digits'? valid: digits, …"),
    "privacy without a measure": Message(
        planned(privacy="client"), ConfigurationError,
        "--privacy client needs to know how much: give --target-epsilon 8 (the noise follows from it) or "
        "--noise-multiplier"),
    "a quorum that is none": Message(
        planned([Host("tcp://a:1"), Host("tcp://b:1")], quorum=1), ConfigurationError,
        "--quorum 1: expected 2 to 2 of 2 ranks; two groups of at most half the ranks could both go on, each without "
        "the other"),
    "a file in place of the folder": Message(
        under_a_file, OutputError, "'{folder}/trial' cannot be written: File exists"),
}  # fmt: skip
