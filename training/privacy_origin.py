"""Privacy origin in a saved model's metadata: whether its run trained on records without noise.

A model that was trained on records without noise tells about them. A later private run that begins from such a file
(``--init-from``) would not protect them, whatever it promises. So the file says it, in the metadata of the format
safetensors, where programs that load the tensors do not mind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

KEY = "dpeer_privacy"
"""Its key in a file's metadata."""


class Origin(StrEnum):
    """How a model whose records are not protected came about, the worst last."""

    NONE = "none"
    """By a run without privacy, or from a file of one."""
    CLIENT = "client"
    """By a run that protected messages, and its model at home not at all."""
    POST = "sample with dp-head post"
    """By a run that protected records in all that left the peer, and trained at home without noise at the end."""

    @classmethod
    def of_run(cls, *, client: bool, sample: bool, post: bool, first: Origin | None) -> Origin | None:
        """That of the model of a run; None where each record is protected in it.

        Args:
            client: Whether messages are protected.
            sample: Whether each record is protected in training.
            post: Whether with the latter something is trained without noise at the end.
            first: That of the first weights; what they tell of their records stays in the model.
        """
        own = cls.CLIENT if client else cls.NONE if not sample else cls.POST if post else None
        return max(filter(None, (own, first)), key=list(cls).index, default=None)

    @classmethod
    def of_file(cls, metadata: Mapping[str, str] | None) -> Origin | None:
        """The origin in a file's metadata; None without one. A word of a later version promises nothing."""
        value = (metadata or {}).get(KEY)
        if value is None:
            return None
        return cls(value) if value in list(cls) else cls.NONE
