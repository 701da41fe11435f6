"""`dpeer privacy` at both levels."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dpeer.federation.build import build
from dpeer.federation.config import load, resolve
from dpeer.federation.findings import Findings
from dpeer.federation.site_check import check_site
from dpeer.privacy import Guarantee, PeerData, PrivacyConfig, SampleTerms
from dpeer.privacy.accounting import gaussian_epsilon as epsilon_of
from dpeer.privacy.guarantee import phases_of
from dpeer.privacy.settings import PrivacySettings
from tests.cli.command import parsed, text, words

ROOT = Path(__file__).parents[2]

EPSILON = ("privacy", "--noise-multiplier", 5, "--rounds", 20)
NOISE = ("privacy", "--rounds", 20, "--target-epsilon", 10)
SURVIVAL = ("--size", 8, "--parameters", 60_000)

STEPS = ("privacy", "--privacy", "sample", "--batch-size", 100, "--records", 2000, "--steps", 20)
EPSILON_OF_SAMPLE = (*STEPS, "--rounds", 15, "--noise-multiplier")
SURVIVAL_OF_SAMPLE = (*STEPS, "--rounds", 20, *SURVIVAL, "--accountant", "rdp")


# -- client level ----------------------------------------------------------------------------------------------------


def test_epsilon_against_a_neighbor_as_json() -> None:
    found = parsed(*EPSILON, "--rounds", 100, "--delta", "1e-5")
    assert found.pop("epsilon") == pytest.approx(Guarantee(5.0, 1.0, 1e-5).epsilon(100))
    assert found == {
        "delta": 1e-5,
        "mode": "client",
        "adversary": "neighbor",
        "adjacency": "replace",
        "noise_multiplier": 5.0,
        "noise_std": 5.0,
        "rounds": 100,
        "accountant": "exact",
    }


@pytest.mark.parametrize("more", [(), ("--accountant", "rdp")])
def test_printed_noise_is_enough_when_typed_again(more: tuple[object, ...]) -> None:
    printed = re.search(r"noise multiplier ([\d.]+)", words(*NOISE, *more))
    assert printed
    assert 9.96 < parsed(*EPSILON, *more, "--noise-multiplier", printed[1])["epsilon"] <= 10.0
    exactly = parsed(*NOISE, *more)
    assert parsed(*EPSILON, *more, "--noise-multiplier", exactly["noise_multiplier"])["epsilon"] <= 10.0


def test_a_guarantee_is_named_and_compared_with_that_of_papers() -> None:
    found = words(*EPSILON, "--rounds", 100)
    assert "Protected: one peer's whole data set, against a neighbor, replace-one." in found
    papers = epsilon_of(10 / 5.0, 1e-5)
    assert papers == pytest.approx(9.997, abs=5e-4)
    assert "Papers that count sensitivity C (an update beside none) state epsilon 9.997 for this noise." in found


def test_eight_hospitals_learn_that_training_cannot_survive_and_what_to_do() -> None:
    found = parsed(*NOISE, *SURVIVAL)
    assert found["noise_norm_over_clip_norm"] == pytest.approx(4.4712 * math.sqrt(60_000), rel=1e-4)
    assert found["noise_over_longest_way"] == pytest.approx(4.4712 * math.sqrt(60_000 / (8 * 20)), rel=1e-4)
    assert found["survives"] is False
    assert list(parsed(*EPSILON, *SURVIVAL))[-3:] == [*found][-3:]
    printed = words(*NOISE, *SURVIVAL)
    assert "Training cannot survive this: the noise left in the average of 8 bodies after 20 rounds is 86.58" in printed
    assert "fewer shared parameters (adapters, or a small body on a frozen public one) or fewer rounds" in printed
    assert "or protect single records with --privacy sample" in printed
    assert "survive" not in words(*NOISE)


# -- sample level ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_epsilon_of_a_record_as_json() -> None:
    found = parsed(*EPSILON_OF_SAMPLE, 1)
    assert found.pop("epsilon") == pytest.approx(5.795, abs=5e-4)
    assert found == {
        "delta": 1e-5,
        "mode": "sample",
        "adversary": "everyone",
        "adjacency": "add-or-remove",
        "noise_multiplier": 1.0,
        "noise_std": 1.0,
        "sampling_rate": 0.05,
        "batch_size": 100.0,
        "records": 2000,
        "unit": "record",
        "dp_head": "joint",
        "rounds": 15,
        "steps": 300,
        "accountant": "pld",
    }
    assert parsed(*EPSILON_OF_SAMPLE, 1, "--accountant", "rdp")["epsilon"] == pytest.approx(6.464, abs=5e-4)
    with_all = (*EPSILON_OF_SAMPLE, 2, "--batch-size", 2000, "--steps", 10, "--rounds", 1)
    assert parsed(*with_all)["epsilon"] == pytest.approx(7.5113, abs=5e-5)


def test_survival_for_records_says_what_is_protected_and_what_to_do() -> None:
    printed = words(*SURVIVAL_OF_SAMPLE, "--noise-multiplier", 1)
    assert "Protected: one record of a peer's data, against everyone, neighbors included, add-or-remove." in printed
    assert (
        "One record is protected, not one patient: --privacy-unit group of a run protects all records of a patient."
        in printed
    )
    assert "cannot survive" not in printed
    few = (*SURVIVAL_OF_SAMPLE, "--noise-multiplier", 1, "--size", 2, "--records", 10, "--parameters", 10**6)
    assert parsed(*few)["survives"] is False
    printed = words(*few)
    assert "Training cannot survive this: the noise left in the average of 2 bodies after 20 rounds is" in printed
    assert "larger batches in as many steps" in printed


# -- both levels ------------------------------------------------------------------------------------------------------


def test_the_command_prints_the_noise_of_a_run_to_the_last_digit(tmp_path: Path) -> None:
    client = PrivacyConfig(PrivacySettings(privacy="client", target_epsilon=10, clip_norm=0.3), size=8, rounds=20)
    printed = parsed(*NOISE, "--clip-norm", 0.3, "--size", 8)
    assert printed["noise_multiplier"] == client.guarantee.noise_multiplier
    assert printed["noise_std"] == client.guarantee.noise_std
    asked = PrivacySettings(privacy="sample", target_epsilon=3, records=500, dp_head="alternate")
    session = SampleTerms(PrivacyConfig(asked, rounds=4, batch_size=25), tmp_path, PeerData(records=500)).open(
        phases_of(20, 5)
    )
    sizes = ("--batch-size", 25, "--records", 500, "--head-steps", 5)
    printed = parsed(*STEPS, "--rounds", 4, "--target-epsilon", 3, *sizes)
    assert printed["noise_multiplier"] == session.guarantee.noise_multiplier
    assert printed["epsilon"] == session.epsilon(4)


@pytest.mark.parametrize("rounds", [19, 21])
def test_the_command_and_a_start_agree_whether_training_survives_with_steps_of_the_head(
    rounds: int, tmp_path: Path
) -> None:
    """Of sigma 1 and 5 records a batch the noise is as long as the way after 20 rounds of 20 steps of the body."""
    asked = PrivacySettings(privacy="sample", noise_multiplier=1.0, records=100, dp_head="alternate")
    config = PrivacyConfig(asked, rounds=rounds, batch_size=5, size=2)
    session = SampleTerms(config, tmp_path, PeerData(records=100)).open(phases_of(20, 400))
    printed = parsed(
        *STEPS, "--rounds", rounds, "--noise-multiplier", 1, "--batch-size", 5, "--records", 100,
        "--head-steps", 400, "--size", 2, "--parameters", 20_000,
    )  # fmt: skip
    assert printed["survives"] is (rounds > 20)
    assert any("cannot survive" in line for line in session.notes(20_000)) is (rounds < 20)


# -- of a federation file ---------------------------------------------------------------------------------------------


FILE = """
size = 4
topology = "full"
task = "mine.py:task"
rounds = 6
body_epochs = 2
batch_size = 4
alone = "never"
base_port = 1
"""

LEVELS = {
    "client": 'privacy = "client"\ntarget_epsilon = 8\nsparsify = "random:0.5"\n',
    "ended": 'privacy = "client"\ntarget_epsilon = 3\nnoise_multiplier = 4\n',
    "sample": 'privacy = "sample"\ntarget_epsilon = 8\nrecords = 20\ndp_head = "alternate"\nhead_epochs = 1\n',
}


@pytest.fixture
def file(small_task: Path, in_tmp_path: Path) -> Callable[[str], Path]:
    def write(lines: str) -> Path:
        (in_tmp_path / "dpeer.toml").write_text(FILE + lines)
        return in_tmp_path / "dpeer.toml"

    return write


@pytest.mark.parametrize("level", LEVELS)
def test_of_a_federation_file_it_has_the_figures_of_the_start_to_the_last_digit(
    level: str, file: Callable[[str], Path], in_tmp_path: Path
) -> None:
    written = file(LEVELS[level])
    parts = build(resolve(load(written, {"out": in_tmp_path / "built"}), 1))
    session = parts.learner.session
    made = session.guarantee
    before = {*in_tmp_path.rglob("*")}
    found = parsed("privacy", "--federation", written, "--rank", 1)
    assert {path for path in {*in_tmp_path.rglob("*")} - before if "__pycache__" not in path.parts} == set()
    forecast = check_site(Findings(), written, {}, "1")
    assert found["promises"] == parts.promises
    assert found["promises"][0] == forecast["privacy"]
    assert found["epsilon"] == made.epsilon(session.rounds)
    assert f"epsilon {found['epsilon']:.4g} at" in found["promises"][0]
    assert (found["noise_multiplier"], found["delta"]) == (made.noise_multiplier, made.delta)
    assert (found["rank"], found["size"], found["rounds"]) == (1, 4, 2 if level == "ended" else 6)
    if level == "sample":
        body, head = 4 * 6 + 6, 6 * 2 + 2
        assert (found["records"], found["batch_size"], found["sampling_rate"]) == (20, 4, 0.2)
        assert (found["steps"], found["parameters"]) == (6 * made.steps(1), max(body, head))
        assert f"after {found['steps']:,} steps" in found["promises"][0]
    else:
        assert found["parameters"] == {"client": 15, "ended": 30}[level]
        assert f"after {found['rounds']} releases" in found["promises"][0]
    printed = words("privacy", "--federation", written, "--rank", 1)
    assert f"parameters {found['parameters']} " in printed
    assert " ".join(parts.promises[0].split()) in printed


@pytest.mark.parametrize(
    ("lines", "arguments", "named"),
    [
        (LEVELS["sample"], ("--records", 20, "--size", 4), "--records, --size beside --federation"),
        (LEVELS["client"], ("--clip-norm", 1), "the file and its data answer it: leave it out"),
        (LEVELS["client"], ("--rank", 4), "rank 4 does not exist in a federation of size 4"),
        ("", (), "privacy is none there"),
        (f'{LEVELS["client"]}algorithm = "local"\n', (), "with algorithm local nothing is shared"),
    ],
)  # fmt: skip
def test_what_the_file_answers_is_not_asked_for(
    lines: str, arguments: tuple[object, ...], named: str, file: Callable[[str], Path], dpeer: Callable[..., Any]
) -> None:
    ended = dpeer("privacy", "--federation", file(lines), *arguments)
    assert ended.code == 2
    assert named in " ".join(ended.err.split())


def test_a_rank_is_of_a_federation_file(dpeer: Callable[..., Any]) -> None:
    ended = dpeer(*EPSILON, "--rank", 3)
    assert ended.code == 2
    assert "--rank 3: it belongs to --federation FILE" in ended.err


# -- width, imports, pages --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [80, 120])
def test_lines_fit(columns: int) -> None:
    alternate = ("--head-steps", 10**4, "--accountant", "rdp")
    large = ("--size", 10**9, "--parameters", 10**9)
    for arguments in (
        (*EPSILON, "--accountant", "rdp"),
        (*NOISE, "--target-epsilon", "1e6", "--rounds", 10**9, *large),
        (*EPSILON_OF_SAMPLE, 10**6, *alternate),
        (*EPSILON_OF_SAMPLE, 1, *alternate, *large, "--records", 10**9),
    ):
        text(*arguments, columns=columns)


def test_how_often_a_neighbor_is_right_follows_from_epsilon() -> None:
    """The table of docs/privacy.md: of two normal distributions mu apart, the nearer one is guessed."""
    page = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    section = page.partition("## What epsilon and delta mean")[2].partition("## ")[0]
    table = re.findall(r"^\| (\d+) \| (\d+) % \|", section, flags=re.MULTILINE)
    assert [int(epsilon) for epsilon, _ in table] == [0, 1, 3, 5, 10, 24]
    for epsilon, right in table:
        apart = brentq(lambda mu, to=float(epsilon): epsilon_of(mu, 1e-5) - to, 0.1, 9.0) if epsilon != "0" else 0.0
        assert round(100 * norm.cdf(apart / 2)) == int(right)
    first = Guarantee(1.0, 1.0, 1e-5).calibrated(10.0, 20).noise_multiplier
    both = math.hypot(2 * math.sqrt(20) / first, 2 * math.sqrt(20) / 4.5)
    assert f"make {epsilon_of(both, 1e-5):.1f} together |" in page


@pytest.mark.slow
def test_the_program_of_the_page_prints_what_its_comments_say(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    exec(compile(program, "docs/privacy.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    comments = re.findall(r"^print\(.*\)  # ([\d.]+\d)", program, flags=re.MULTILINE)
    assert len(printed) == len(comments) == 3
    for line, number in zip(printed, comments, strict=True):
        assert float(line) == pytest.approx(float(number), rel=2e-3)
