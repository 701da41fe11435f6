"""Accuracy on a peer's own training data: what it is of, and that it changes nothing else."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dpeer.results.records import RoundRecord, gap
from dpeer.training import Hyperparameters, TorchLearner, build_learner
from dpeer.training.evaluation import Evaluation
from tests.training.dp_learners import sampled
from tests.training.small import gossip, small_task


def right(ours: TorchLearner, data: Any) -> float:
    """The share of rows that the model, as it is, predicts rightly."""
    inputs, labels = data.tensors
    ours.trainer.module.eval()
    with torch.no_grad():
        return float((ours.trainer.module(inputs).argmax(dim=1) == labels).double().mean())


def test_it_is_of_the_model_and_the_rows_that_it_was_trained_on() -> None:
    ours = build_learner(small_task(), "dfedmdc", rank=0, seed=0, training_accuracy=True)
    for number in range(2):
        ours.train(number)
        before = ours.evaluate()
        assert before.training_accuracy == right(ours, ours.trainer.task.train)
        assert before.accuracy == right(ours, ours.trainer.task.test)
        sent = ours.release(number)
        assert sent is not None
        other = np.frombuffer(sent[0], "<f4") * 0.5
        ours.mix({1: [other.tobytes()]}, {0: 0.5, 1: 0.5})
        after = ours.evaluate()
        assert after.training_accuracy == right(ours, ours.trainer.task.train)


def test_what_predicts_is_measured_where_another_model_trains_on() -> None:
    h = Hyperparameters(finish="all:1")
    ours = build_learner(small_task(), "ditto", h, rank=0, seed=0, training_accuracy=True)
    ours.train(0)
    found = ours.fine_tune(0)
    assert found is not None
    with ours.keeping.predicting():
        assert found.training_accuracy == right(ours, ours.trainer.task.train)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_measuring_changes_no_bit_of_a_model(dropout: float) -> None:
    found = []
    for measured in (False, True):
        peers = [
            build_learner(small_task(rank, dropout=dropout), "dfedsmdc", rank=rank, seed=0, training_accuracy=measured)
            for rank in range(3)
        ]
        gossip(peers, 2, evaluate=True)
        found.append([ours.trainer.model.data.clone() for ours in peers])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_what_private_peers_send_does_not_follow_from_it(tmp_path: Path, sums: list[Any]) -> None:
    """With the sums replaced by numbers, it is measured on other data, and what is sent has the same bytes."""
    sent = []
    for rank in range(2):
        sums.clear()
        ours = sampled(small_task(rank), tmp_path / str(rank), "fedper", training_accuracy=True)
        ours.train(0)
        assert ours.evaluate().training_accuracy is not None
        ours.mix({}, {0: 1.0})
        ours.evaluate()
        ours.train(1)
        sent.append(bytes((ours.release(1) or [])[0]))
    assert sent[0] == sent[1]


def test_a_line_has_the_gap_of_the_mixed_model() -> None:
    after, trained = Evaluation(0.7, 0.1, {}, 0.9), Evaluation(0.6, 0.1, {}, 1.0)
    fields: dict[str, Any] = {
        "round": 0, "train_loss": 0.1, "bytes_sent": 0, "bytes_received": 0, "heard": [], "missed": [],
        "train_seconds": 0.0, "exchange_seconds": 0.0, "mix_seconds": 0.0, "samples": 1,
    }  # fmt: skip
    line = RoundRecord.evaluated(after, trained, **fields).as_dict()
    assert (line["training_accuracy"], line["training_accuracy_trained"]) == (0.9, 1.0)
    assert line["generalization_gap"] == pytest.approx(0.2)
    without = RoundRecord.evaluated(None, None, **fields).as_dict()
    assert without["training_accuracy"] is without["generalization_gap"] is None
    assert gap(None, 0.5) is gap(0.5, None) is None
