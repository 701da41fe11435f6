"""Low-rank adapters: what ``--lora`` is written as, which layers get one, and the model with them and without."""

from __future__ import annotations
