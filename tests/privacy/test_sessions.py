"""Sessions: what releases and steps cost, and rounds that a lost disk may have released, charged as they are stated."""

import json
import math
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest

from dpeer.privacy import (
    Charge,
    ClientSession,
    Guarantee,
    Ledger,
    PeerData,
    PrivacyConfig,
    SampleSession,
    SampleTerms,
    accounting,
)
from dpeer.privacy.accounting import total_epsilon
from dpeer.privacy.guarantee import Phase, SampleGuarantee
from dpeer.privacy.settings import PrivacySettings

DELTA = 1e-5
PLEDGE = Guarantee(5.0, 1.0, DELTA)
ROUND = Charge(0.05, 1.0, 30)


def client(folder: Path, *, budget: float | None = None, resume: bool = True) -> ClientSession:
    return ClientSession(PLEDGE, Ledger(folder, vars(PLEDGE), resume=resume, data="a"), budget)


def sample(folder: Path, *phases: Phase, resume: bool = True, batch_size: int = 5, **settings: Any) -> SampleSession:
    given = {"noise_multiplier": 1.0, "records": 100, "delta": DELTA, **settings}
    config = PrivacyConfig(PrivacySettings(privacy="sample", **given), rounds=9, batch_size=batch_size)
    return SampleTerms(config, folder, PeerData("a", records=100), resume=resume).open(phases or [Phase("model", 30)])


def test_a_run_that_goes_on_counts_what_it_charged_and_steps_taken_again_are_charged_again(tmp_path: Path) -> None:
    session = sample(tmp_path, resume=False)
    assert session.epsilon() == 0.0
    for number in range(9):
        assert session.charge(number, 30) == 30
    again = sample(tmp_path)
    assert again.ledger.charges == session.ledger.charges == (ROUND,) * 9
    again.charge(8, 30)
    assert again.epsilon() == total_epsilon([Charge(0.05, 1.0, 300)], DELTA) == pytest.approx(5.795, abs=5e-4)
    assert session.epsilon(1) == again.epsilon() > session.epsilon()
    assert sample(tmp_path).ledger.charges == again.ledger.charges


def test_steps_that_take_all_records_are_one_gaussian_and_need_no_loss_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def delta_of(mu: float, found: float) -> float:
        """Of a Gaussian mechanism at this epsilon (Balle and Wang, 2018, theorem 8)."""
        cdf = NormalDist().cdf
        return cdf(mu / 2 - found / mu) - math.exp(found) * cdf(-mu / 2 - found / mu)

    with monkeypatch.context() as without:
        without.setattr(accounting, "pld_epsilon", lambda *_: pytest.fail("a second of computing, for nothing"))
        sigma = SampleGuarantee(1.0, 1.0, DELTA, 1.0, (Phase("model", 10),)).calibrated(3.0, 4).noise_multiplier
        assert delta_of(math.sqrt(40) / sigma, 3.0) <= DELTA < delta_of(math.sqrt(40) / (sigma * 0.998), 3.0)
        session = sample(tmp_path, resume=False, noise_multiplier=sigma, batch_size=100)
        for number in range(4):
            session.charge(number, 10)
        assert delta_of(math.sqrt(40) / sigma, session.epsilon()) == pytest.approx(DELTA, rel=1e-9)


def lines(folder: Path) -> list[tuple[int, bool]]:
    """Round of each line of the ledger, and whether it was stated."""
    found = map(json.loads, (folder / "ledger.jsonl").read_text().splitlines()[1:])
    return [(line["round"], line.get("stated", False)) for line in found]


def test_stated_rounds_that_have_no_line_get_one_once(tmp_path: Path) -> None:
    first = client(tmp_path, resume=False)
    for number in (0, 1):
        first.release(number, lambda: b"x")
    first.charge_stated([1, 2, 3])
    for _ in range(2):
        again = client(tmp_path)
        again.charge_stated([1, 2, 3])
        assert lines(tmp_path) == [(0, False), (1, False), (2, True), (3, True)]
        assert again.ledger.releases == 4
        assert PLEDGE.epsilon(4) == again.spent()["epsilon"]
    again.charge_stated([4])
    assert lines(tmp_path)[-1] == (4, True), "another disk was lost"


def test_stated_releases_are_charged_beyond_the_budget_which_the_lost_disk_need_not_have_had(tmp_path: Path) -> None:
    budget = PLEDGE.epsilon(3)
    session = client(tmp_path, budget=budget, resume=False)
    session.release(0, lambda: b"own")
    session.charge_stated(range(1, 9))
    assert lines(tmp_path) == [(0, False), *((number, True) for number in range(1, 9))]
    assert session.spent()["epsilon"] == PLEDGE.epsilon(9) > budget
    assert session.release(9, lambda: pytest.fail("beyond the budget")) == (b"own", True)


def test_a_stated_round_is_silent_and_the_last_own_bytes_stay_for_when_the_budget_ends(tmp_path: Path) -> None:
    budget = PLEDGE.epsilon(5)
    session = client(tmp_path, budget=budget, resume=False)
    session.release(0, lambda: b"own")
    session.charge_stated([1, 2, 3])
    assert session.release(2, lambda: pytest.fail("released again")) == (None, False)
    assert session.release(4, lambda: b"last") == (b"last", False)
    assert client(tmp_path, budget=budget).release(5, lambda: pytest.fail("beyond the budget")) == (b"last", True)


def test_of_the_last_round_the_lost_disk_may_have_taken_more_steps(tmp_path: Path) -> None:
    session = sample(tmp_path, resume=False)
    session.charge(0, 30)
    session.charge(1, 10)
    for _ in range(2):
        again = sample(tmp_path)
        again.charge_stated([0, 1, 2])
        assert again.ledger.steps == 30 + 10 + 30 + 30, "whole rounds, each once"
    assert lines(tmp_path) == [(0, False), (1, False), (1, True), (2, True)]
    again.charge(3, 30)
    after = sample(tmp_path)
    after.charge_stated([0, 1, 2])
    assert after.ledger.steps == 130


def test_phases_of_one_noise_are_charged_together_and_a_process_that_is_killed_between_two_charges_the_rest(
    tmp_path: Path,
) -> None:
    phases = Phase("head", 5), Phase("body", 10), Phase("body", 20, 2)
    session = sample(tmp_path, *phases, resume=False)
    session.charge_stated([0])
    assert [charge.steps for charge in session.ledger.charges] == [15, 20]
    path = tmp_path / "ledger.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    again = sample(tmp_path, *phases)
    again.charge_stated([0])
    assert again.ledger.charges == session.ledger.charges


def test_stated_steps_are_charged_beyond_the_budget_and_end_the_run(tmp_path: Path) -> None:
    budget = sample(tmp_path / "other", resume=False).epsilon(3)
    session = sample(tmp_path, target_epsilon=budget, resume=False)
    session.charge_stated(range(9))
    assert session.ledger.steps == 30 * 9
    assert session.epsilon() > budget
    assert session.charge(9, 1) == 0
    assert sample(tmp_path, target_epsilon=budget).charge(9, 1) == 0


def test_a_run_that_has_ended_takes_no_stated_steps(tmp_path: Path) -> None:
    session = sample(tmp_path, resume=False)
    session.charge(0, 30)
    session.end(1)
    for one in (session, sample(tmp_path)):
        one.charge_stated([1, 2])
        assert one.ledger.charges == (Charge(0.05, 1.0, 30),)
