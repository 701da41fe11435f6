"""The file of `--faults`: the faults that it plans and draws; tests/messages/simulation.py holds its refusals."""

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


@pytest.mark.parametrize("check", [partial(check_faults, size=4, rounds=20), refuse_faults])
def test_a_run_that_had_faults_is_not_resumed_without_them(check: Callable[..., None], tmp_path: Path) -> None:
    settings = Settings(size=4, out=tmp_path)
    (tmp_path / "summary.json").write_text('{"algorithm": "fedavg", "size": 4}')
    check(settings, resume=True)
    (tmp_path / "summary.json").write_text('{"algorithm": "fedavg", "size": 4, "faults": {}}')
    with pytest.raises(ConfigurationError):
        check(settings, resume=True)
    check(settings, resume=False)


def test_a_table_happens_in_its_rounds(tmp_path: Path) -> None:
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


def test_draws_follow_from_the_seed_and_not_from_other_tables(tmp_path: Path) -> None:
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
def test_every_accepted_table_can_happen(table: dict[str, Any], seed: int) -> None:
    try:
        faults = Faults.model_validate({"fault": [table]})
    except ValueError:
        return
    for planned_fault in expand(faults, 12, 31, seed):
        assert 0 <= planned_fault.round < 31
        assert planned_fault.ranks
        assert {*planned_fault.ranks} <= {*table.get("ranks", range(12))}
        assert list(planned_fault.ranks) == sorted({*planned_fault.ranks})
        assert len(planned_fault.ranks) == table.get("pick", len(planned_fault.ranks))
