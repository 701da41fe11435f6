"""Prepared inputs are bit for bit what scikit-learn makes of the same columns."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

from dpeer.training.data.tables.inputs import TableInputs
from dpeer.training.data.tables.prepare import fit, hashed, input_names
from dpeer.training.data.tables.schema import Schema

RANGES = ((-1.0, 1.0), (0.0, 120.0), (30.0, 43.5), (0.001, 0.003))
SCHEMA = Schema.model_validate(
    {
        "format": 1,
        "target": {"column": "y", "classes": ["a", "b"]},
        "columns": {
            **{f"n{place}": {"kind": "number", "range": ends} for place, ends in enumerate(RANGES)},
            "o": {"kind": "yes-no", "yes": ["yes"], "no": ["no"]},
            "p": {"kind": "category", "values": ["u", "v", "w"]},
        },
    }
)
WORDS = 4.0
"""Of the category, with what all others become."""


def drawn(seed: int, count: int, gaps: float, apart: float) -> Any:
    """Rows as they are kept: four numbers, yes or no, and a category; the third number is nearly constant."""
    draw = np.random.default_rng(seed)
    low, high = np.array(RANGES).T
    numbers = low + (high - low) * draw.random((count, 4))
    numbers[:, 2] = 37 + apart * draw.random(count)
    raw = np.column_stack([numbers, draw.choice([-1.0, 1.0], count), draw.integers(0, int(WORDS), count)])
    raw[draw.random(raw.shape) < gaps] = math.nan
    return raw


def by_scikit_learn(train: Any, raw: Any, *, own: bool) -> Any:
    median = SimpleImputer(strategy="median", keep_empty_features=True).fit(train[:, :4]).statistics_
    middle = np.mean(RANGES, axis=1)
    empty = np.isnan(train[:, :4]).all(axis=0)
    filling = SimpleImputer(strategy="median").fit(np.zeros((1, 4)))
    filling.statistics_ = np.where(empty, middle, median) if own else middle
    scaler = StandardScaler() if own else MinMaxScaler((-1, 1))
    scaler.fit(filling.transform(train[:, :4]) if own else np.array(RANGES).T)
    words = OneHotEncoder(categories=[[*np.arange(WORDS), math.nan]], sparse_output=False).fit([[0.0]])
    zero = SimpleImputer(strategy="constant", fill_value=0.0).fit([[0.0]])
    gaps = MissingIndicator(features="all").fit(raw[:, :5])
    blocks = [
        scaler.transform(filling.transform(raw[:, :4])),
        zero.transform(raw[:, 4:5]),
        gaps.transform(raw[:, :5]),
        words.transform(raw[:, 5:]),
    ]
    return np.hstack(blocks).astype(np.float32)


def test_an_input_is_called_by_its_column() -> None:
    singles = ("n0", "n1", "n2", "n3", "o")
    gaps, words = tuple(f"{name} is missing" for name in singles), tuple(f"p = {word}" for word in (*"uvw", "other"))
    assert input_names(SCHEMA) == (*singles, *gaps, *words, "p is missing")


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(
    ("count", "gaps", "apart"), [(1, 0.0, 1.0), (7, 0.3, 0.0), (40, 0.9, 1e-14), (2001, 0.1, 1.0), (2001, 1.0, 1.0)]
)
def test_inputs_have_the_bits_of_scikit_learn(count: int, gaps: float, apart: float, own: bool) -> None:
    for seed in range(5):
        train, raw = drawn(seed, count, gaps, apart), drawn(seed + 5, 50, gaps, apart)
        found = TableInputs(fit(SCHEMA, train, own=own))(torch.from_numpy(raw)).numpy()
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, by_scikit_learn(train, raw, own=own))


LETTERS = st.text(max_size=40) | st.sampled_from(["a", "ab", "abc  abcd", "\u00c4 \u00df\u0130 x", "\u2003y", ""])


@given(st.lists(LETTERS, max_size=6), st.sampled_from([8, 16, 64, 4096]))
@example(["pain in the chest", "chest pain", "", " \t", "\U0001f600 \u0301"], 64)
def test_words_are_hashed_as_by_scikit_learn(texts: Sequence[str], size: int) -> None:
    vectorizer = HashingVectorizer(n_features=size, analyzer="char_wb", ngram_range=(2, 4), norm="l2")
    expected = vectorizer.transform([*texts, "x"]).toarray()
    np.testing.assert_array_equal(hashed([*texts, "x"], size), expected)
