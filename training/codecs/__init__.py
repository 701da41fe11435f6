"""Codecs: how a body becomes a payload, and how payloads are mixed."""

from __future__ import annotations

from dpeer.training.codecs.base import Codec, Weigh
from dpeer.training.codecs.dense import Dense
from dpeer.training.codecs.masked import Masked
from dpeer.training.codecs.private import Private
from dpeer.training.codecs.quantized import Quantized

__all__ = ["Codec", "Dense", "Masked", "Private", "Quantized", "Weigh"]
