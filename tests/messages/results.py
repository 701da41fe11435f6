"""Error messages of results/."""

from typing import Any

from dpeer.exceptions import ConfigurationError
from dpeer.results.effect import Effect
from dpeer.results.effect_statistics import find_gain
from dpeer.results.reading import find_runs
from dpeer.results.sites import Site, combine, read_site
from dpeer.results.units import read_duration, read_rate, read_size
from tests.messages.message import Message, file

KIND = '"kind": "what joining was worth to a site"'
DAMAGED = "'{folder}/worth.json' is no file of dpeer worth --give-away, or is damaged"


def given(content: str, text: str = DAMAGED) -> Message:
    """A file that a site is said to have given away."""
    return Message(file("worth.json", content, read_site), ConfigurationError, text)


def two(text: str, rank: int = 1, **changes: Any) -> Message:
    """The files of two sites, the second with changes."""

    def site(rank: int, measure: str = "accuracy", on: str = "test", federation: str = "a", size: int = 8) -> Site:
        worth = Effect(measure=measure, on=on, rows=40, gain=0.1)
        return Site(f"worth-{rank}.json", "0.1.0", federation, size, rank, 20, False, worth)

    return Message(lambda folder: combine([site(0), site(rank, **changes)]), ConfigurationError, text)


ANOTHER = (
    "'worth-1.json' is of another federation than 'worth-0.json': combine files of peers that have trained together"
)

MESSAGES = {
    "deep brackets in a site's file": given("[" * 9_000),
    "a terminal's control sequence": given("\x1b[2J"),
    "an empty file": given(""),
    "another JSON file": given('{"gain": 0.1}'),
    "no text": Message(
        lambda folder: ((folder / "worth.json").write_bytes(b"\xff\xfe"), read_site(folder / "worth.json")),
        ConfigurationError, "'{folder}/worth.json' cannot be read: it is no text",
    ),
    "no file": Message(
        lambda folder: read_site(folder / "none"), ConfigurationError,
        "'{folder}/none' cannot be read: No such file or directory",
    ),
    "another format": given(f'{{{KIND}, "format": 2}}', "'{folder}/worth.json' has format 2, this dpeer reads 1"),
    "a long format": given(
        f'{{{KIND}, "format": 1{"0" * 4_000}}}',
        "'{folder}/worth.json' has format a number of many digits, this dpeer reads 1",
    ),
    "a long version": given(
        f'{{{KIND}, "format": 1, "version": "{"x" * 5_000}"}}',
        f"'{{folder}}/worth.json' is damaged: version = '{'x' * 79}...",
    ),
    "sites of two federations": two(ANOTHER, federation="b"),
    "sites of two sizes": two(ANOTHER, size=9),
    "a gain of loss and one of accuracy": two(
        "'worth-1.json' has a gain in loss of test rows, 'worth-0.json' one in accuracy of test rows: combine files "
        "with one measure",
        measure="test_loss",
    ),
    "gains on other rows": two(
        "'worth-1.json' has a gain in accuracy of validation rows, 'worth-0.json' one in accuracy of test rows: "
        "combine files with one measure",
        on="validation",
    ),
    "a rank twice": two("'worth-0.json' and 'worth-0.json' are both of rank 0", rank=0),
    "a folder without a run": Message(
        lambda folder: find_runs([folder]), ConfigurationError,
        "'{folder}' holds no run: expected {folder}/summary.json, or folders that hold one",
    ),
    "no folder": Message(
        lambda folder: find_runs([folder / "nowhere"]), ConfigurationError,
        "'{folder}/nowhere' is no folder: name the --out of a run, or a folder of such",
    ),
    "other rows": Message(
        lambda folder: find_gain([1.0], [1.0, 0.0], most_is_best=True), ValueError, "1 and 2 rows cannot be compared"
    ),
    "no rows": Message(
        lambda folder: find_gain([], [], most_is_best=True), ValueError, "0 and 0 rows cannot be compared"
    ),
    "no size": Message(
        lambda folder: read_size("--body-bytes", "x\ny"), ConfigurationError,
        "--body-bytes 'x\\ny': write bytes, up to 1000 TB, for example 45MB or 43MiB",
    ),
    "no rate": Message(
        lambda folder: read_rate("--bandwidth", "100MB"), ConfigurationError,
        "--bandwidth '100MB': write bits or bytes per second, for example 100Mbit or 12.5MB/s",
    ),
    "no duration": Message(
        lambda folder: read_duration("--latency", "20 weeks"), ConfigurationError,
        "--latency '20 weeks': write a time in ms, s, min, h or d, for example 20ms or 7d",
    ),
}  # fmt: skip
