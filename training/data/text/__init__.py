"""Tokenizers, and data sets of text."""

from __future__ import annotations

from dpeer.training.data.text.tokens import BYTES, Tokens, read_tokens

__all__ = ["BYTES", "Tokens", "read_tokens"]
