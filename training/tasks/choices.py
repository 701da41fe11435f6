"""The settings of a built-in task."""

from __future__ import annotations

from pydantic import ConfigDict

from dpeer.training.settings import DataSettings


class Choices(DataSettings):
    """How a built-in task's data are divided and what is trained on them; frozen.

    `DataSettings` says each value's type, default, limits and meaning. None stands for the task's own default.
    """

    model_config = ConfigDict(frozen=True)

    apart: bool = False
    """Whether one sample more in a peer's own data may change what is done with no other, as privacy for single records
    needs it; who is held out is then decided upon sample by sample, and their number is random."""

    only_if_enough: bool = False
    """Whether nothing is held out for validation where that would be too few samples, or far more than asked for."""

    @property
    def head_prefixes(self) -> tuple[str, ...] | None:
        """The name prefixes of the parameters that stay at home; None for the last linear layer."""
        return None if self.head is None else tuple(name for name in self.head.split(",") if name)
