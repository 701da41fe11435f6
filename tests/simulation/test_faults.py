"""The file of `--faults`, and what is refused of it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.federation.folders import refuse_faults
from dpeer.federation.settings import Settings
from dpeer.simulation.faults import check_faults, read_faults
from dpeer.simulation.run import simulate
from tests.error_texts import refused


@pytest.mark.parametrize("check", [partial(check_faults, size=4, rounds=20), refuse_faults])
def test_a_run_that_had_faults_is_not_resumed_without_them(check: Callable[..., None], tmp_path: Path) -> None:
    settings = Settings(size=4, out=tmp_path)
    (tmp_path / "summary.json").write_text('{"algorithm": "fedavg", "size": 4, "settings": {"faults": null}}')
    check(settings, resume=True)
    (tmp_path / "summary.json").write_text('{"algorithm": "fedavg", "size": 4, "settings": {"faults": "f.toml"}}')
    with pytest.raises(ConfigurationError):
        check(settings, resume=True)
    check(settings, resume=False)


def test_a_file_has_its_faults_with_their_defaults(tmp_path: Path) -> None:
    path = tmp_path / "faults.toml"
    path.write_text(
        '[[fault]]\nwhat = "slow"\nranks = [3, 1]\nround = 4\n'
        '[[fault]]\nwhat = "cut"\nranks = [2]\nround = 1\nfor = 0.5\n'
    )
    found = read_faults(path, 4, 5)
    assert found.round_seconds == 60
    slow, cut = found.fault
    assert (slow.what, slow.ranks, slow.round, slow.lasts, slow.times) == ("slow", [3, 1], 4, None, 5)
    assert (cut.what, cut.ranks, cut.round, cut.lasts) == ("cut", [2], 1, 0.5)
    example = read_faults(Path(__file__).parents[2] / "examples" / "faults" / "two-of-eight.toml", 8, 35)
    assert {rank for one in example.fault for rank in one.ranks} == {0, 1, 2, 3, 4, 6}


CRASH = '[[fault]]\nwhat = "crash"\n'
ONCE = "ranks = [1]\nround = 3\n"


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        (CRASH + "ranks = [8]\nround = 1", "ranks = [8] in [[fault]] 1 of "),
        (CRASH + "ranks = [-1]\nround = 1", "ranks in [[fault]] 1 of "),
        (CRASH + "ranks = [1, 1]\nround = 1", "faults.toml: ranks = [1, 1]: name each rank once"),
        (CRASH + "round = 1", "ranks in [[fault]] 1 of "),
        (CRASH + "ranks = [1]\nround = 40", "round = 40 in [[fault]] 1 of "),
        (CRASH + ONCE + "times = 2", "faults.toml: times = 2: only what = "),
        ('[fault]\nwhat = "crash"', "faults.toml = {'what': 'crash'}: input should be a valid list"),
        ("[[fault", "faults.toml is not valid TOML"),
        (f'[[fault]]\nwhat = "cut"\nranks = {[*range(8)]}\nround = 1', "all 8 ranks are on one side"),
        (f'[[fault]]\nwhat = "crsh"\n{ONCE}', "what in [[fault]] 1 of "),
        (CRASH + ONCE + "rank = [1]", "unknown key 'rank' in [[fault]] 1 of "),
        ("seed = 1", "unknown key 'seed' in "),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(content: str, fragment: str, tmp_path: Path) -> None:
    path = tmp_path / "faults.toml"
    path.write_text(content)
    with refused(ConfigurationError, fragment, "faults.toml"):
        read_faults(path, 8, 40)


@pytest.mark.parametrize("command", [("cluster",), ("start", "--rank", "0")])
def test_a_federation_file_cannot_have_them_for_real_peers(
    command: tuple[str, ...], dpeer: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "run.toml").write_text('size = 3\nfaults = "faults.toml"\n')
    ended = dpeer(*command, "--federation", "run.toml")
    assert ended.code == 2
    assert ended.err.splitlines()[-1].startswith("dpeer: --faults faults.toml: only dpeer simulate has a clock")
    assert not (tmp_path / "dpeer-run").exists()


FAULTS = Path("faults.toml")


@pytest.mark.parametrize(
    ("call", "fragment"),
    [
        (lambda: read_faults(Path("none.toml"), 8, 40), "--faults 'none.toml': No such file"),
        (lambda: refuse_faults(Settings(size=4, faults=FAULTS), resume=False), "--faults faults.toml: only dpeer"),
        (lambda: check_faults(Settings(size=4, faults=FAULTS), 4, 9, resume=True), "faults.toml: a run with faults"),
        (lambda: simulate(Settings(size=4, rank={2: {"round_seconds": "auto"}})), "--round-seconds auto"),
    ],
)
def test_a_run_that_cannot_have_faults_or_their_clock_is_refused(call: Callable[[], object], fragment: str) -> None:
    with refused(ConfigurationError, fragment):
        call()
