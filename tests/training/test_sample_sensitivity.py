"""One record more moves no sum by more than the clip norm, whatever was released before.

Each sum that the mechanism is about to noise is written down, and replaced by numbers that do not depend on it. So two
peers of which one has a record more have the same history, and the distance of their sums is the sensitivity that the
noise is measured by. A head that is trained without noise raises it: then all gradients of the body change with it.
"""

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from dpeer.exceptions import ConfigurationError
from dpeer.training import ALGORITHMS
from dpeer.training.dpsgd.private_minibatches import PrivateMinibatches
from tests.training.dp_learners import sampled
from tests.training.small import mix, small_task

pytestmark = pytest.mark.slow


CLIP_NORM = 0.3


def never_flat(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """A loss whose gradient does not vanish, however well a record is learned."""
    return -outputs.gather(1, targets[:, None]).mean()


def farthest(name: str, head: str, tmp_path: Path, sums: list[np.ndarray], **more: Any) -> tuple[float, int]:
    """The largest distance of two peers' sums, over the clip norm, and how many sums there were."""
    base = small_task(samples=15).train
    extreme = torch.tensor([[50.0, -50.0, 40.0, -40.0, 30.0, -30.0]]), torch.tensor([2])
    larger = TensorDataset(*(torch.cat([one, last]) for one, last in zip(base.tensors, extreme, strict=True)))
    found = []
    for number, train in enumerate((base, larger)):
        groups = None
        if more.get("grouped"):
            groups = np.minimum(np.arange(len(train)) // 5, 10)
        learner = sampled(
            small_task(train=train, loss=never_flat), tmp_path / str(number), name, rate=1.0, noise=50.0,
            clip_norm=CLIP_NORM, units=16, head=head, groups=groups, ascent=more.get("ascent", "previous"),
            microbatch=16,
            hyper={"body_epochs": 2, "head_epochs": 3, "body_lr": 0.2, "head_lr": 0.5, "finish": "all:1"},
        )  # fmt: skip
        sums.clear()
        learner.train(0)
        learner.release(0)
        mix(learner, {}, {0: 1.0})
        learner.fine_tune(0)
        learner.train(1)
        found.append([*sums])
    distances = [np.linalg.norm(one - other) for one, other in zip(*found, strict=True)]
    return float(max(distances)) / CLIP_NORM, len(distances)


WAYS = [
    (name, head, {"ascent": ascent, "grouped": grouped})
    for (name, head), (ascent, grouped) in itertools.product(
        itertools.product(sorted(ALGORITHMS), ("joint", "alternate", "post")),
        (("previous", False), ("same-batch", True)),
    )
]
IDS = [f"{name}-{head}-{more['ascent']}" for name, head, more in WAYS]


def taken(at: int) -> bool:
    """Every algorithm and head with one of two settings, which alternate; `make test-all` takes both."""
    return (at // 2 + at) % 2 == 0


@pytest.mark.parametrize(
    ("name", "head", "more"),
    [pytest.param(*way, marks=[] if taken(at) else [pytest.mark.long], id=IDS[at]) for at, way in enumerate(WAYS)],
)
def test_one_record_more_moves_a_sum_by_the_clip_norm_at_most(
    name: str, head: str, more: dict[str, Any], tmp_path: Path, sums: list[np.ndarray]
) -> None:
    if name in ("fedrod", "dis-pfl") or (head == "post" and ALGORITHMS[name].shares != "body"):
        with pytest.raises(ConfigurationError):
            farthest(name, head, tmp_path, sums, **more)
        return
    distance, steps = farthest(name, head, tmp_path, sums, **more)
    assert steps >= 4
    assert 0.99 < distance <= 1.0, "the record that is there in one of them counts, and for no more than itself"


def test_a_head_without_noise_is_seen(tmp_path: Path, sums: list[np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    """What PRIVACY of a body alone would forget: the same peer, whose head is trained as without privacy."""
    private = PrivateMinibatches.stepped

    def stepped(self: PrivateMinibatches, part: Any, lr: float, number: int) -> Any:
        return (self._plain.stepped if part is self.net.head else partial(private, self))(part, lr, number)

    monkeypatch.setattr(PrivateMinibatches, "stepped", stepped)
    distance, _ = farthest("dfedmdc", "alternate", tmp_path, sums)
    assert distance > 1.5
