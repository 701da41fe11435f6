"""The classes of the library transformers that built-in models are made of.

Importing it takes seconds: only who builds such a model does, and the process that peers are forked from. Models are
made of their configurations alone, so nothing is ever asked of a server; the variable makes sure of it.
"""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # it is read when the library is imported

from transformers import (
    BertConfig,
    BertForSequenceClassification,
    RobertaConfig,
    RobertaForSequenceClassification,
    SwinConfig,
    SwinModel,
    ViTConfig,
    ViTModel,
)

__all__ = [
    "BertConfig", "BertForSequenceClassification", "RobertaConfig",
    "RobertaForSequenceClassification", "SwinConfig", "SwinModel", "ViTConfig", "ViTModel",
]  # fmt: skip
