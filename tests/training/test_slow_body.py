"""The example `slow_body.py`: the pseudo-code in numpy on a ring."""

from pathlib import Path

import numpy as np
import pytest

from tests.training.linear import BODY, DECAY, RING, SIZE, STEPS, begin, gradient, peers

EXAMPLE = f"{Path(__file__).parents[2] / 'examples' / 'slow_body.py'}:SlowBody"
ROUNDS, LR = 4, 0.1


@pytest.mark.parametrize("keep", [0.8, 0.0])
def test_the_slow_body_follows_the_pseudo_code_and_predicts(keep: float) -> None:
    learners = peers(EXAMPLE, options={"keep": keep}, head_epochs=1, body_epochs=1, head_lr=LR)
    x, slow = np.stack([begin()] * SIZE), np.stack([begin()[:BODY]] * SIZE)
    for number in range(ROUNDS):
        for rank, ours in enumerate(learners):
            ours.train(number)
            for part in (slice(BODY, None), slice(BODY)):
                for _ in range(STEPS):
                    x[rank, part] -= LR * DECAY**number * gradient(x[rank], rank)[part]
        slow = RING @ (keep * slow + (1 - keep) * x[:, :BODY])
        x[:, :BODY] = RING @ x[:, :BODY]
        sent = [ours.release(number) for ours in learners]
        for rank, ours in enumerate(learners):
            row = {other: float(weight) for other, weight in enumerate(RING[rank]) if weight}
            ours.mix({other: sent[other] for other in row if other != rank}, row)
    for rank, ours in enumerate(learners):
        expected = np.concatenate([slow[rank], x[rank, BODY:]])
        np.testing.assert_allclose(ours.finishing.predicting(), expected, rtol=0, atol=2e-5)
