"""`dpeer privacy audit`: the canary attack on the product's own learner, at both levels of privacy."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dpeer.federation.audit import attack_client, attack_sample
from dpeer.privacy import Guarantee, Ledger, SampleGuarantee, mechanism
from dpeer.privacy.sample_level import Head, phases_of
from tests.federation.defects import scaled

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread", "fixed_private_bits")]

CLIENT = ("privacy", "audit", "--noise-multiplier", 4, "--rounds", 9)
SAMPLE = ("privacy", "audit", "--privacy", "sample", "--noise-multiplier", 1, "--sampling-rate", 0.25, "--steps", 4,
          "--rounds", 2)  # fmt: skip
QUICK = (*SAMPLE[:4], "--noise-multiplier", 0.7, "--sampling-rate", 0.5, "--steps", 2, "--rounds", 1, "--runs", 400)


@pytest.mark.parametrize("adjacency", ["replace", pytest.param("zero-out", marks=pytest.mark.long)])
def test_a_clients_claim_stands_and_is_nearly_reached(adjacency: Any) -> None:
    made: list[int] = []
    guarantee = Guarantee(4 / 3, 0.7, 1e-5, adjacency=adjacency)
    report = attack_client(guarantee, 1, 300, made.append)
    assert report.held, report
    assert report.claimed == guarantee.mu(1)
    assert report.bound.mu > 0.4 * report.claimed
    assert sum(made) == 600


@pytest.mark.parametrize(
    "head", ["joint", *(pytest.param(one, marks=pytest.mark.long) for one in ("alternate", "frozen", "post"))]
)
def test_a_records_claim_stands(head: Head) -> None:
    made: list[int] = []
    guarantee = SampleGuarantee(0.25, 0.6, 0.7, 1e-5, phases_of(4, 2 if head == "alternate" else 0), head)
    report = attack_sample(guarantee, 2, 100, made.append)
    assert report.held, report
    assert report.claimed == pytest.approx(guarantee.epsilon(2))
    assert report.bound.epsilon > 0.2 * report.claimed
    assert sum(made) == 200 * guarantee.compositions(2)


def test_too_little_noise_is_refuted_at_client_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mechanism, "noised", scaled(0.6))
    assert not attack_client(Guarantee(4 / 3, 1.0, 1e-5), 1, 200).held


def test_half_the_noise_is_refuted_at_sample_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mechanism, "noised", scaled(0.5))
    report = attack_sample(SampleGuarantee(0.5, 0.7, 1.0, 1e-5, phases_of(4)), 1, 200)
    assert report.bound.refuted
    assert report.bound.strength < 1.0


def test_a_ledger_that_counts_too_little_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The neighbor's errors are held against what the peer itself reports."""
    monkeypatch.setattr(Ledger, "releases", property(lambda ledger: 1))
    client = attack_client(Guarantee(2.0, 1.0, 1e-5), 4, 80)
    assert client.claimed == pytest.approx(1.0), "of one release; four are mu 2"
    assert not client.held
    charge = Ledger.charge
    monkeypatch.setattr(Ledger, "charge", lambda self, number, steps: charge(self, number, replace(steps, steps=1)))
    sample = attack_sample(SampleGuarantee(0.5, 1.0, 1.0, 1e-5, phases_of(12)), 1, 60)
    assert sample.claimed == pytest.approx(SampleGuarantee(0.5, 1.0, 1.0, 1e-5, phases_of(1)).epsilon(1))
    assert not sample.held


def test_the_command_prints_claim_and_bound_as_json(dpeer: Callable[..., Any]) -> None:
    result = dpeer("privacy", "audit", "--noise-multiplier", "2", "--rounds", "1", "--runs", 40, "--json")
    assert result.code == 0
    found = json.loads(result.out)
    assert (found["mode"], found["runs"], found["held"]) == ("client", 40, True)
    assert found["mu_claimed"] == pytest.approx(1.0)
    assert found["mu_lower_bound"] <= 1.0
    assert found["epsilon_claimed"] == pytest.approx(Guarantee(2, 1, 1e-5).epsilon(1))
    result = dpeer(*QUICK, "--dp-head", "frozen", "--json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert (found["mode"], found["steps"], found["runs"], found["dp_head"]) == ("sample", 2, 400, "frozen")
    assert 0 <= found["epsilon_lower_bound"] <= found["epsilon_claimed"]
    assert found["noise_multiplier_upper_bound"] is None or found["noise_multiplier_upper_bound"] >= 0.7


def test_a_refuted_claim_ends_with_code_1(dpeer: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mechanism, "noised", scaled(0.3))
    result = dpeer(*CLIENT[:2], "--noise-multiplier", 2, "--rounds", 2, "--runs", 60)
    assert result.code == 1
    assert "THE CLAIM IS REFUTED" in result.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("privacy", "audit", "--noise-multiplier", 0.1, "--rounds", 1), "mu 20.* --noise-multiplier 1.33"),
        ((*SAMPLE, "--noise-multiplier", 0.05), "could not tell half the noise .*, or --noise-multiplier 0.25"),
        ((*SAMPLE, "--sampling-rate", 0.01, "--noise-multiplier", 9), "1000 runs of each .* take more --runs"),
    ],
)  # fmt: skip
def test_what_cannot_be_attacked_is_refused_in_one_line(
    dpeer: Callable[..., Any], options: tuple[object, ...], message: str
) -> None:
    result = dpeer(*options)
    assert result.code == 2
    assert re.search(message, result.err), result.err
    assert result.err.count("\n") == 1
