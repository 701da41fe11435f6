"""Gradients of single examples: computing, clipping and noising them, and refusing what couples examples."""

from __future__ import annotations
