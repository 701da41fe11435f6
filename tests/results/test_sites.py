"""Files that sites give away: their content, damage in them, and the mean over several."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from dpeer.exceptions import ConfigurationError
from dpeer.results.effect import Effect, find_gain
from dpeer.results.sites import Site, combine, read_site
from tests.error_texts import refused

FEDERATION = "0123456789abcdef" * 2


def site(rank: int, **values: Any) -> Site:
    worth = {
        "measure": "accuracy", "on": "test", "rows": 40, "differ": 6, "gain": 0.1, "low": 0.025,
        "high": 0.2, "verdict": "improved",
    }  # fmt: skip
    own = {
        "version": "0.1.0", "federation": FEDERATION, "size": 8, "member_list": 0, "members": tuple(range(8)),
        "rounds": 20,
    }  # fmt: skip
    own |= {name: value for name, value in values.items() if name in own}
    worth |= {name: value for name, value in values.items() if name in worth}
    return Site(f"worth-{rank}.json", rank=rank, worth=Effect.of(worth), **own)


def test_a_file_is_read_as_it_was_written_and_has_no_row_in_it(tmp_path: Path) -> None:
    path = tmp_path / "worth.json"
    written = site(3)
    path.write_text(json.dumps(written.to_json()))
    found = read_site(path)
    assert found == Site(str(path), written.version, FEDERATION, 8, 0, tuple(range(8)), 3, 20, written.worth)
    lists = {name: value for name, value in written.to_json().items() if isinstance(value, list | tuple | dict)}
    assert lists == {"members": tuple(range(8))}
    assert set(written.to_json()) == {
        "kind", "format", "version", "federation", "size", "member_list", "members", "rank", "rounds",
        "measure", "on", "rows", "differ", "gain", "low", "high", "verdict",
    }  # fmt: skip


def test_a_value_that_dpeer_does_not_write_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "worth.json"
    for key, value in (
        ("version", 1), ("federation", "0123"), ("federation", "g" * 32), ("size", 0), ("size", True), ("rank", 8),
        ("rank", -1), ("rounds", 0), ("measure", "f1"), ("on", "train"),
        ("rows", 0), ("differ", 41), ("gain", 1.5), ("gain", "much"), ("low", None),
        ("high", 0.02), ("verdict", "great"), ("gain", 0.2), ("size", 10**8), ("members", [0]), ("members", [0, 8]),
        ("members", [0, "1"]), ("member_list", -1), ("rounds", 10**12), ("rows", 10**15),
    ):  # fmt: skip
        path.write_text(json.dumps(site(3).to_json() | {key: value}))
        with pytest.raises(ConfigurationError) as refused:
            read_site(path)
        assert str(refused.value) == f"{str(path)!r} is damaged: {key} = {value!r}"


def test_each_site_counts_once() -> None:
    generator = np.random.default_rng(4)
    sizes = [40, 60, 90, 400]
    alone = [(generator.random(size) < 0.7).astype(float) for size in sizes]
    joined = [np.where(generator.random(len(one)) < 0.7, one, generator.random(len(one)) < 0.9) for one in alone]
    found = combine(
        [
            site(rank, rows=len(a), **vars(find_gain(a, b, most_is_best=True)))
            for rank, (a, b) in enumerate(zip(joined, alone, strict=True))
        ][::-1]
    )
    gains = [float((a - b).mean()) for a, b in zip(joined, alone, strict=True)]
    over = ttest_1samp(gains, 0).confidence_interval()
    assert found.gain == pytest.approx(np.mean(gains))
    assert (found.low, found.high) == pytest.approx((over.low, over.high))
    assert [one.rank for one in found.sites] == [0, 1, 2, 3]
    assert found.missing == (4, 5, 6, 7)


def test_the_members_of_the_last_list_count_and_one_that_left_is_named(tmp_path: Path) -> None:
    later = {"member_list": 2, "members": (0, 1, 3, 8)}
    path = tmp_path / "worth.json"
    path.write_text(json.dumps(site(8, **later).to_json()))
    found = combine([site(0, gain=0.1, **later), site(2, gain=-0.1), read_site(path)])
    assert ([one.rank for one in found.sites], found.left, found.missing) == ([0, 8], (2,), (1, 3))
    assert found.gain == pytest.approx(0.1)
    with refused(ConfigurationError, "'worth-2.json': no file is of a member of list 2"):
        combine([site(2, **later)])


def test_a_single_site_has_no_interval() -> None:
    only = combine([site(2)])
    assert (only.gain, only.low, only.high) == (0.1, None, None)


KIND = b'"kind": "what joining was worth to a site"'


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        (None, "worth.json' cannot be read: No such file"),
        (b"\xff\xfe", "worth.json' cannot be read: it is no text"),
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
