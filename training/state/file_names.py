"""File names and keys of a learner's saved state, and a reader of its body that imports no torch.

This module imports no torch: the summary of a run reads bodies with numpy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from dpeer.exceptions import CheckpointError

TENSORS = "learner.safetensors"
"""In a learner's folder: the tensors of its states."""

REST = "learner.json"
"""In a learner's folder: everything else, as JSON."""

LAST = "last/"
"""Begins the names of the tensors after the last completed round."""

BEST = "best/"
"""Begins those of the best model so far."""


def saved_body(folder: Path) -> NDArray[Any] | None:
    """The body of a learner that saved itself in this folder, after its last completed round, and nothing else.

    Returns:
        Shape (body_parameters,), in the type in which it is trained; None where the learner shares nothing.

    Raises:
        CheckpointError: The file is missing or damaged.
    """
    try:
        with safe_open(folder / TENSORS, framework="np") as tensors:
            body: NDArray[Any] = tensors.get_tensor(f"{LAST}body")
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"the checkpoint in {folder} cannot be read: {error}") from error
    return body if np.size(body) else None
