"""`dpeer privacy epsilon`, `calibrate` and `plan` with `--privacy sample`."""

import json
import math
import re
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dpeer.cli.privacy import privacy
from dpeer.exceptions import ConfigurationError
from tests.privacy.step_losses import epsilon_of

pytestmark = pytest.mark.slow

SAMPLE = ("--privacy", "sample", "--sampling-rate", 0.05)
ROUNDS = (*SAMPLE, "--steps", 20, "--rounds", 15)
EPSILON = ("epsilon", *ROUNDS, "--noise-multiplier", 1)
SITES = ("--size", 8, "--parameters", 60_000, "--records", 2000)
PLAN = ("plan", *SAMPLE, "--steps", 20, "--rounds", 20, *SITES)


def run(*arguments: object, columns: int = 80) -> Result:
    return CliRunner().invoke(privacy, list(map(str, arguments)), env={"COLUMNS": str(columns)})


def parsed(*arguments: object) -> Any:
    result = run(*arguments, "--json")
    assert result.exception is None, result.output
    return json.loads(result.output)


def words(result: Result) -> str:
    assert result.exception is None, result.output
    return " ".join(result.output.split())


def test_epsilon_json() -> None:
    found = parsed(*EPSILON)
    assert found.pop("epsilon") == pytest.approx(5.795, abs=5e-4)
    assert found == {
        "delta": 1e-5,
        "mode": "sample",
        "adversary": "everyone",
        "adjacency": "add-or-remove",
        "noise_multiplier": 1.0,
        "sampling_rate": 0.05,
        "dp_head": "joint",
        "rounds": 15,
        "steps": 300,
        "accountant": "pld",
    }


def test_epsilon_by_the_other_accountants() -> None:
    assert parsed(*EPSILON, "--accountant", "rdp")["epsilon"] == pytest.approx(6.464, abs=5e-4)
    with_all = ("epsilon", "--privacy", "sample", "--sampling-rate", 1, "--steps", 10, "--rounds", 1)
    exact = parsed(*with_all, "--noise-multiplier", 2, "--accountant", "exact")["epsilon"]
    assert exact == pytest.approx(7.5113, abs=5e-5)
    assert parsed(*with_all, "--noise-multiplier", 2)["epsilon"] == pytest.approx(exact, abs=1e-4)


def test_a_patient_with_several_records() -> None:
    four = ("epsilon", *ROUNDS, "--noise-multiplier", 4)
    found = parsed(*four, "--patient-records", 5)
    assert found["patient_records"] == 5
    assert found["epsilon_of_patient"] == pytest.approx(epsilon_of([(0.05, 4.0, 300)], 1e-5, 5e-4, records=5), rel=3e-4)
    assert found["epsilon"] == parsed(*four)["epsilon"] == pytest.approx(0.826, abs=5e-4)
    assert parsed(*four, "--patient-records", 1)["epsilon_of_patient"] == found["epsilon"]
    printed = words(run(*four, "--patient-records", 5))
    assert "epsilon 0.8260 of one record, against everyone epsilon of a patient 5.037 with 5 records" in printed
    assert "A person with several records" not in printed
    assert parsed(*EPSILON, "--accountant", "pld", "--patient-records", 2)["epsilon_of_patient"] > 13.0


def test_a_patient_is_in_all_that_is_charged() -> None:
    both = ("epsilon", *SAMPLE, "--noise-multiplier", 4, "--rounds", 15, "--dp-head", "alternate")
    found = parsed(*both, "--steps", 12, "--head-steps", 8, "--patient-records", 5)
    four = ("epsilon", *ROUNDS, "--noise-multiplier", 4)
    assert found["epsilon_of_patient"] == parsed(*four, "--patient-records", 5)["epsilon_of_patient"]


def test_an_alternate_head_is_charged_for_both_counts() -> None:
    both = ("epsilon", *SAMPLE, "--noise-multiplier", 1, "--rounds", 15, "--dp-head", "alternate")
    found = parsed(*both, "--steps", 12, "--head-steps", 8)
    assert (found["steps"], found["dp_head"]) == (300, "alternate")
    assert found["epsilon"] == parsed(*EPSILON)["epsilon"]
    assert "8 local steps of the head and 12 of the body" in words(run(*both, "--steps", 12, "--head-steps", 8))
    for head in ("frozen", "post"):
        assert parsed(*EPSILON, "--dp-head", head)["epsilon"] == found["epsilon"]


def test_what_calibrate_prints_is_enough_when_typed_again() -> None:
    printed = words(run("calibrate", *ROUNDS, "--target-epsilon", 3))
    multiplier = re.search(r"noise multiplier ([\d.]+)", printed)
    assert multiplier
    assert 2.99 < parsed("epsilon", *ROUNDS, "--noise-multiplier", multiplier[1])["epsilon"] <= 3.0
    found = parsed("calibrate", *ROUNDS, "--target-epsilon", 3, "--clip-norm", 0.5)
    assert found["epsilon"] <= 3.0
    assert found["noise_multiplier"] <= float(multiplier[1])
    assert found["noise_std"] == pytest.approx(0.5 * found["noise_multiplier"])
    assert (found["mode"], found["steps"]) == ("sample", 300)


def test_delta_follows_from_the_records() -> None:
    assert parsed(*EPSILON, "--records", 50_000)["delta"] == pytest.approx(2e-6)
    assert parsed(*EPSILON, "--records", 200)["delta"] == 1e-5
    assert "delta 0.001 is above 1/(10 N) = 0.0005 of 200 records" in words(
        run(*EPSILON, "--records", 200, "--delta", 0.001)
    )


def test_the_plan_of_eight_hospitals() -> None:
    found = parsed(*PLAN, "--target-epsilon", 8)
    assert found["batch_size"] == pytest.approx(100)
    assert found["noise_multiplier"] == pytest.approx(0.916, abs=0.001)
    assert found["noise_norm_over_clip_norm"] == pytest.approx(found["noise_multiplier"] * math.sqrt(60_000) / 100)
    assert found["noise_over_longest_way"] == pytest.approx(0.04, abs=0.001)
    assert (found["rounds_used"], found["rounds_that_fit"], found["steps"], found["survives"]) == (20, 20, 400, True)
    others = found["other_epsilons"]
    assert [other["target_epsilon"] for other in others] == [1.0, 3.0, 8.0]
    assert [other["noise_over_longest_way"] for other in others] == pytest.approx([0.168, 0.070, 0.040], abs=0.001)
    assert others[2]["noise_multiplier"] == found["noise_multiplier"]


def test_a_plan_says_what_is_protected() -> None:
    printed = words(run(*PLAN, "--noise-multiplier", 1, "--accountant", "rdp"))
    assert "Protected: one record of a peer's data, against everyone, neighbors included, add-or-remove." in printed
    assert "A person with several records is protected less than one with a single record." in printed
    assert "batch size 100.0 expected, of 2,000 records" in printed
    assert "cannot survive" not in printed


def test_a_plan_that_training_cannot_survive_says_what_to_do() -> None:
    few = ("plan", *ROUNDS, "--noise-multiplier", 1, "--size", 2, "--records", 10, "--parameters", 10**6)
    found = parsed(*few, "--accountant", "rdp")
    assert found["survives"] is False
    printed = words(run(*few, "--accountant", "rdp"))
    assert "Training cannot survive this: the noise left in the average of 2 bodies after 15 rounds is" in printed
    assert "use larger batches in as many steps (more records, or a higher --sampling-rate), fewer shared" in printed
    assert "Most batches are empty" in printed


def test_a_plan_with_a_budget_that_ends_early() -> None:
    asked = (*PLAN, "--noise-multiplier", 1, "--target-epsilon", 5, "--accountant", "rdp")
    found = parsed(*asked)
    used = found["rounds_used"]
    assert found["rounds"] == 20 > used == found["rounds_that_fit"] > 0
    assert found["steps"] == 20 * used
    rest = (*SAMPLE, "--steps", 20, "--noise-multiplier", 1, "--accountant", "rdp", "--rounds")
    assert parsed("epsilon", *rest, used)["epsilon"] == found["epsilon"] <= 5.0
    assert parsed("epsilon", *rest, used + 1)["epsilon"] > 5.0
    assert f"The budget lasts {used} of 20 rounds." in words(run(*asked))
    none = (*PLAN, "--noise-multiplier", 0.5, "--target-epsilon", 0.1, "--accountant", "rdp")
    assert "Not one round fits into the budget." in words(run(*none))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("epsilon", "--privacy", "sample"), "^--noise-multiplier, --sampling-rate, --steps, --rounds must be given, "
         "for example dpeer privacy epsilon --privacy sample --noise-multiplier 1 --sampling-rate 0.05"),
        (("calibrate", *ROUNDS), "^--target-epsilon must be given"),
        (("plan", *ROUNDS, "--target-epsilon", 3), "^--size, --parameters, --records must be given"),
        ((*EPSILON, "--dp-adversary", "neighbor"), "^--dp-adversary neighbor: it belongs to --privacy client"),
        ((*EPSILON, "--dp-adjacency", "replace"), "^--dp-adjacency replace: it belongs to --privacy client"),
        ((*EPSILON, "--dp-min-honest", 4), "^--dp-min-honest 4: it belongs to --privacy client"),
        ((*EPSILON, "--size", 8), "^--size 8: with --privacy sample records are protected.*--records 2000$"),
        ((*EPSILON, "--head-steps", 5), "^head-steps 5: only with dp-head alternate"),
        ((*EPSILON, "--dp-head", "alternate"), "for example --head-steps 5$"),
        ((*EPSILON, "--accountant", "exact"), "the closed form knows no sampling: choose pld"),
        ((*EPSILON, "--records", 10, "--delta", 0.1), "delta 0.1 with 10 records: .*choose at most 0.01$"),
        ((*EPSILON, "--records", 10**11), "delta 1e-12: accountant pld resolves 1e-10 or more with sampling: use rdp"),
        ((*EPSILON, "--sampling-rate", 1.5), "--sampling-rate '1.5': write a number from .* to 1, for example 0.05"),
        ((*EPSILON, "--sampling-rate", 0), "--sampling-rate '0'"),
        ((*EPSILON, "--sampling-rate", "0_1"), "--sampling-rate '0_1'"),
        ((*EPSILON, "--sampling-rate", "\u0661"), "--sampling-rate"),
        ((*EPSILON, "--patient-records", 0), "--patient-records '0': write a whole number from 1 on"),
        ((*EPSILON, "--patient-records", 2, "--accountant", "rdp"), "accountant rdp with 2 records .*: choose pld"),
        ((*EPSILON, "--steps", 0), "--steps '0': write a whole number from 1 on"),
        ((*EPSILON, "--steps", 10**6), "steps 15,000,000: accountant pld counts up to 1,000,000"),
        *(
            (("epsilon", "--noise-multiplier", 5, "--rounds", 20, option, value), f"^{option} .*: it belongs to --pri")
            for option, value in (("--sampling-rate", 0.1), ("--steps", 5), ("--dp-head", "joint"),
                                  ("--head-steps", 5), ("--records", 2000), ("--patient-records", 5))
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_missing_or_of_the_other_level(arguments: tuple[object, ...], message: str) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, ConfigurationError)
    assert re.search(message, str(result.exception)), result.exception
    assert "\n" not in str(result.exception)
    assert result.output == ""


def test_a_command_that_knows_client_level_only() -> None:
    result = run("matrix", "--privacy", "sample", "--noise-multiplier", 4, "--rounds", 9)
    assert result.exit_code == 2
    assert "'sample' is not 'client'" in result.output


@pytest.mark.parametrize("columns", [80, 120])
def test_lines_fit(columns: int) -> None:
    alternate = ("--dp-head", "alternate", "--head-steps", 10**4, "--accountant", "rdp")
    large = ("--size", 10**6, "--parameters", 10**12, "--records", 10**12)
    for arguments in (
        (*EPSILON, *alternate),
        ("epsilon", *ROUNDS, "--noise-multiplier", 10**6, "--dp-head", "frozen", "--patient-records", 10**3),
        ("calibrate", *ROUNDS, *alternate, "--target-epsilon", 1000),
        ("plan", *ROUNDS, *alternate, *large, "--noise-multiplier", 1, "--target-epsilon", 0.001),
    ):
        result = run(*arguments, columns=columns)
        assert result.exception is None
        assert max(len(line.rstrip()) for line in result.output.splitlines()) <= columns
        assert "…" not in result.output
