"""Context that restores torch's default dtype, device and gradient mode after calls of a task's functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def defaults_kept() -> Iterator[None]:
    """Whatever is set within it, afterwards torch's default type and device are as they were, and so are gradients.

    What a file sets when it is imported, which happens once in a process, is there before.
    """
    kind, device, gradients = torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled()
    try:
        yield
    finally:
        torch.set_default_dtype(kind)
        if torch.get_default_device() != device:
            torch.set_default_device(None if device.type == "cpu" else device)
        torch.set_grad_enabled(gradients)
