"""The models that a site usually trains by itself: scikit-learn's, with the usual preparation of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

Rows = list[dict[str, str]]

TEXTS = ("complaint",)
"""Columns whose words are taken apart, as dpeer does."""
LEFT_OUT = ("patient", "admitted")
"""Columns that tell of nothing: whose row it is, and a day that was drawn at random."""


def logistic() -> LogisticRegression:
    """Logistic regression as it comes, but for more iterations."""
    return LogisticRegression(max_iter=5000)


def boosting() -> HistGradientBoostingClassifier:
    """Gradient boosting as it comes."""
    return HistGradientBoostingClassifier(random_state=0)


def fitted(model: Any, train: Rows, new: Rows, target: str, classes: Sequence[str]) -> np.ndarray:
    """Train a model on rows as they stand in a table, and ask it for probabilities: (new rows, classes)."""
    labels = [row[target] for row in train]
    if len({*labels}) == 1:
        return certain(labels[0], classes, len(new))
    columns = [name for name in train[0] if name != target and name not in LEFT_OUT]
    texts = [name for name in columns if name in TEXTS]
    numbers = [name for name in columns if name not in texts and _numeric(name, train)]
    words = [name for name in columns if name not in texts and name not in numbers]
    order = [*numbers, *words, *texts]
    gaps = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    parts: list[Any] = [("numbers", make_pipeline(gaps, StandardScaler()), slice(0, len(numbers)))]
    if words:
        parts.append(("words", OneHotEncoder(handle_unknown="ignore"), slice(len(numbers), len(numbers) + len(words))))
    parts += [(name, _hashed(), order.index(name)) for name in texts]
    prepare = ColumnTransformer(parts, sparse_threshold=0)
    pipeline = make_pipeline(prepare, model).fit(_cells(train, numbers, order), labels)
    found = np.zeros((len(new), len(classes)))
    found[:, [classes.index(name) for name in pipeline.classes_]] = pipeline.predict_proba(_cells(new, numbers, order))
    return found


def certain(name: str, classes: Sequence[str], count: int) -> np.ndarray:
    """The probabilities of an answer that is always the same."""
    return np.tile(np.array([float(other == name) for other in classes]), (count, 1))


def _hashed() -> HashingVectorizer:
    return HashingVectorizer(analyzer="char_wb", ngram_range=(2, 4), n_features=64)


def _cells(rows: Rows, numbers: Sequence[str], order: Sequence[str]) -> np.ndarray:
    """A table of numbers, nan for a gap, and of words."""
    table = np.empty((len(rows), len(order)), dtype=object)
    for place, row in enumerate(rows):
        table[place] = [_number(row[name]) if name in numbers else row[name] for name in order]
    return table


def _number(cell: str) -> float:
    """Its value; nan for a gap."""
    try:
        value = float(cell)
    except ValueError:
        return float("nan")
    return float("nan") if value == -1 else value


def _numeric(name: str, rows: Rows) -> bool:
    """Whether a column has numbers of more than two kinds."""
    values = [_number(row[name]) for row in rows]
    return len({value for value in values if value == value}) > 2
