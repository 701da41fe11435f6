"""Values that travel beside the body: mixed with W, counted, compared, and kept as the body is."""

from collections.abc import Mapping

import numpy as np
import pytest
import torch

from dpeer.training import Algorithm, Hyperparameters, TorchLearner, Trainer, build_learner
from dpeer.training.flat import Extras
from dpeer.training.split import Split
from tests.training.small import BodyOnly, gossip, small_task

SIZE = 4
H = Hyperparameters(body_epochs=1, head_epochs=1, batch_size=16)
RNG = np.random.default_rng(5)
GIVEN = RNG.normal(size=(3, SIZE, 7)).astype(np.float32)
"""What each peer adds to its extras in each round."""


class Tracking(BodyOnly):
    """Sends two vectors beside the body."""

    def extras(self, split: Split) -> Mapping[str, int]:
        assert [name for name, _ in split.head] == ["fc.weight", "fc.bias"]
        return {"control": 5, "moment": 2}

    def train(self, peer: Trainer) -> None:
        super().train(peer)
        added = torch.from_numpy(GIVEN[peer.number, peer.rank])
        peer.extras["control"].add_(added[:5])
        peer.extras["moment"].add_(added[5:])


def test_what_is_added_or_assigned_is_written_to_the_vector_that_travels():
    extras = Extras({"control": 2, "moment": 1}, torch.zeros(3))
    extras["control"] += torch.tensor([1.0, 2.0])
    extras["moment"] = torch.tensor([3.0], requires_grad=True)
    assert extras.data.tolist() == [1.0, 2.0, 3.0]
    assert not extras.data.requires_grad
    assert extras["moment"].data_ptr() == extras.data[2:].data_ptr()
    with pytest.raises(KeyError):
        extras["other"] = torch.zeros(1)


def of(learner: TorchLearner) -> np.ndarray:
    extras = learner.trainer.extras
    return np.concatenate([extras["control"].double().numpy(), extras["moment"].double().numpy()])


def peers(algorithm: type[Algorithm] = Tracking) -> list[TorchLearner]:
    return [build_learner(small_task(rank), algorithm, H, rank=rank, seed=0) for rank in range(SIZE)]


def weights() -> np.ndarray:
    w = np.eye(SIZE) * 0.5
    for i in range(SIZE):
        w[i, (i + 1) % SIZE] += 0.3
        w[i, i - 1] += 0.2
    return w


def test_they_start_at_zero_and_are_mixed_with_w_while_the_body_knows_nothing_of_them() -> None:
    ours, without, w = peers(), peers(BodyOnly), weights()
    expected = np.zeros((SIZE, 7))
    assert all((of(learner) == 0).all() for learner in ours)
    for number in range(3):
        gossip(ours, 1, start=number, weights=w)
        gossip(without, 1, start=number, weights=w)
        expected = w @ (expected + GIVEN[number])
        np.testing.assert_allclose([of(learner) for learner in ours], expected, rtol=0, atol=1e-6)
    for one, other in zip(ours, without, strict=True):
        assert one.figures.disagreement == pytest.approx(other.figures.disagreement, rel=1e-5), "of bodies alone"
        torch.testing.assert_close(one.body, other.body, rtol=0, atol=1e-6)


def test_peers_with_others_or_without_do_not_fit() -> None:
    class Fewer(Tracking):
        def extras(self, split: Split) -> Mapping[str, int]:
            return {"control": 4, "moment": 3}

    ours, without, fewer = (peers(algorithm)[0] for algorithm in (Tracking, BodyOnly, Fewer))
    assert ours.about.manifest["extras"] == {"control": 5, "moment": 2}
    assert ours.about.manifest["count"] == 7 + without.about.manifest["count"]
    assert "extras" not in without.about.manifest
    offsets = [[entry["offset"] for entry in one.about.manifest["parameters"]] for one in (ours, without)]
    assert offsets[0] == [offset + 7 for offset in offsets[1]]
    assert ours.about.manifest != fewer.about.manifest
    assert ours.about.digest != without.about.digest
