"""The file of `--faults`: what it may say, and what is drawn from it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeer.exceptions import ConfigurationError
from dpeer.federation.folders import refuse_faults
from dpeer.federation.settings import Settings
from dpeer.simulation.faults import Faults, check_faults, expand, read_faults

CRASH = '[[fault]]\nwhat = "crash"\n'


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "faults.toml"
    path.write_text(text)
    return path


def planned(text: str, tmp_path: Path, size: int = 8, rounds: int = 40, seed: int = 0) -> list[Any]:
    return expand(read_faults(written(tmp_path, text), size, rounds), size, rounds, seed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[fault]]\nwhat = "crsh"\nranks = [1]\nround = 1', "unknown fault 'crsh' .* did you mean 'crash'"),
        (f"{CRASH}ranks = [8]\nround = 1", r"ranks = \[8\] in \[\[fault\]\] 1 of .*: expected ranks from 0 to 7"),
        (f"{CRASH}ranks = [-1]\nround = 1", "ranks in .* = -1: input should be greater than or equal to 0"),
        (f"{CRASH}ranks = [1, 1]\nround = 1", r"ranks in .*|ranks = \[1, 1\] in .*: name each rank once"),
        (f"{CRASH}ranks = []\nround = 1", "ranks in .* = "),
        (f"{CRASH}rank = [1]\nround = 1", "unknown key 'rank' .* did you mean 'ranks'"),
        (f"{CRASH}round = 1", "ranks in .*: whose it is is missing"),
        (f"{CRASH}ranks = [1]", "round in .*: when it happens is missing"),
        (f"{CRASH}ranks = [1]\nround = 40", "round = 40 in .*: expected a round of this run, 0 to 39"),
        (f"{CRASH}pick = 9\nround = 1", "pick = 9 in .*: the federation has 8 peers"),
        (f"{CRASH}pick = 3\nranks = [1, 2]\nround = 1", "pick = 3 in .*: there are 2 ranks to pick from"),
        (f"{CRASH}pick = 2\nevery = 10\nfor = -3", "for in .* = -3: input should be greater than 0"),
        (f"{CRASH}pick = 2\nevery = 10\nrate = 0.1", "rate = 0.1 in .*: it happens by rate or every 10 rounds"),
        (f"{CRASH}pick = 2\nrate = 0.1", "pick = 2 in .*: rate draws for each rank"),
        (f"{CRASH}ranks = [1]\nrate = 1.5", "rate in .* = 1.5: input should be less than or equal to 1"),
        (f"{CRASH}ranks = [1]\nround = 3\nuntil = 5", "until = 5 in .*: it happens once"),
        (f"{CRASH}ranks = [1]\nround = 3\nevery = 2\nuntil = 2", r"until = 2 in .*: expected round \(3\) or later"),
        (f"{CRASH}ranks = [1]\nround = 3\ntimes = 2", "times = 2 in .*: only what = 'slow' has it"),
        (f"{CRASH}ranks = [1]\nround = 3\nat = 1.5", "at in .* = 1.5: input should be less than 1"),
        ('[[fault]]\nwhat = "freeze"\nranks = [1]\nround = 1', "for in .*: how long the freeze lasts is missing"),
        ('[[fault]]\nwhat = "restart"\nranks = [1]\nround = 1\nfor = 2', "for = 2 in .*: a restart is over at once"),
        ("[[fault]]\npick = 2\nround = 3", "what is missing in .*: add what = one of crash, restart"),
        ('[fault]\nwhat = "crash"', r"fault in .*: expected tables \[\[fault\]\]"),
        ("seeds = 1", "unknown key 'seeds' in .* did you mean 'seed'"),
        ("round_seconds = 0", "round_seconds in .* = 0: input should be greater than 0"),
        ("[[fault", "is not valid TOML"),
        (f'{CRASH}ranks = [1]\nround = 1\nfor = "3"', "for in .* = '3': input should be a valid number"),
        (f"{CRASH}ranks = [1]\nround = 1\nfor = true", "for in .* = True: input should be a valid number"),
        (f"{CRASH}ranks = [1]\nround = 1\nfor = 1e9", "for in .* = 1000000000.0: input should be less than"),
        (f"{CRASH}ranks = [1]\nevery = 40", "every = 40 in .*: the run has 40 rounds, so it would never happen"),
        (f'[[fault]]\nwhat = "partition"\nranks = {[*range(8)]}\nround = 1', "all 8 ranks are on the one side"),
        ('[[fault]]\nwhat = "partition"\npick = 8\nround = 1', "all 8 ranks are on the one side"),
        ("round_seconds = 1e300", r"round_seconds in .* = 1e\+300: input should be less than or equal to 3600"),
        ('[[fault]]\nwhat = "slow"\nranks = [1]\nround = 1\ntimes = 1e9', "times in .* less than or equal to 100"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        read_faults(written(tmp_path, text), 8, 40)
    assert "\n" not in str(caught.value)
    assert "faults.toml" in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"--faults '.*none\.toml': No such file"):
        read_faults(tmp_path / "none.toml", 8, 40)


def test_planned_faults_are_refused_outside_of_a_simulation_and_on_resume(tmp_path: Path) -> None:
    settings = Settings(size=4, faults=written(tmp_path, ""))
    with pytest.raises(ConfigurationError, match="only dpeer simulate has a clock"):
        refuse_faults(settings, resume=False)
    with pytest.raises(ConfigurationError, match="a run with faults cannot be resumed, because"):
        check_faults(settings, settings.size, settings.rounds, resume=True)


@pytest.mark.parametrize("check", [partial(check_faults, size=4, rounds=20), refuse_faults])
def test_a_run_that_had_faults_is_not_resumed_without_them(check: Callable[..., None], tmp_path: Path) -> None:
    settings = Settings(size=4, out=tmp_path)
    (tmp_path / "summary.json").write_text('{"algorithm": "fedavg", "size": 4}')
    check(settings, resume=True)
    (tmp_path / "summary.json").write_text('{"algorithm": "fedavg", "size": 4, "faults": {}}')
    with pytest.raises(ConfigurationError, match="holds a run with --faults, which cannot be resumed"):
        check(settings, resume=True)
    check(settings, resume=False)


def test_a_table_happens_when_it_says(tmp_path: Path) -> None:
    def rounds(text: str) -> list[int]:
        return [one.round for one in planned(CRASH + text, tmp_path)]

    assert rounds("ranks = [1]\nround = 4") == [4]
    assert rounds("ranks = [1]\nevery = 10") == [10, 20, 30]
    assert rounds("ranks = [1]\nevery = 10\nround = 5\nuntil = 25") == [5, 15, 25]
    assert rounds("ranks = [1]\nrate = 1\nuntil = 2") == [0, 1, 2]
    assert rounds("rate = 1\nround = 38") == [38] * 8 + [39] * 8


def test_a_rate_is_the_chance_of_each_rank_in_each_round(tmp_path: Path) -> None:
    found = planned(f"{CRASH}rate = 0.05", tmp_path, size=50, rounds=400)
    assert all(len(one.ranks) == 1 for one in found)
    assert len(found) == pytest.approx(1000, abs=4 * (1000 * 0.95) ** 0.5)  # a binomial's four standard deviations


def test_what_is_drawn_follows_from_the_seed_and_not_from_other_tables(tmp_path: Path) -> None:
    drawn = f"{CRASH}pick = 2\nevery = 10\n"
    assert planned(drawn, tmp_path) == planned(drawn, tmp_path)
    assert planned(drawn, tmp_path, seed=0) != planned(drawn, tmp_path, seed=1)
    assert planned(f"seed = 7\n{drawn}", tmp_path, seed=0) == planned(f"seed = 7\n{drawn}", tmp_path, seed=1)
    more = planned(f'{drawn}[[fault]]\nwhat = "slow"\npick = 3\nevery = 7\n', tmp_path)
    assert [one for one in more if one.what == "crash"] == planned(drawn, tmp_path)
    assert len({one.ranks for one in planned(drawn, tmp_path, rounds=200)}) > 5, "others each time"


def whole(most: int) -> st.SearchStrategy[int]:
    return st.integers(0, most)


@given(
    st.fixed_dictionaries(
        {"what": st.sampled_from(["crash", "slow", "partition", "leave"])},
        optional={
            "ranks": st.lists(whole(11), min_size=1, unique=True), "pick": st.integers(1, 12), "round": whole(30),
            "every": st.integers(1, 30), "rate": st.floats(0.01, 1), "until": whole(40), "for": st.floats(0.1, 9),
            "at": st.floats(0, 0.99),
        },
    ),
    whole(2**64),
)  # fmt: skip
@settings(deadline=None)
def test_whatever_is_accepted_can_happen(table: dict[str, Any], seed: int) -> None:
    try:
        faults = Faults.model_validate({"fault": [table]})
    except ValueError:
        return
    for accident in expand(faults, 12, 31, seed):
        assert 0 <= accident.round < 31
        assert accident.ranks
        assert {*accident.ranks} <= {*table.get("ranks", range(12))}
        assert list(accident.ranks) == sorted({*accident.ranks})
        assert len(accident.ranks) == table.get("pick", len(accident.ranks))
