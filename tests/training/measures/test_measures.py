"""Every figure against an independent computation, and what happens where there is none."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, rankdata
from scipy.stats import bootstrap as scipy_bootstrap
from sklearn import metrics

from dpeer.training.measures import measure, plain
from dpeer.training.measures.classification import Classified
from dpeer.training.measures.intervals import UNDEFINED, bootstrap, wilson


def made(rows: int, classes: int, seed: int = 0, *, ties: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    truth = torch.randint(0, classes, (rows,), generator=generator)
    scores = torch.randn(rows, classes, generator=generator) + torch.eye(classes)[truth]
    return (scores.round() if ties else scores), truth


def auroc(yes: Any, scores: Any) -> float:
    """Mann and Whitney's, by ranks."""
    ranks, here = rankdata(scores), int(yes.sum())
    return float((ranks[yes].sum() - here * (here + 1) / 2) / (here * (len(yes) - here)))


def by_hand(p: Any, hit: Any) -> float:
    gap = 0.0
    for number in range(10):
        inside = (p > number / 10) & (p <= (number + 1) / 10)
        if inside.any():
            gap += inside.mean() * abs(p[inside].mean() - hit[inside].mean())
    return gap


@pytest.mark.parametrize(("classes", "ties"), [(2, False), (2, True), (5, False)])
def test_classes_as_scikit_learn_has_them(classes: int, ties: bool) -> None:
    scores, truth = made(200, classes, ties=ties)
    shares, guess, y = scores.double().softmax(1).numpy(), scores.argmax(1).numpy(), truth.numpy()
    names = ("no", "yes") if classes == 2 else ()
    found = measure(scores, truth, names)
    assert found["confusion"] == metrics.confusion_matrix(y, guess).tolist()
    expected = {
        "accuracy": metrics.accuracy_score(y, guess),
        "balanced_accuracy": metrics.balanced_accuracy_score(y, guess),
    }
    if classes == 2:
        assert found["positive"] == "yes"
        expected |= {
            "auroc": auroc(y == 1, shares[:, 1]),
            "f1": metrics.f1_score(y, guess),
            "brier": metrics.brier_score_loss(y, shares[:, 1]),
            "ece": by_hand(shares[:, 1], (y == 1).astype(float)),
            "sensitivity": metrics.recall_score(y, guess),
            "specificity": metrics.recall_score(y, guess, pos_label=0),
        }
    else:
        expected |= {
            "auroc": metrics.roc_auc_score(y, shares, multi_class="ovr"),
            "f1": metrics.f1_score(y, guess, average="macro"),
            "brier": ((shares - np.eye(5)[y]) ** 2).sum(axis=1).mean(),
            "ece": by_hand(shares.max(axis=1), (guess == y).astype(float)),
        }
    assert plain(found) == pytest.approx(expected)
    for number, one in enumerate(found["classes"]):
        assert (one["class"], one["rows"]) == ((names or "01234")[number], (y == number).sum())
        assert one["auroc"]["value"] == pytest.approx(auroc(y == number, shares[:, number]))
        assert one["f1"]["value"] == pytest.approx(metrics.f1_score(y == number, guess == number))
        assert one["sensitivity"]["value"] == pytest.approx(metrics.recall_score(y == number, guess == number))
        assert one["specificity"]["value"] == pytest.approx(metrics.recall_score(y != number, guess != number))


def test_a_class_that_the_rows_do_not_have_is_left_out_of_means() -> None:
    scores, truth = made(60, 4)
    scores, truth = scores[truth != 2], truth[truth != 2]
    shares, guess, y = scores.double().softmax(1).numpy(), scores.argmax(1).numpy(), truth.numpy()
    found = measure(scores, truth, ("a", "b", "c", "d"))
    assert found["values"]["auroc"]["value"] == pytest.approx(
        np.mean([auroc(y == number, shares[:, number]) for number in (0, 1, 3)])
    )
    assert found["values"]["f1"]["value"] == pytest.approx(
        metrics.f1_score(y, guess, labels=[0, 1, 3], average="macro")
    )
    assert found["classes"][2]["sensitivity"] == UNDEFINED


def test_values_as_scikit_learn_has_them() -> None:
    generator = torch.Generator().manual_seed(0)
    truth = 1e6 + torch.randn(80, 1, generator=generator)
    predicted = truth + torch.randn(80, 1, generator=generator)
    found = measure(predicted, truth, values=True)
    y, p = truth.double().numpy(), predicted.double().numpy()
    assert plain(found) == pytest.approx(
        {
            "mae": np.abs(y - p).mean(),
            "rmse": np.sqrt(((y - p) ** 2).mean()),
            "r2": 1 - ((y - p) ** 2).sum() / ((y - y.mean()) ** 2).sum(),
        },
        rel=1e-6,
    )
    assert found["kind"] == "regression"


@pytest.mark.parametrize("classes", [2, 4])
def test_a_resample_has_the_figures_that_scikit_learn_gives_for_its_rows(classes: int) -> None:
    scores, truth = made(50, classes, ties=True)
    shares, guess, y = scores.double().softmax(1).numpy(), scores.argmax(1).numpy(), truth.numpy()
    drawn = np.random.default_rng(1).integers(0, 50, (6, 50))
    weights = np.stack([np.bincount(rows, minlength=50) for rows in drawn]).astype(float)
    found = Classified(shares, guess, y).weighted(weights)
    for number, rows in enumerate(drawn):
        expected = plain(measure(scores[rows], truth[rows]))
        for name in ("auroc", "f1", "balanced_accuracy", "brier", "ece"):
            assert found[name][number] == pytest.approx(expected[name])


def test_shares_have_wilsons_interval() -> None:
    for hits, count in ((0, 5), (5, 5), (1, 7), (37, 40), (500, 1000)):
        found, other = wilson(hits, count), binomtest(hits, count).proportion_ci(0.95, "wilson")
        assert (found["low"], found["high"]) == pytest.approx((other.low, other.high))
        assert found["value"] == hits / count


def test_the_bootstrap_is_the_one_that_scipy_has() -> None:
    values = np.random.default_rng(0).normal(size=60)
    ours = bootstrap(lambda weights: {"mean": weights @ values / weights.sum(axis=1)}, 60)["mean"]
    theirs = scipy_bootstrap(
        (values,), np.mean, n_resamples=5000, method="percentile", random_state=1
    ).confidence_interval
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.03)


def test_rows_are_drawn_again_within_each_class() -> None:
    strata = np.array([0, 2, 0, 0, 2, 1])
    seen: list[Any] = []

    def note(weights: Any) -> dict[str, Any]:
        seen.append(weights)
        return {}

    bootstrap(note, 6, strata)
    weights = np.concatenate(seen)
    for one, count in ((0, 3), (1, 1), (2, 2)):
        assert (weights[:, strata == one].sum(axis=1) == count).all()
    assert len(np.unique(weights, axis=0)) == 10 * 3  # ways to draw three of three, and two of two


@pytest.mark.filterwarnings("error")
def test_five_rows_and_one_class_are_no_trouble() -> None:
    scores, _ = made(5, 2)
    for number in (0, 1):
        found = measure(scores, torch.full((5,), number), ("no", "yes"))
        values = found["values"]
        assert values["auroc"]["value"] is None
        assert values["accuracy"]["value"] == pytest.approx((scores.argmax(1) == number).float().mean())
        undefined = "sensitivity" if number == 0 else "specificity"
        assert values[undefined]["value"] is None
        json.dumps(found, allow_nan=False)
    assert measure(scores[:1], torch.tensor([1]))["rows"] == 1
    assert plain(measure(torch.ones(5, 1), torch.ones(5, 1), values=True)) == {"mae": 0.0, "rmse": 0.0, "r2": None}
    assert plain(measure(made(5, 3)[0], torch.zeros(5, dtype=torch.long)))["auroc"] is None


@pytest.mark.filterwarnings("error")
def test_outputs_that_are_not_finite_leave_figures_undefined() -> None:
    found = measure(torch.full((4, 2), torch.nan), torch.tensor([0, 1, 0, 1]))
    assert all(value == UNDEFINED for value in found["values"].values())
    found = measure(torch.full((4, 1), torch.inf), torch.ones(4, 1), values=True)
    assert plain(found) == {"mae": None, "rmse": None, "r2": None}


def test_perfect_figures_have_no_interval_that_looks_like_certainty() -> None:
    truth = torch.tensor([0, 1] * 20)
    found = measure(10 * torch.eye(2)[truth], truth)["values"]
    assert found["auroc"] == {"value": 1.0, "low": None, "high": None}
    assert found["accuracy"]["low"] == pytest.approx(0.9124, abs=1e-4)


@pytest.mark.parametrize(
    ("outputs", "targets"),
    [
        (torch.zeros(4, 3), torch.zeros(4)),
        (torch.zeros(4, 3), torch.zeros(5, dtype=torch.long)),
        (torch.zeros(4, 1), torch.zeros(4, dtype=torch.long)),
        (torch.zeros(4, 3, 2), torch.zeros(4, 2, dtype=torch.long)),
        (torch.zeros(4, 3), torch.full((4,), 3)),
        (torch.zeros(4, 3), torch.full((4,), -100)),
        ({"scores": torch.zeros(4, 3)}, torch.zeros(4, dtype=torch.long)),
        (torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)),
    ],
)
def test_what_is_no_classification_is_not_measured(outputs: Any, targets: Any) -> None:
    assert measure(outputs, targets) is None


def test_rows_that_cross_entropy_ignores_do_not_count() -> None:
    scores, truth = made(30, 3)
    cut = truth.clone()
    cut[:10] = -100
    assert measure(scores, cut) == measure(scores[10:], truth[10:])
