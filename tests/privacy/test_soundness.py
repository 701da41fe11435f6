"""Which settings of privacy go together."""

import math

import pytest

from dpeer.exceptions import BudgetTooSmall, ConfigurationError
from dpeer.privacy import Guarantee, Sparsifier
from dpeer.privacy.soundness import check_adversary, check_budget, check_found, check_strength, worst_share


def test_privacy_needs_to_know_how_much() -> None:
    check_strength(1.0, None)
    check_strength(None, 8.0)
    with pytest.raises(ConfigurationError, match=r"--target-epsilon 8"):
        check_strength(None, None)


def test_averages_are_for_the_adversary_that_sees_nothing_else() -> None:
    check_adversary("neighbor", None, Sparsifier.parse("top-k:0.4"))
    check_adversary("aggregate", 3, Sparsifier.parse("random:0.4"))
    with pytest.raises(ConfigurationError, match=r"--dp-min-honest 3: a neighbor sees every message"):
        check_adversary("neighbor", 3)
    with pytest.raises(ConfigurationError, match=r"--dp-min-honest M"):
        check_adversary("aggregate", None)
    with pytest.raises(ConfigurationError, match=r"--sparsify top-k:0.4 cannot be used"):
        check_adversary("aggregate", 3, Sparsifier.parse("top-k:0.4"))


def test_the_worst_share_is_the_largest_over_rows_and_honest_sets() -> None:
    rows = [[0.5, 0.25, 0.25, 0.0], [0.25, 0.25, 0.25, 0.25]]
    # Of three honest bodies the largest weight hides worst beside the two smallest.
    assert worst_share(rows, 3) == pytest.approx(0.5 / math.sqrt(0.5**2 + 2 * 0.25**2))
    assert worst_share(rows[1:], 4) == pytest.approx(0.5)
    with pytest.raises(ConfigurationError, match=r"averages only 3 bodies"):
        worst_share(rows, 4)


def test_a_budget_holds_at_least_one_release() -> None:
    guarantee = Guarantee(1.0, 1.0, 1e-5)
    check_budget(guarantee, None)
    check_budget(guarantee, guarantee.epsilon(1))
    with pytest.raises(BudgetTooSmall, match=r"not even one release"):
        check_budget(guarantee, guarantee.epsilon(1) * 0.99)


def test_what_was_found_in_data_has_to_be_said() -> None:
    check_found("csv", {})
    with pytest.raises(ConfigurationError, match=r"classes must be said.* --task-option classes=no,yes \(name all"):
        check_found("csv", {"classes": ["no", "yes"]})
    many = [str(number) for number in range(50)]
    with pytest.raises(ConfigurationError, match=r",19,\.\.\. \(50 in all\)"):
        check_found("csv", {"classes": many})
