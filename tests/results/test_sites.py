"""Files that sites give away: their content, damage in them, and which go together."""

import json
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.results.effect import Effect
from dpeer.results.sites import Site, combine, read_site
from tests.error_texts import refused

FEDERATION = "0123456789abcdef" * 2
CONTENT: dict[str, Any] = {
    "kind": "what joining was worth to a site", "format": 1, "version": "0.1.0", "federation": FEDERATION, "size": 8,
    "member_list": 0, "members": tuple(range(8)), "rank": 3, "rounds": 20, "measure": "accuracy", "on": "test",
    "rows": 40, "differ": 6, "gain": 0.1, "low": 0.025, "high": 0.2, "verdict": "improved",
}  # fmt: skip


def site(rank: int, **values: Any) -> Site:
    return Site(**CONTENT | values | {"rank": rank}, name=f"worth-{rank}.json")


def test_a_file_is_read_as_it_was_written_and_has_no_row_in_it(tmp_path: Path) -> None:
    path = tmp_path / "worth.json"
    effect = Effect.of({**CONTENT, "joined": 0.9, "alone": 0.8, "rounds": 7})
    own = ("version", "federation", "size", "member_list", "members", "rank", "rounds")
    written = Site.of(effect, **{name: CONTENT[name] for name in own})
    assert written.model_dump() == CONTENT, "and nothing else"
    path.write_text(json.dumps(written.model_dump()))
    assert read_site(path) == site(3).model_copy(update={"name": str(path)})
    assert (read_site(path).worth.gain, read_site(path).worth.verdict) == (0.1, "improved")


def test_a_value_that_dpeer_does_not_write_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "worth.json"
    for key, value in (
        ("version", 1), ("federation", "0123"), ("federation", "g" * 32), ("size", 0), ("size", True), ("rank", 8),
        ("rank", -1), ("rounds", 0), ("measure", "f1"), ("on", "train"),
        ("rows", 0), ("differ", 41), ("gain", 1.5), ("gain", "much"), ("low", None),
        ("high", 0.02), ("verdict", "great"), ("gain", 0.2), ("size", 10**8), ("members", (0,)), ("members", (0, 8)),
        ("members", (0, -1)), ("members", (0, "1")), ("member_list", -1), ("rounds", 10**12), ("rows", 10**15),
    ):  # fmt: skip
        path.write_text(json.dumps(CONTENT | {key: value}))
        with refused(ConfigurationError, f"{str(path)!r} is damaged: {key}"):
            read_site(path)
    path.write_text(json.dumps({key: value for key, value in CONTENT.items() if key != "rows"}))
    with refused(ConfigurationError, "is damaged: rows = nothing"):
        read_site(path)


def test_the_members_of_the_last_list_count_and_sites_come_by_rank(tmp_path: Path) -> None:
    later = {"member_list": 2, "members": (0, 1, 3, 8)}
    path = tmp_path / "worth.json"
    path.write_text(json.dumps(site(8, **later).model_dump()))
    found, members = combine([read_site(path), site(2), site(0, **later)])
    assert ([one.rank for one in found], members) == ([0, 2, 8], (0, 1, 3, 8))
    with refused(ConfigurationError, "'worth-2.json': no file is of a member of list 2"):
        combine([site(2, **later)])


KIND = b'"kind": "what joining was worth to a site"'


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        (None, "worth.json' cannot be read: No such file"),
        (b"\xff\xfe", "is no file of dpeer worth --give-away"),
        (b"[" * 9_000, "is no file of dpeer worth --give-away"),
        (b"\x1b[2J", "is no file of dpeer worth --give-away"),
        (b'{"gain": 0.1}', "is no file of dpeer worth --give-away"),
        (b'{%s, "format": 2}' % KIND, "has format 2, this dpeer reads 1"),
        (b'{%s, "format": 1%s}' % (KIND, b"0" * 4_000), "has format 1000000"),
        (b'{%s, "format": 1, "version": "%s"}' % (KIND, b"x" * 5_000), "version = '" + "x" * 79 + "..."),
    ],
)
def test_another_file_is_refused(content: bytes | None, fragment: str, tmp_path: Path) -> None:
    path = tmp_path / "worth.json"
    if content is not None:
        path.write_bytes(content)
    with refused(ConfigurationError, fragment):
        read_site(path)


@pytest.mark.parametrize(
    ("second", "fragment"),
    [
        (site(1, federation="0" * 32), "'worth-1.json' is of another federation than 'worth-0.json'"),
        (site(1, size=9), "'worth-1.json' is of another federation than 'worth-0.json'"),
        (site(1, measure="test_loss"), "'worth-1.json' has a gain in loss of test rows"),
        (site(1, on="validation"), "'worth-1.json' has a gain in accuracy of validation rows"),
        (site(0), "'worth-0.json' and 'worth-0.json' are both of rank 0"),
    ],
)
def test_files_that_do_not_go_together_are_refused(second: Site, fragment: str) -> None:
    with refused(ConfigurationError, fragment):
        combine([site(0), second])
