"""What SCAFFOLD, FedAvg-LS, FedOpt, FAFED and FedLADA spend at sample level, and what they say once it is spent."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpeer.privacy import Charge
from dpeer.privacy.accounting import total_epsilon
from dpeer.training import Trainer
from dpeer.training.algorithms.fedopt import FedOpt
from tests.training.linear import COUNT, Vector, task
from tests.training.sampling import sampled


def test_a_peer_whose_budget_has_ended_says_of_no_change_again(tmp_path: Path) -> None:
    """FedOpt steps along what changed: the last change, said in every round, would carry the model off for ever."""
    learner = sampled(
        task(0, ()), tmp_path, "fedopt", noise=3.0, units=20, budget=3.0, rounds=2, hyper={"momentum": 0.0}
    )
    sent: list[tuple[Vector, bool]] = []
    for number in range(12):
        learner.train(number)
        (buffer,) = learner.release(number) or ()
        assert learner.privacy is not None
        sent.append((np.frombuffer(buffer, dtype="<f4").copy(), learner.privacy["sent_again"]))
        learner.mix({}, {0: 1.0})
    last = max(at for at, (_, again) in enumerate(sent) if not again)
    assert 0 < last < 10
    for values, _ in sent[last + 1 :]:
        assert not values[:COUNT].any()
        assert np.array_equal(values[COUNT:], sent[last][0][COUNT:])


class Silent(FedOpt):
    """Says nothing of what its `mixed` uses, which may therefore be anything."""

    def mixed(self, peer: Trainer) -> None:
        peer.extras["change"].fill_(peer.number + 1.0)


def test_where_mixing_may_look_at_data_all_is_sent_as_it_was(tmp_path: Path) -> None:
    """A head that was trained at home without noise must not be told by what is sent beside the body."""
    learner = sampled(task(0, ()), tmp_path, Silent, noise=3.0, units=20, budget=3.0, rounds=2)
    sent: list[tuple[bytes, bool]] = []
    for number in range(12):
        learner.train(number)
        (buffer,) = learner.release(number) or ()
        assert learner.privacy is not None
        sent.append((bytes(buffer), learner.privacy["sent_again"]))
        learner.mix({}, {0: 1.0})
    last = [values for values, again in sent if not again][-1]
    assert sum(again for _, again in sent) > 1
    assert all(values == last for values, again in sent if again)


@pytest.mark.parametrize(
    ("algorithm", "options", "looks"),
    [
        ("scaffold", {}, 1), ("fedavg-ls", {}, 1), ("fedopt", {}, 1), ("fedlada", {}, 1), ("fafed", {}, 2),
        ("fafed", {"corrected": False}, 1),
    ],
)  # fmt: skip
def test_what_a_step_is_charged(algorithm: str, options: dict[str, Any], looks: int, tmp_path: Path) -> None:
    """As one of DP-SGD, and two gradients on one batch as one with less noise."""
    learner = sampled(task(0, ("head",)), tmp_path, algorithm, rate=0.5, noise=2.0, units=20, options=options)
    learner.train(0)
    learner.release(0)
    assert learner.privacy is not None
    expected = total_epsilon([Charge(0.5, 2.0 / math.sqrt(looks), 2)], 1e-5)
    assert learner.privacy["epsilon"] == pytest.approx(expected, rel=1e-3)
