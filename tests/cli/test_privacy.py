"""`dpeer privacy epsilon`, `calibrate` and `plan` at both levels."""

import math
import re
from pathlib import Path

import pytest
from scipy.stats import norm

from dpeer.privacy import Guarantee
from dpeer.privacy.gaussian import epsilon as epsilon_of
from dpeer.privacy.gaussian import mu
from tests.cli.command import parsed, text, words
from tests.privacy.step_losses import epsilon_of as epsilon_of_steps

ROOT = Path(__file__).parents[2]

AGGREGATE = ("--dp-adversary", "aggregate", "--dp-min-honest", 16)
EPSILON = ("privacy", "epsilon", "--noise-multiplier", 5, "--rounds", 20)
CALIBRATE = ("privacy", "calibrate", "--rounds", 20, "--target-epsilon", 10)
PLAN = ("privacy", "plan", "--size", 8, "--parameters", 10, "--rounds", 100, "--noise-multiplier", 5)

STEPS = ("--privacy", "sample", "--sampling-rate", 0.05, "--steps", 20)
EPSILON_OF_SAMPLE = ("privacy", "epsilon", *STEPS, "--rounds", 15, "--noise-multiplier")
SITES = ("--size", 8, "--parameters", 60_000, "--records", 2000, "--accountant", "rdp")
PLAN_OF_SAMPLE = ("privacy", "plan", *STEPS, "--rounds", 20, *SITES)


# -- client level ----------------------------------------------------------------------------------------------------


def test_epsilon_against_a_neighbor_as_json() -> None:
    found = parsed(*EPSILON, "--rounds", 100, "--delta", "1e-5", "--dp-adjacency", "zero-out")
    assert found.pop("epsilon") == pytest.approx(9.997, abs=5e-4)
    assert found == {
        "delta": 1e-5, "mode": "client", "adversary": "neighbor", "adjacency": "zero-out", "noise_multiplier": 5.0,
        "rounds": 100, "accountant": "exact",
    }  # fmt: skip


def test_epsilon_of_aggregate_mode_has_both_numbers() -> None:
    found = parsed(*EPSILON, "--rounds", 100, *AGGREGATE)
    assert found["epsilon_neighbor"] == pytest.approx(195, abs=0.5)
    assert found["epsilon"] == found["epsilon_aggregate"] == pytest.approx(24.38, abs=0.005)
    assert (found["adversary"], found["adjacency"]) == ("aggregate", "replace")


def test_clip_norm_changes_no_epsilon_and_the_noise_in_proportion() -> None:
    one, fifth = parsed(*CALIBRATE), parsed(*CALIBRATE, "--clip-norm", 0.2)
    assert list(one) == ["noise_multiplier", "noise_std"]
    assert one["noise_multiplier"] == fifth["noise_multiplier"] == one["noise_std"] == pytest.approx(4.47114, abs=5e-6)
    assert fifth["noise_std"] == pytest.approx(0.2 * one["noise_std"])
    assert parsed(*EPSILON, "--clip-norm", 0.1)["epsilon"] == pytest.approx(parsed(*EPSILON)["epsilon"], rel=1e-12)
    half = parsed(*CALIBRATE, "--dp-adjacency", "zero-out")["noise_multiplier"]
    assert one["noise_multiplier"] == pytest.approx(2.0 * half, rel=1e-8)


@pytest.mark.parametrize("more", [(), ("--accountant", "rdp", *AGGREGATE)])
def test_what_calibrate_prints_is_enough_when_typed_again(more: tuple[object, ...]) -> None:
    printed = re.search(r"noise multiplier ([\d.]+)", words(*CALIBRATE, *more))
    assert printed
    assert 9.96 < parsed(*EPSILON, *more, "--noise-multiplier", printed[1])["epsilon"] <= 10.0
    exactly = parsed(*CALIBRATE, *more)
    assert parsed(*EPSILON, *more, "--noise-multiplier", exactly["noise_multiplier"])["epsilon"] <= 10.0
    assert ("epsilon_neighbor" in exactly) == (AGGREGATE[0] in more)


@pytest.mark.parametrize(
    "arguments",
    [
        (*EPSILON, "--rounds", 100),
        (*CALIBRATE, "--target-epsilon", "24.382", "--rounds", 100),
        (*PLAN, "--size", 16),
        ("privacy", "matrix", "--size", 16, "--topology", "full", "--rounds", 100, "--noise-multiplier", 5),
    ],
    ids=lambda arguments: arguments[1],
)
def test_every_command_says_what_is_protected_and_which_number_is_which(arguments: tuple[object, ...]) -> None:
    found = words(*arguments, *AGGREGATE)
    assert (
        "Epsilon is 24.38 only for an outsider that sees only averages of at least 16 honest peers, and 195.4 for "
        "every neighbor, which sees each message by itself."
    ) in found
    assert words(*arguments, *AGGREGATE, "--privacy", "client") == found
    if arguments[1] != "matrix":
        outsider = "an outsider that sees only averages of at least 16 honest peers, replace-one"
        assert f"one peer's whole data set, against {outsider}" in found
        assert "one peer's whole data set, against a neighbor, replace-one" in words(*arguments)
        zero_out = words(*arguments, "--dp-adjacency", "zero-out")
        assert "one peer's whole data set, against a neighbor, zero-out" in zero_out


def test_plan_of_eight_hospitals_says_what_to_do() -> None:
    arguments = ("privacy", "plan", "--size", 8, "--parameters", 60_000, "--rounds", 20, "--target-epsilon", 10)
    found = parsed(*arguments)
    assert found["noise_norm_over_clip_norm"] == pytest.approx(4.4712 * math.sqrt(60_000), rel=1e-4)
    assert found["noise_over_longest_way"] == pytest.approx(4.4712 * math.sqrt(60_000 / (8 * 20)), rel=1e-4)
    assert (found["releases"], found["releases_that_fit"], found["survives"]) == (20, 20, False)
    assert found["epsilon"] <= 10.0
    printed = words(*arguments)
    assert "noise norm / clip norm 1,095" in printed
    assert "Training cannot survive this" in printed
    assert "fewer shared parameters (adapters, or a small body on a frozen public one) or fewer rounds" in printed
    assert "or protect single records with --privacy sample" in printed


def test_plan_warns_only_where_noise_outruns_training() -> None:
    arguments = (*PLAN, "--size", 4, "--rounds", 25, "--noise-multiplier", 1, "--parameters")
    # ratio / sqrt(n T) = sqrt(p / (n T)) for sigma 1.
    assert "cannot survive" not in words(*arguments, 100)
    assert "cannot survive" in words(*arguments, 101)


def test_plan_with_a_budget_that_ends_early() -> None:
    asked = (*PLAN, "--target-epsilon", 10)
    found = parsed(*asked)
    assert (found["rounds"], found["releases"], found["releases_that_fit"]) == (100, 25, 25)
    again, one_more = (parsed(*EPSILON, "--rounds", rounds)["epsilon"] for rounds in (25, 26))
    assert found["epsilon"] == again <= 10.0 < one_more
    assert "The budget lasts 25 of 100 rounds" in words(*asked)
    assert parsed(*asked, "--accountant", "rdp")["releases"] < 25
    none = words(*asked, "--noise-multiplier", 0.1, "--target-epsilon", 1)
    assert "Not one release fits into the budget: a run with it ends with exit code 5." in none


def test_delta_follows_the_number_of_peers() -> None:
    assert parsed(*PLAN)["delta"] == 1e-5
    assert parsed(*PLAN, "--size", 50_000)["delta"] == pytest.approx(2e-6)
    warning = "delta 0.02 is above 1/(10 N) = 0.0125 of 8 peers: choose that or less"
    assert parsed(*PLAN, "--delta", 0.02)["warnings"] == [warning]
    assert warning in words(*EPSILON, "--delta", 0.02, "--size", 8)
    assert "above 1/(10 N)" not in words(*EPSILON, "--delta", 0.02)


# -- sample level ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_epsilon_of_a_record_as_json() -> None:
    found = parsed(*EPSILON_OF_SAMPLE, 1)
    assert found.pop("epsilon") == pytest.approx(5.795, abs=5e-4)
    assert found == {
        "delta": 1e-5, "mode": "sample", "adversary": "everyone", "adjacency": "add-or-remove",
        "noise_multiplier": 1.0, "sampling_rate": 0.05, "dp_head": "joint", "rounds": 15, "steps": 300,
        "accountant": "pld",
    }  # fmt: skip
    assert parsed(*EPSILON_OF_SAMPLE, 1, "--accountant", "rdp")["epsilon"] == pytest.approx(6.464, abs=5e-4)
    with_all = (*EPSILON_OF_SAMPLE, 2, "--sampling-rate", 1, "--steps", 10, "--rounds", 1)
    exact = parsed(*with_all, "--accountant", "exact")["epsilon"]
    assert exact == pytest.approx(7.5113, abs=5e-5)
    assert parsed(*with_all)["epsilon"] == pytest.approx(exact, abs=1e-4)


@pytest.mark.slow
def test_a_patient_with_several_records() -> None:
    found = parsed(*EPSILON_OF_SAMPLE, 4, "--patient-records", 5)
    expected = epsilon_of_steps([(0.05, 4.0, 300)], 1e-5, 5e-4, records=5)
    assert found["patient_records"] == 5
    assert found["epsilon_of_patient"] == pytest.approx(expected, rel=3e-4)
    assert found["epsilon"] == pytest.approx(0.826, abs=5e-4)
    assert parsed(*EPSILON_OF_SAMPLE, 4, "--patient-records", 1)["epsilon_of_patient"] == found["epsilon"]
    printed = words(*EPSILON_OF_SAMPLE, 4, "--patient-records", 5)
    assert "epsilon 0.8260 of one record, against everyone epsilon of a patient 5.037 with 5 records" in printed
    assert "A person with several records" not in printed
    both = ("--dp-head", "alternate", "--steps", 12, "--head-steps", 8, "--patient-records", 5)
    assert parsed(*EPSILON_OF_SAMPLE, 4, *both)["epsilon_of_patient"] == found["epsilon_of_patient"]


def test_an_alternate_head_is_charged_for_both_counts() -> None:
    rdp = (*EPSILON_OF_SAMPLE, 1, "--accountant", "rdp")
    both = (*rdp, "--dp-head", "alternate", "--steps", 12, "--head-steps", 8)
    found = parsed(*both)
    assert (found["steps"], found["dp_head"]) == (300, "alternate")
    assert "8 local steps of the head and 12 of the body" in words(*both)
    for head in ("joint", "frozen", "post"):
        assert parsed(*rdp, "--dp-head", head)["epsilon"] == found["epsilon"]


@pytest.mark.slow
def test_what_calibrate_prints_is_enough_for_records_too() -> None:
    calibrate = ("privacy", "calibrate", *STEPS, "--rounds", 15, "--target-epsilon", 3)
    printed = re.search(r"noise multiplier ([\d.]+)", words(*calibrate))
    assert printed
    assert 2.99 < parsed(*EPSILON_OF_SAMPLE, printed[1])["epsilon"] <= 3.0
    found = parsed(*calibrate, "--clip-norm", 0.5)
    assert found["epsilon"] <= 3.0
    assert found["noise_multiplier"] <= float(printed[1])
    assert found["noise_std"] == pytest.approx(0.5 * found["noise_multiplier"])
    assert (found["mode"], found["steps"]) == ("sample", 300)


def test_delta_follows_the_number_of_records() -> None:
    rdp = (*EPSILON_OF_SAMPLE, 1, "--accountant", "rdp", "--records")
    assert parsed(*rdp, 50_000)["delta"] == pytest.approx(2e-6)
    assert parsed(*rdp, 200)["delta"] == 1e-5
    assert "delta 0.001 is above 1/(10 N) = 0.0005 of 200 records" in words(*rdp, 200, "--delta", 0.001)


@pytest.mark.slow
def test_the_plan_of_eight_hospitals_for_records() -> None:
    found = parsed(*PLAN_OF_SAMPLE, "--target-epsilon", 8, "--accountant", "pld")
    assert found["batch_size"] == pytest.approx(100)
    assert found["noise_multiplier"] == pytest.approx(0.916, abs=0.001)
    assert found["noise_norm_over_clip_norm"] == pytest.approx(found["noise_multiplier"] * math.sqrt(60_000) / 100)
    assert found["noise_over_longest_way"] == pytest.approx(0.04, abs=0.001)
    assert (found["rounds_used"], found["rounds_that_fit"], found["steps"], found["survives"]) == (20, 20, 400, True)
    others = found["other_epsilons"]
    assert [other["target_epsilon"] for other in others] == [1.0, 3.0, 8.0]
    assert [other["noise_over_longest_way"] for other in others] == pytest.approx([0.168, 0.070, 0.040], abs=0.001)
    assert others[2]["noise_multiplier"] == found["noise_multiplier"]


def test_a_plan_for_records_says_what_is_protected_and_what_to_do() -> None:
    printed = words(*PLAN_OF_SAMPLE, "--noise-multiplier", 1)
    assert "Protected: one record of a peer's data, against everyone, neighbors included, add-or-remove." in printed
    assert "A person with several records is protected less than one with a single record." in printed
    assert "batch size 100.0 expected, of 2,000 records" in printed
    assert "cannot survive" not in printed
    few = (*PLAN_OF_SAMPLE, "--noise-multiplier", 1, "--size", 2, "--records", 10, "--parameters", 10**6)
    assert parsed(*few)["survives"] is False
    printed = words(*few)
    assert "Training cannot survive this: the noise left in the average of 2 bodies after 20 rounds is" in printed
    assert "use larger batches in as many steps (more records, or a higher --sampling-rate), fewer shared" in printed
    assert "Most batches are empty" in printed


def test_a_plan_for_records_with_a_budget_that_ends_early() -> None:
    asked = (*PLAN_OF_SAMPLE, "--noise-multiplier", 1, "--target-epsilon", 5)
    found = parsed(*asked)
    used = found["rounds_used"]
    assert found["rounds"] == 20 > used == found["rounds_that_fit"] > 0
    assert found["steps"] == 20 * used
    rdp = (*EPSILON_OF_SAMPLE, 1, "--accountant", "rdp", "--rounds")
    assert parsed(*rdp, used)["epsilon"] == found["epsilon"] <= 5.0 < parsed(*rdp, used + 1)["epsilon"]
    assert f"The budget lasts {used} of 20 rounds." in words(*asked)
    none = words(*asked, "--noise-multiplier", 0.5, "--target-epsilon", 0.1)
    assert "Not one round fits into the budget." in none


# -- width, imports, pages --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [80, 120])
def test_lines_fit(columns: int) -> None:
    alternate = ("--dp-head", "alternate", "--head-steps", 10**4, "--accountant", "rdp")
    large = ("--size", 10**6, "--parameters", 10**12, "--records", 10**12)
    for arguments in (
        (*EPSILON, *AGGREGATE, "--accountant", "rdp"),
        (*CALIBRATE, "--target-epsilon", "1e6", "--rounds", 10**9, *AGGREGATE),
        (*PLAN[:6], *AGGREGATE, "--size", 16, "--parameters", 10**12, "--rounds", 10**6, "--target-epsilon", 0.001),
        ("privacy", "matrix", "--size", 12, "--noise-multiplier", 0.01, "--rounds", 9, "--pairs"),
        (*EPSILON_OF_SAMPLE, 10**6, *alternate),
        (*PLAN_OF_SAMPLE, *alternate, *large, "--noise-multiplier", 1, "--target-epsilon", 0.001),
    ):
        text(*arguments, columns=columns)


def test_how_often_a_neighbor_is_right_follows_from_epsilon() -> None:
    """The table of docs/privacy.md: of two normal distributions mu apart, the nearer one is guessed."""
    page = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    section = page.partition("## What epsilon and delta mean")[2].partition("## ")[0]
    table = re.findall(r"^\| (\d+) \| (\d+) % \|", section, flags=re.MULTILINE)
    assert [int(epsilon) for epsilon, _ in table] == [0, 1, 3, 5, 10, 15, 24]
    for epsilon, right in table:
        apart = mu(float(epsilon), 1e-5) if epsilon != "0" else 0.0
        assert round(100 * norm.cdf(apart / 2)) == int(right)
    first = Guarantee(1.0, 1.0, 1e-5).calibrated(10.0, 20)
    both = math.hypot(first.mu(20), Guarantee(4.5, 1.0, 1e-5).mu(20))
    assert f"| {epsilon_of(both, 1e-5):.1f}, of both runs |" in page


@pytest.mark.slow
def test_the_program_of_the_page_prints_what_its_comments_say(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "privacy-reference.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    exec(compile(program, "docs/privacy-reference.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    comments = re.findall(r"^print\(.*?\)(?:  # ([\d.]+))?", program, flags=re.MULTILINE)
    assert len(printed) == len(comments) == 6
    for line, number in zip(printed, comments, strict=True):
        assert not number or float(line) == pytest.approx(float(number), rel=2e-3)
