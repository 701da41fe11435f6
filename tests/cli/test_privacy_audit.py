"""`dpeer privacy audit`: the worst case through the product's own learner."""

import json

import numpy as np
import pytest
import torch

from dpeer.cli.privacy.audit import attack, audit
from dpeer.cli.privacy.canary import views
from dpeer.exceptions import ConfigurationError
from dpeer.privacy import Guarantee
from dpeer.privacy.audit import audit as audited


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_without_noise_worth_speaking_of_a_view_is_all_the_updates_along_the_direction():
    guarantee = Guarantee(1e-6, 0.3, 1e-5)
    for sign in (-1.0, 0.0, 1.0):
        assert views(guarantee, 4, 1, sign, lambda: None) == pytest.approx([sign * 0.3 * 4], abs=1e-4)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_is_given_away_is_what_is_claimed_and_half_the_noise_is_found_out():
    claimed = Guarantee(8 / 3, 0.7, 1e-5)
    assert claimed.mu(4) == pytest.approx(1.5)
    threshold = 0.0
    first, second = (views(claimed, 4, 300, sign, lambda: None) for sign in (-1.0, 1.0))
    # The neighbor's sums are normal with the mean and deviation that the claim is computed from.
    assert (second.mean() - first.mean()) / np.sqrt((first.var() + second.var()) / 2) == pytest.approx(1.5, abs=0.35)
    assert audited(first, second, threshold, 0.999).mu <= 1.5
    assert audited(first, second, threshold).mu > 0.8
    halved = attack(Guarantee(4 / 3, 0.7, 1e-5), 4, 300, show=False)
    assert halved.mu > 1.5


def test_the_command_says_what_was_claimed_and_found(dpeer):
    result = dpeer("privacy", "audit", "--noise-multiplier", "2", "--rounds", "1", "--runs", "40", "--json")
    assert result.code in (0, 1)
    found = json.loads(result.out)
    assert found["mu_claimed"] == pytest.approx(1.0)
    assert found["held"] == (found["mu_lower_bound"] <= 1.0) == (result.code == 0)
    assert found["runs"] == 40
    assert found["epsilon_claimed"] == pytest.approx(Guarantee(2, 1, 1e-5).epsilon(1))


def test_a_mu_that_so_few_runs_cannot_tell_is_refused_with_a_better_one():
    with pytest.raises(ConfigurationError, match="mu 20") as found:
        audit.callback(as_json=False, runs=300, noise_multiplier=0.1, rounds=1, clip_norm=1.0, delta=None,
                       dp_adjacency="replace")  # fmt: skip
    assert "--noise-multiplier 1.33" in str(found.value)
