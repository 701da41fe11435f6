"""The session of a peer whose records are protected: what steps cost, with runs of other kinds in the folder."""

import math
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest

from dpeer.privacy import Charge, PeerData, PrivacyConfig, SampleSession, SampleTerms, accounting
from dpeer.privacy.accounting import total_epsilon
from dpeer.privacy.guarantee import Phase, SampleGuarantee
from dpeer.privacy.settings import PrivacySettings

ROUND = Charge(0.05, 1.0, 30)
DELTA = 1e-5


def opened(
    folder: Path, *, resume: bool = False, data: str | None = None, batch_size: int = 5, **settings: Any
) -> SampleSession:
    given = {"noise_multiplier": 1.0, "records": 100, "delta": DELTA, **settings}
    asked = PrivacySettings(privacy="sample", **given)
    terms = SampleTerms(
        PrivacyConfig(asked, rounds=9, batch_size=batch_size), folder, PeerData(data, records=100), resume=resume
    )
    return terms.open([Phase("model", 30)])


def test_a_run_that_goes_on_counts_what_it_charged_and_steps_taken_again_are_charged_again(tmp_path: Path) -> None:
    session = opened(tmp_path, data="a")
    assert session.epsilon() == 0.0
    for number in range(9):
        assert session.charge(number, 30) == 30
    again = opened(tmp_path, resume=True, data="a")
    assert again.ledger.charges == session.ledger.charges == (ROUND,) * 9
    again.charge(8, 30)
    assert again.epsilon() == total_epsilon([Charge(0.05, 1.0, 300)], DELTA) == pytest.approx(5.795, abs=5e-4)
    assert session.epsilon(1) == again.epsilon() > session.epsilon()
    assert opened(tmp_path, resume=True, data="a").ledger.charges == again.ledger.charges


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
        session = opened(tmp_path, noise_multiplier=sigma, batch_size=100)
        for number in range(4):
            session.charge(number, 10)
        assert delta_of(math.sqrt(40) / sigma, session.epsilon()) == pytest.approx(DELTA, rel=1e-9)
