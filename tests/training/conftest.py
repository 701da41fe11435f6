"""Fixtures: one thread, no waiting for disks, a rough epsilon, recorded DP-SGD sums, a small WordPiece tokenizer."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dpeer.privacy import accounting
from dpeer.privacy.mechanism import ClippedSum

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "a", "good", "film", "bad", "##ly"]
"""The vocabulary of `tokenizer`."""


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def disks_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is on disk after a crash is tried in tests/privacy and tests/system."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(autouse=True)
def epsilon_is_rough(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its central limit, which takes no time: the exact one is tried in tests/privacy."""
    monkeypatch.setattr(accounting, "_pld", accounting._rough)


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """The sums in the order in which they would have been noised; a new list for each learner is up to the test."""
    found: list[np.ndarray] = []

    def released(self: ClippedSum, total: Any, threads: int = 1) -> Any:
        rng = np.random.default_rng(len(found))
        found.append(np.array(total))
        return 0.3 * rng.normal(size=total.size).astype(np.float32)

    monkeypatch.setattr(ClippedSum, "released", released)
    return found


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """One like BERT's, as its library writes it; it asks for cutting and padding, as published ones do."""
    pytest.importorskip("tokenizers")
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    made = Tokenizer(WordPiece({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    made.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    made.enable_truncation(3)
    made.enable_padding(length=3, pad_id=0, pad_token="[PAD]")
    path = tmp_path / "tokenizer.json"
    made.save(str(path))
    return path
