"""Transformers for text, made of the classes of the library transformers, with fresh weights.

Their parameters have the names under which pretrained weights are published.
"""

from __future__ import annotations

from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from dpeer.exceptions import TaskError

Count = Annotated[int, Field(ge=1)]
Number = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]

_A_HEAD = 64
"""Features of one attention head by default: as in BERT and RoBERTa."""


class Roberta(nn.Module):
    """RoBERTa (Liu et al., 2019), and a classifier (a layer, tanh, a linear layer) of the first token's features.

    RoBERTa-Base, `layers=12`, `width=768`, `positions=514` and a vocabulary of 50,265, has 124,647,170 parameters with
    two classes, of which 1,538 are the head's, ``classifier.out_proj``.

    Args:
        made: The library's model.
        padding: The number of the token that is none.
    """

    def __init__(self, made: Any, padding: int) -> None:
        super().__init__()
        self.roberta, self.classifier, self.padding = made.roberta, made.classifier, padding

    def forward(self, numbers: Tensor) -> Tensor:
        """Class scores, shape (batch, outputs), of token numbers, shape (batch, length), int64."""
        there = numbers.ne(self.padding)
        # Padding has a position of its own; the others count from behind it. For every example by itself, since the
        # gradients of single examples are taken from what goes into a layer.
        places = there.cumsum(1) * there + self.padding
        features = self.roberta(
            numbers, attention_mask=_seen(there), position_ids=places, token_type_ids=torch.zeros_like(numbers)
        )
        scores: Tensor = self.classifier(features.last_hidden_state)
        return scores


class Bert(nn.Module):
    """BERT (Devlin et al., 2019), and a linear classifier of its pooled first token.

    Args:
        made: The library's model.
        padding: The number of the token that is none.
        separator: The number of the token behind each text; what follows the first one is the second text. None
            without second texts.
    """

    def __init__(self, made: Any, padding: int, separator: int | None) -> None:
        super().__init__()
        self.bert, self.classifier, self.padding, self.separator = made.bert, made.classifier, padding, separator

    def forward(self, numbers: Tensor) -> Tensor:
        """Class scores, shape (batch, outputs), of token numbers, shape (batch, length), int64."""
        there = numbers.ne(self.padding)
        second = torch.zeros_like(numbers)
        if self.separator is not None:
            ends = numbers.eq(self.separator).long()
            second = ((ends.cumsum(1) - ends > 0) & there).long()
        features = self.bert(numbers, attention_mask=_seen(there), position_ids=_places(numbers), token_type_ids=second)
        scores: Tensor = self.classifier(features.pooler_output)
        return scores


def roberta(
    shape: tuple[int, ...], outputs: int, *, vocabulary: Count = 259, padding: Number = 1, layers: Count = 12,
    width: Count = 768, heads: Count | None = None, hidden: Count | None = None, positions: Count | None = None,
    dropout: Share = 0.0,
) -> Roberta:  # fmt: skip
    """See `Roberta`.

    Args:
        shape: (length,), the tokens of an example.
        outputs: The classes.
        vocabulary: The number of tokens; follows from the task.
        padding: The number of the token that is none; follows from the task.
        layers: Blocks of attention.
        width: Features of a token.
        heads: Of attention; None for one for each 64 features.
        hidden: Features between the two linear layers of a block; None for four times the width.
        positions: Rows of the table of positions, `padding` + 1 more than the longest text has; None for as many as
            are needed. Of pretrained weights 514.
        dropout: The share that is left out, also of attention.

    Raises:
        TaskError: Heads, width or positions do not fit.
    """
    from dpeer.training.models.library import RobertaConfig, RobertaForSequenceClassification

    config = RobertaConfig(
        vocab_size=vocabulary,
        pad_token_id=padding,
        max_position_embeddings=_rows(positions, shape[0] + padding + 1),
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        **_encoder(layers, width, heads, hidden, dropout, outputs),
    )
    return Roberta(RobertaForSequenceClassification(config), padding)


def bert(
    shape: tuple[int, ...], outputs: int, *, vocabulary: Count = 259, padding: Number = 1,
    separator: Number | None = None, layers: Count = 12, width: Count = 768, heads: Count | None = None,
    hidden: Count | None = None, positions: Count | None = None, dropout: Share = 0.0,
) -> Bert:  # fmt: skip
    """See `Bert`; arguments as for `roberta`, and the number of the token behind each text, `separator`.

    Of pretrained weights `positions` is 512.

    Raises:
        TaskError: Heads, width or positions do not fit.
    """
    from dpeer.training.models.library import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=vocabulary,
        pad_token_id=padding,
        max_position_embeddings=_rows(positions, shape[0]),
        **_encoder(layers, width, heads, hidden, dropout, outputs),
    )
    return Bert(BertForSequenceClassification(config), padding, separator)


def _encoder(
    layers: int, width: int, heads: int | None, hidden: int | None, dropout: float, outputs: int
) -> dict[str, Any]:
    """What BERT's and RoBERTa's configurations have in common."""
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": _heads(width, heads),
        "intermediate_size": 4 * width if hidden is None else hidden,
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout,
        "num_labels": outputs,
    }


def _heads(width: int, heads: int | None) -> int:
    found = max(1, width // _A_HEAD) if heads is None else heads
    if width % found:
        raise TaskError(f"--model-option heads={found} width={width}: the width must be a multiple of the heads")
    return found


def _rows(positions: int | None, needed: int) -> int:
    if positions is not None and positions < needed:
        raise TaskError(f"--model-option positions={positions}: texts of this length need {needed}, or leave it out")
    return positions or needed


def _seen(there: Tensor) -> Tensor:
    """What is added to attention's scores: very little where a token is none; shape (batch, 1, length, length).

    Made here, because the library leaves it out of batches in which no text is padded, and so looks at other examples.
    """
    length = there.shape[1]
    added = torch.where(there, 0.0, torch.finfo(torch.float32).min)
    return added[:, None, None, :].expand(-1, 1, length, -1)


def _places(numbers: Tensor) -> Tensor:
    """The place of each token, shape (batch, length): for every example by itself, as in `Roberta.forward`."""
    return torch.arange(numbers.shape[1], device=numbers.device).expand(numbers.shape[0], -1)
