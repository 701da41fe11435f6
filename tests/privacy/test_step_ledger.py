"""The ledger of local steps, and runs of other kinds beside it."""

import dataclasses
import json
import math
from pathlib import Path
from statistics import NormalDist

import pytest

from dpeer.exceptions import CheckpointError
from dpeer.privacy import Charge, Guarantee, Ledger, Protection, SampleGuarantee, StepLedger, accounting
from dpeer.privacy.accounting import epsilon, total_epsilon
from dpeer.privacy.history import note_plain
from dpeer.privacy.steps import least_noise

SAMPLE = dataclasses.asdict(SampleGuarantee(0.05, 1.0, 1.0, 1e-5, steps=30))
CLIENT = dataclasses.asdict(Guarantee(5.0, 1.0, 1e-5, adjacency="zero-out"))
ROUND = Charge(0.05, 1.0, 30)
DELTA = 1e-5


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]


def test_steps_are_on_disk_before_they_may_be_taken(tmp_path: Path) -> None:
    ledger = StepLedger(tmp_path / "privacy", SAMPLE, resume=False)
    assert ledger.epsilon(DELTA) == 0.0
    assert not (tmp_path / "privacy").exists()
    ledger.charge(0, ROUND)
    first, line = lines(tmp_path / "privacy")
    assert first["mechanism"] == SAMPLE
    assert line["round"] == 0
    assert line["charge"] == {"sampling_rate": 0.05, "noise_multiplier": 1.0, "steps": 30}


def test_a_run_that_goes_on_counts_what_it_charged_and_steps_taken_again_are_charged_again(tmp_path: Path) -> None:
    ledger = StepLedger(tmp_path, SAMPLE, resume=False, data="a")
    for number in range(9):
        ledger.charge(number, ROUND)
    again = StepLedger(tmp_path, SAMPLE, resume=True, data="a")
    assert again.charges == ledger.charges == (ROUND,) * 9
    again.charge(8, ROUND)
    assert again.epsilon(DELTA) == total_epsilon([Charge(0.05, 1.0, 300)], DELTA) == pytest.approx(5.795, abs=5e-4)
    assert ledger.epsilon(DELTA, further=[ROUND]) == again.epsilon(DELTA) > ledger.epsilon(DELTA)
    assert StepLedger(tmp_path, SAMPLE, resume=True, data="a").charges == again.charges


def test_steps_that_take_all_records_are_one_gaussian_and_need_no_loss_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def delta_of(mu: float, found: float) -> float:
        """Of a Gaussian mechanism at this epsilon (Balle and Wang, 2018, theorem 8)."""
        cdf = NormalDist().cdf
        return cdf(mu / 2 - found / mu) - math.exp(found) * cdf(-mu / 2 - found / mu)

    with monkeypatch.context() as without:
        without.setattr(accounting, "_pld", lambda *_: pytest.fail("a second of computing, for nothing"))
        sigma = least_noise(lambda noise: [Charge(1.0, noise, 40)], 3.0, DELTA)
    assert delta_of(math.sqrt(40) / sigma, 3.0) <= DELTA < delta_of(math.sqrt(40) / (sigma * 0.998), 3.0)
    ledger = StepLedger(tmp_path, SAMPLE, resume=False)
    for number in range(4):
        ledger.charge(number, Charge(1.0, sigma, 10))
    assert delta_of(math.sqrt(40) / sigma, ledger.epsilon(DELTA)) == pytest.approx(DELTA, rel=1e-9)
    ledger.charge(4, ROUND)
    assert ledger.epsilon(DELTA) == total_epsilon([Charge(1.0, sigma, 40), ROUND], DELTA, "pld") > 3.0


def test_a_line_that_was_not_written_whole_was_never_acted_upon(tmp_path: Path) -> None:
    StepLedger(tmp_path, SAMPLE, resume=False).charge(0, ROUND)
    with (tmp_path / "ledger.jsonl").open("ab") as file:
        file.write(b'{"round": 1, "charge": {"sampl')
    again = StepLedger(tmp_path, SAMPLE, resume=True)
    again.charge(1, ROUND)
    assert StepLedger(tmp_path, SAMPLE, resume=True).charges == (ROUND, ROUND)


def test_a_disk_that_refuses_may_have_taken_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = StepLedger(tmp_path, SAMPLE, resume=False)
    ledger.charge(0, ROUND)

    def full(path: Path, line: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("dpeer.privacy.ledger_file.append", full)
    with pytest.raises(OSError, match="full"):
        ledger.charge(1, ROUND)
    assert ledger.charges == (ROUND, ROUND)


def test_runs_of_all_kinds_in_one_folder_add_up_for_a_record(tmp_path: Path) -> None:
    Ledger(tmp_path, CLIENT, resume=False, data="a").charge(0, lambda: b"body")
    second = StepLedger(tmp_path, SAMPLE, resume=False, data="a")
    second.charge(0, ROUND)
    third = StepLedger(tmp_path, {**SAMPLE, "noise_multiplier": 2.0}, resume=False, data="a")
    third.charge(0, Charge(0.05, 2.0, 30))
    # A client's release moves by twice the clip norm, also where less was promised.
    expected = total_epsilon([Charge(1.0, 2.5, 1), ROUND, Charge(0.05, 2.0, 30)], DELTA)
    assert third.epsilon(DELTA) == expected > epsilon(2.5, 1, DELTA)
    assert [len(run.rounds) for run in third.earlier] == [1, 1]
    note_plain(tmp_path, "a")
    assert StepLedger(tmp_path, SAMPLE, resume=False, data="a").epsilon(DELTA) == math.inf
    assert StepLedger(tmp_path, SAMPLE, resume=False, data="b", new_data=True).epsilon(DELTA) == 0.0


def test_at_client_level_steps_promise_nothing(tmp_path: Path) -> None:
    # Its fields would do for a Guarantee.
    StepLedger(tmp_path, {"noise_multiplier": 5.0, "clip_norm": 1.0, "delta": DELTA}, resume=False).charge(0, ROUND)
    guarantee = Guarantee(5.0, 1.0, DELTA)
    assert Protection(guarantee, Ledger(tmp_path, CLIENT, resume=False)).epsilon(1) == math.inf
    with pytest.raises(CheckpointError):
        Ledger(tmp_path, CLIENT, resume=True)


def test_a_run_goes_on_only_as_what_it_was(tmp_path: Path) -> None:
    StepLedger(tmp_path, SAMPLE, resume=False, data="a").charge(0, ROUND)
    with pytest.raises(CheckpointError, match=r"sampling rate 0\.05, this one would go on with 0\.1"):
        StepLedger(tmp_path, {**SAMPLE, "sampling_rate": 0.1}, resume=True, data="a")
    with pytest.raises(CheckpointError, match="other data than this peer has now"):
        StepLedger(tmp_path, SAMPLE, resume=True, data="b")
    Ledger(tmp_path, CLIENT, resume=False, data="a").charge(0, lambda: b"body")
    with pytest.raises(CheckpointError, match="was not private at sample level"):
        StepLedger(tmp_path, SAMPLE, resume=True, data="a")


@pytest.mark.parametrize(
    "line",
    [
        b'{"round": 1, "time": 1.0}\n',
        b'{"round": 1, "charge": {"sampling_rate": 0.05, "noise_multiplier": 1.0, "steps": -30}}\n',
        b'{"round": 1, "charge": {"sampling_rate": 0.05, "noise_multiplier": 1.0}}\n',
        b'{"round": 1, "charge": 30}\n',
    ],
)
def test_lines_that_cannot_be_counted_are_damage(tmp_path: Path, line: bytes) -> None:
    StepLedger(tmp_path, SAMPLE, resume=False).charge(0, ROUND)
    with (tmp_path / "ledger.jsonl").open("ab") as file:
        file.write(line)
    for resume in (True, False):
        with pytest.raises(CheckpointError, match="damaged"):
            StepLedger(tmp_path, SAMPLE, resume=resume)


def test_a_ledger_that_lost_its_end_after_it_was_put_aside_is_noticed(tmp_path: Path) -> None:
    first = StepLedger(tmp_path, SAMPLE, resume=False)
    first.charge(0, ROUND)
    first.charge(1, ROUND)
    StepLedger(tmp_path, SAMPLE, resume=False).charge(0, ROUND)
    path = tmp_path / "ledger-1.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(CheckpointError, match="it has 1 releases, and had 2"):
        StepLedger(tmp_path, SAMPLE, resume=False)


def test_there_is_no_charge_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1 step"):
        StepLedger(tmp_path, SAMPLE, resume=False).charge(0, Charge(0.05, 1.0, 0))
