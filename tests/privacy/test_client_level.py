"""What a guarantee promises."""

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.privacy.client_level import Guarantee


def test_noise_and_sensitivity() -> None:
    neighbor = Guarantee(5.0, 0.2, 1e-5)
    assert neighbor.noise_std == pytest.approx(1.0)
    assert neighbor.mu(100) == pytest.approx(10 * 0.4 / 1.0)


def test_a_release_that_was_never_made_costs_nothing_and_fewer_than_none_are_refused() -> None:
    guarantee = Guarantee(5.0, 1.0, 1e-5)
    assert guarantee.epsilon(0) == 0.0
    with pytest.raises(ConfigurationError):
        guarantee.mu(-1)


def test_words() -> None:
    assert Guarantee(1.0, 1.0, 1e-5).words == "one peer's whole data set, against a neighbor, replace-one"
