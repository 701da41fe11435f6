"""Figures of a model that predicts every next token."""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor
from torch.nn.functional import cross_entropy


def figures_of_windows(outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """What is kept of a batch's outputs: all scores of all windows of a test set would not fit into memory.

    Args:
        outputs: Scores, shape (windows, vocabulary, length).
        targets: Token numbers, shape (windows, length).

    Returns:
        ``{"accuracy": ..., "test_loss": ...}``, the mean over each window's tokens, shape (windows,), float64.
    """
    right = outputs.argmax(dim=1) == targets
    return {
        "accuracy": right.double().mean(dim=1),
        "test_loss": cross_entropy(outputs.float(), targets, reduction="none").double().mean(dim=1),
    }


def next_token_metrics(figures: Mapping[str, Tensor], targets: Tensor) -> dict[str, float]:
    """Share of the tokens that are predicted rightly, bits per token, and perplexity.

    Args:
        figures: What `figures_of_windows` gave of all windows, which have equally many tokens.
        targets: Not needed.

    Returns:
        ``{"accuracy": ..., "bits_per_token": ..., "perplexity": ...}``.
    """
    loss = figures["test_loss"].mean().item()
    return {
        "accuracy": figures["accuracy"].mean().item(),
        "bits_per_token": loss / math.log(2),
        "perplexity": math.exp(loss) if loss < 700 else math.inf,
    }
