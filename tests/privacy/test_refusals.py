"""Values with which nothing would be private, and what no accountant can count."""

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from dpeer import privacy
from dpeer.exceptions import ConfigurationError, TaskError
from dpeer.privacy import Charge, Guarantee, PeerData, PrivacyConfig, SampleGuarantee, SampleTerms, Sparsifier
from dpeer.privacy.accounting import least_noise, total_epsilon
from dpeer.privacy.guarantee import phases_of
from dpeer.privacy.settings import PrivacySettings
from tests.error_texts import refused

CLIENT = Guarantee(1.0, 1.0, 1e-5)
SAMPLE = SampleGuarantee(1.0, 0.5, 1e-5, 0.05, phases_of(20))
STEPS = Charge(0.1, 1.0, 9)
LONG = Charge(0.1, 1.0, 2_000_000)


def found(options: dict[str, list[str]]) -> None:
    asked = PrivacySettings(privacy="client", noise_multiplier=1.0)
    privacy.open(PrivacyConfig(asked, size=2, task="csv"), Path("nowhere"), PeerData(found=options))


client, sample = partial(dataclasses.replace, CLIENT), partial(dataclasses.replace, SAMPLE)


@pytest.mark.parametrize(
    ("call", "fragment"),
    [
        (lambda: total_epsilon([Charge(0.1, 1e-4, 9)], 1e-5), "for 9 steps: beyond accountant pld"),
        (lambda: least_noise(lambda noise: [Charge(1.0, noise, 0)], 1.0, 1e-5, digits=3), "epsilon 1 for 0 releases"),
        (lambda: SAMPLE.calibrated(1e5, 9), "for 180 steps: beyond accountant pld"),
        (lambda: CLIENT.calibrated(0.0, 1), "target epsilon 0"),
        (lambda: CLIENT.calibrated(1e-300, 10**9), "no noise that can be computed with is enough"),
        (lambda: total_epsilon([STEPS], 1e-11), "delta 1e-11: accountant pld"),
        (lambda: total_epsilon([LONG], 1e-5), "steps 2,000,000: accountant pld"),
        (lambda: client(clip_norm=1e16), "--clip-norm 1e+16"),
        (lambda: sample(noise_multiplier=0.0), "--noise-multiplier 0"),
        (lambda: PrivacyConfig(PrivacySettings(privacy="client")).guarantee, "--privacy client needs to know how much"),
        (lambda: found({"classes": ["no", "yes"]}), "--task-option classes=no,yes (name all"),
        (lambda: found({"classes": [str(number) for number in range(50)]}), "18,19,... (50 in all)"),
        *(
            (partial(Sparsifier.parse, text), f"--sparsify '{text}'")
            for text in ("best:0.4", "top-k", "top-k:0", "top-k:nan")
        ),
    ],
)
def test_what_would_protect_no_one_or_cannot_be_counted(call: Callable[[], object], fragment: str) -> None:
    with refused(ConfigurationError, fragment):
        call()


def test_groups_that_the_task_does_not_know(tmp_path: Path) -> None:
    settings = PrivacySettings(privacy="sample", noise_multiplier=1.0, privacy_unit="group")
    with refused(TaskError, "--privacy-unit group: task 'mine' does not say whose each record is"):
        SampleTerms(PrivacyConfig(settings, task="mine"), tmp_path, PeerData(records=9))
