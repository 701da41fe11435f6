"""`dpeer privacy epsilon`, `calibrate` and `plan`."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from scipy.stats import norm

from dpeer.cli.privacy import privacy
from dpeer.exceptions import ConfigurationError
from dpeer.privacy import Guarantee
from dpeer.privacy.gaussian import epsilon as epsilon_of
from dpeer.privacy.gaussian import mu

ROOT = Path(__file__).parents[2]


def run(*arguments: object, columns: int = 80) -> Result:
    return CliRunner().invoke(privacy, list(map(str, arguments)), env={"COLUMNS": str(columns)})


def parsed(*arguments: object) -> Any:
    result = run(*arguments, "--json")
    assert result.exception is None, result.output

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(result.output, parse_constant=refuse)


def words(result: Result) -> str:
    assert result.exception is None, result.output
    return " ".join(result.output.split())


AGGREGATE = ("--dp-adversary", "aggregate", "--dp-min-honest", 16)


def test_epsilon_json_against_a_neighbor() -> None:
    found = parsed("epsilon", "--noise-multiplier", 5, "--rounds", 100, "--delta", "1e-5", "--dp-adjacency", "zero-out")
    assert found.pop("epsilon") == pytest.approx(9.997, abs=5e-4)
    assert found == {
        "delta": 1e-5,
        "mode": "client",
        "adversary": "neighbor",
        "adjacency": "zero-out",
        "noise_multiplier": 5.0,
        "rounds": 100,
        "accountant": "exact",
    }


def test_epsilon_json_of_aggregate_mode_has_both_numbers() -> None:
    found = parsed("epsilon", "--noise-multiplier", 5, "--rounds", 100, *AGGREGATE)
    assert found["epsilon_neighbor"] == pytest.approx(195, abs=0.5)
    assert found["epsilon"] == found["epsilon_aggregate"] == pytest.approx(24.38, abs=0.005)
    assert (found["adversary"], found["adjacency"]) == ("aggregate", "replace")


def test_clip_norm_changes_no_epsilon_and_the_noise_in_proportion() -> None:
    arguments = ("--rounds", 20, "--target-epsilon", 10)
    one, fifth = parsed("calibrate", *arguments), parsed("calibrate", *arguments, "--clip-norm", 0.2)
    assert list(one) == ["noise_multiplier", "noise_std"]
    assert one["noise_multiplier"] == fifth["noise_multiplier"] == one["noise_std"] == pytest.approx(4.47114, abs=5e-6)
    assert fifth["noise_std"] == pytest.approx(0.2 * one["noise_std"])
    epsilons = [
        parsed("epsilon", "--noise-multiplier", 3, "--rounds", 9, "--clip-norm", clip)["epsilon"] for clip in (0.1, 7)
    ]
    assert epsilons[0] == pytest.approx(epsilons[1], rel=1e-12)


def test_zero_out_needs_half_the_noise() -> None:
    arguments = ("calibrate", "--rounds", 20, "--target-epsilon", 10)
    replace, zero = parsed(*arguments), parsed(*arguments, "--dp-adjacency", "zero-out")
    assert replace["noise_multiplier"] == pytest.approx(2.0 * zero["noise_multiplier"], rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("accountant", ["exact", "pld", "rdp"])
@pytest.mark.parametrize("adversary", [(), AGGREGATE])
def test_what_calibrate_prints_is_enough_when_typed_again(accountant: str, adversary: tuple[object, ...]) -> None:
    rest = ("--rounds", 37, "--accountant", accountant, "--delta", "1e-6", *adversary)
    printed = words(run("calibrate", "--target-epsilon", 3, *rest))
    multiplier = re.search(r"noise multiplier ([\d.]+)", printed)
    assert multiplier
    assert 2.99 < parsed("epsilon", "--noise-multiplier", multiplier[1], *rest)["epsilon"] <= 3.0
    exactly = parsed("calibrate", "--target-epsilon", 3, *rest)
    assert parsed("epsilon", "--noise-multiplier", exactly["noise_multiplier"], *rest)["epsilon"] <= 3.0
    assert ("epsilon_neighbor" in exactly) == bool(adversary)


def test_in_aggregate_mode_every_command_says_which_number_is_which() -> None:
    for arguments in (
        ("epsilon", "--noise-multiplier", 5, "--rounds", 100),
        ("calibrate", "--target-epsilon", "24.382", "--rounds", 100),
        ("plan", "--size", 16, "--parameters", 100, "--rounds", 100, "--noise-multiplier", 5),
        ("matrix", "--size", 16, "--topology", "full", "--rounds", 100, "--noise-multiplier", 5),
    ):
        printed = words(run(*arguments, *AGGREGATE))
        assert (
            "Epsilon is 24.38 only for an outsider that sees only averages of at least 16 honest peers, and 195.4 for "
            "every neighbor, which sees each message by itself."
        ) in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "one peer's whole data set, against a neighbor, replace-one"),
        (("--dp-adjacency", "zero-out"), "one peer's whole data set, against a neighbor, zero-out"),
        (AGGREGATE, "against an outsider that sees only averages of at least 16 honest peers, replace-one"),
    ],
)
def test_unit_adversary_and_adjacency_are_said_in_words(arguments: tuple[object, ...], message: str) -> None:
    assert message in words(run("epsilon", "--noise-multiplier", 5, "--rounds", 20, *arguments))
    assert message in words(run("calibrate", "--target-epsilon", 5, "--rounds", 20, *arguments))
    plan = ("plan", "--size", 16, "--parameters", 100, "--rounds", 20, "--noise-multiplier", 5)
    assert message in words(run(*plan, *arguments))


def test_plan_of_eight_hospitals_says_what_to_do() -> None:
    arguments = ("plan", "--size", 8, "--parameters", 60_000, "--rounds", 20, "--target-epsilon", 10)
    found = parsed(*arguments)
    assert found["noise_norm_over_clip_norm"] == pytest.approx(4.4712 * math.sqrt(60_000), rel=1e-4)
    assert found["noise_over_longest_way"] == pytest.approx(4.4712 * math.sqrt(60_000 / (8 * 20)), rel=1e-4)
    assert (found["releases"], found["releases_that_fit"], found["survives"]) == (20, 20, False)
    assert found["epsilon"] <= 10.0
    printed = words(run(*arguments))
    assert "noise norm / clip norm 1,095" in printed
    assert "Training cannot survive this" in printed
    assert "fewer shared parameters (adapters, or a small body on a frozen public one) or fewer rounds" in printed
    assert "or protect single records with --privacy sample" in printed


def test_plan_warns_only_where_noise_outruns_training() -> None:
    # ratio / sqrt(n T) = sqrt(p / (n T)) for sigma 1.
    arguments = ("plan", "--size", 4, "--rounds", 25, "--noise-multiplier", 1, "--parameters")
    assert "cannot survive" not in words(run(*arguments, 100))
    assert "cannot survive" in words(run(*arguments, 101))


def test_plan_with_a_budget_that_ends_early() -> None:
    arguments = (
        "plan",
        "--size",
        8,
        "--parameters",
        10,
        "--rounds",
        100,
        "--noise-multiplier",
        5,
        "--target-epsilon",
        10,
    )
    found = parsed(*arguments)
    assert (found["rounds"], found["releases"], found["releases_that_fit"]) == (100, 25, 25)
    again = parsed("epsilon", "--noise-multiplier", 5, "--rounds", 25)["epsilon"]
    assert found["epsilon"] == again <= 10.0 < parsed("epsilon", "--noise-multiplier", 5, "--rounds", 26)["epsilon"]
    assert "The budget lasts 25 of 100 rounds" in words(run(*arguments))


def test_plan_without_room_for_one_release() -> None:
    printed = words(run("plan", "--size", 8, "--parameters", 10, "--rounds", 9, "--noise-multiplier", 0.1,
                        "--target-epsilon", 1))  # fmt: skip
    assert "Not one release fits into the budget" in printed
    assert "exit code 5" in printed


def test_plan_by_another_accountant_fits_fewer() -> None:
    arguments = (
        "plan",
        "--size",
        8,
        "--parameters",
        10,
        "--rounds",
        100,
        "--noise-multiplier",
        5,
        "--target-epsilon",
        10,
    )
    assert parsed(*arguments, "--accountant", "rdp")["releases"] < parsed(*arguments)["releases"]
    made = parsed("plan", "--size", 8, "--parameters", 10, "--rounds", 7, "--target-epsilon", 10, "--accountant", "rdp")
    assert made["releases"] == 7
    assert made["epsilon"] <= 10.0


def test_delta_by_size() -> None:
    plan = ("plan", "--parameters", 10, "--rounds", 9, "--noise-multiplier", 5)
    assert parsed(*plan, "--size", 8)["delta"] == 1e-5
    assert parsed(*plan, "--size", 50_000)["delta"] == pytest.approx(2e-6)
    assert parsed(*plan, "--size", 8, "--delta", 0.02)["warnings"] == [
        "delta 0.02 is above 1/(10 N) = 0.0125 of 8 peers: choose that or less"
    ]
    epsilon = ("epsilon", "--noise-multiplier", 5, "--rounds", 20)
    assert "above 1/(10 N) = 0.0125 of 8 peers" in words(run(*epsilon, "--delta", 0.02, "--size", 8))
    assert "above 1/(10 N)" not in words(run(*epsilon, "--delta", 0.02))


EPSILON = ("epsilon", "--noise-multiplier", 5, "--rounds", 20)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("epsilon",), r"^--noise-multiplier, --rounds must be given, for example dpeer privacy epsilon --noise-mul"),
        (("epsilon", "--rounds", 4), r"^--noise-multiplier must be given"),
        (("calibrate", "--rounds", 4), r"^--target-epsilon must be given"),
        (("matrix", "--rounds", 4), r"^--noise-multiplier or --target-epsilon must be given"),
        (("plan", "--rounds", 4, "--noise-multiplier", 1), r"^--size, --parameters must be given"),
        ((*EPSILON, "--dp-adversary", "aggregate"), r"for example --dp-min-honest 16$"),
        ((*EPSILON, "--dp-min-honest", 4), r"belongs to --dp-adversary aggregate$"),
        ((*EPSILON, "--dp-adversary", "aggregate", "--dp-min-honest", 1), r"--dp-min-honest '1': write .* from 2 on"),
        ((*EPSILON, *AGGREGATE, "--size", 8), r"--dp-min-honest 16: there are 8 peers"),
        ((*EPSILON, "--delta", 0.125, "--size", 8), r"delta 0.125 with 8 peers.*at most 0.0125$"),
        ((*EPSILON, "--delta", 0), r"--delta '0': write a number from .* for example 1e-5$"),
        ((*EPSILON, "--delta", "1e-20", "--accountant", "pld"), r"delta 1e-20: accountant pld"),
        (("epsilon", "--noise-multiplier", "nan", "--rounds", 4), r"--noise-multiplier 'nan': write a number"),
        (("epsilon", "--noise-multiplier", "five", "--rounds", 4), r"--noise-multiplier 'five'.*for example 5$"),
        (("epsilon", "--noise-multiplier", -5, "--rounds", 4), r"--noise-multiplier '-5'"),
        (("epsilon", "--noise-multiplier", 1e-6, "--rounds", 4, "--accountant", "pld"), r"use exact$"),
        (("epsilon", "--noise-multiplier", 5, "--rounds", 0), r"--rounds '0': write a whole number from 1 on"),
        (("epsilon", "--noise-multiplier", 5, "--rounds", 2.5), r"--rounds '2.5'"),
        (("calibrate", "--target-epsilon", 0, "--rounds", 4), r"--target-epsilon '0'"),
        ((*EPSILON, "--clip-norm", "inf"), r"--clip-norm 'inf'"),
        (("plan", "--parameters", "60k"), r"--parameters '60k': write a whole number"),
    ],
)
def test_what_is_wrong_or_missing(arguments: tuple[object, ...], message: str) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, ConfigurationError)
    assert result.exception.exit_code == 2
    assert re.search(message, str(result.exception)), result.exception
    assert "\n" not in str(result.exception)
    assert result.output == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("epsilon", "--noise-multiplier", 5, "--rounds", 20),
        ("calibrate", "--target-epsilon", 5, "--rounds", 20),
        ("plan", "--size", 8, "--parameters", 100, "--rounds", 20, "--noise-multiplier", 5),
        ("matrix", "--size", 8, "--topology", "ring", "--rounds", 4, "--noise-multiplier", 5),
    ],
)
def test_what_is_protected_may_be_said_as_in_a_run(arguments: tuple[object, ...]) -> None:
    assert words(run(*arguments, "--privacy", "client")) == words(run(*arguments))


def test_words_that_are_no_choice_end_with_2(dpeer: Callable[..., Any]) -> None:
    for option, valid in (
        ("--accountant", "'exact', 'pld', 'rdp'"),
        ("--dp-adversary", "'neighbor', 'aggregate'"),
        ("--privacy", "'client'"),
    ):
        ended = dpeer("privacy", *EPSILON, option, "server")
        assert ended.code == 2
        assert ended.err.count("\n") == 1
        assert valid in ended.err
        assert option in ended.err


@pytest.mark.parametrize("columns", [80, 120])
def test_lines_fit(columns: int) -> None:
    for arguments in (
        (*EPSILON, *AGGREGATE, "--accountant", "rdp"),
        ("calibrate", "--target-epsilon", "1e6", "--rounds", 10**9, *AGGREGATE),
        ("plan", "--size", 16, "--parameters", 10**12, "--rounds", 10**6, "--target-epsilon", 0.001, *AGGREGATE),
        ("matrix", "--size", 12, "--noise-multiplier", 0.01, "--rounds", 9, "--pairs"),
    ):
        result = run(*arguments, columns=columns)
        assert result.exception is None
        assert max(len(line.rstrip()) for line in result.output.splitlines()) <= columns
        assert "…" not in result.output


def test_how_often_a_neighbor_is_right_follows_from_epsilon() -> None:
    """The table of docs/privacy.md: of two normal distributions mu apart, the nearer one is guessed."""
    page = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    table = re.findall(
        r"^\| (\d+) \| (\d+) % \|",
        page.partition("## What epsilon and delta mean")[2].partition("## ")[0],
        flags=re.MULTILINE,
    )
    assert [int(epsilon) for epsilon, _ in table] == [0, 1, 3, 5, 10, 15, 24]
    for epsilon, right in table:
        apart = mu(float(epsilon), 1e-5) if epsilon != "0" else 0.0
        assert round(100 * norm.cdf(apart / 2)) == int(right)


def test_what_two_runs_in_a_folder_come_to_is_as_the_documentation_says() -> None:
    page = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    first = Guarantee(1.0, 1.0, 1e-5).calibrated(10.0, 20)
    both = math.hypot(first.mu(20), Guarantee(4.5, 1.0, 1e-5).mu(20))
    assert f"| {epsilon_of(both, 1e-5):.1f}, of both runs |" in page


@pytest.mark.slow
def test_the_program_of_the_page_prints_what_its_comments_say(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "privacy-reference.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    exec(compile(program, "docs/privacy-reference.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    message = re.findall(r"^print\(.*?\)(?:  # ([\d.]+))?", program, flags=re.MULTILINE)
    assert len(printed) == len(message) == 6
    for text, number in zip(printed, message, strict=True):
        assert not number or float(text) == pytest.approx(float(number), rel=2e-3)
