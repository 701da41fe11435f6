"""The setting `--lora`, parsed; imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpeer.training.setting_texts import shortest

FORM = "r=R[,alpha=A][,targets=NAME+NAME...], for example r=16,alpha=32 or r=8,targets=query+value"
"""The form of the setting, for messages."""


@dataclass(frozen=True)
class Lora:
    """Low-rank adapters (Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, ICLR 2022).

    A layer's weight W, shape (outputs, inputs), is frozen and becomes W + (alpha / r) B A, of which A, shape
    (r, inputs), and B, shape (outputs, r), are trained.

    Attributes:
        r: The rank, 1 or more.
        alpha: What B A is multiplied by, times r; above 0.
        targets: Names, or last parts of names in whole dotted components, of the layers that get an adapter; () for
            those that `dpeer.training.lora.adapting` chooses.
    """

    r: int
    alpha: float
    targets: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Lora:
        """Parse a text of the form `FORM`. Without alpha it is r, so that B A counts as it is.

        Raises:
            ValueError: It is nothing of that form.
        """
        stated: dict[str, str] = {}
        for entry in text.split(","):
            key, equals, value = (word.strip() for word in entry.partition("="))
            if not equals or key not in ("r", "alpha", "targets") or key in stated:
                raise ValueError(f"expected {FORM}")
            stated[key] = value
        names = tuple(name.strip() for name in stated["targets"].split("+")) if "targets" in stated else ()
        rank = stated.get("r", "")
        if not (rank.isascii() and rank.isdecimal() and int(rank) > 0) or not all(names):
            raise ValueError(f"expected {FORM}")
        try:
            alpha = float(stated.get("alpha", rank))
        except ValueError:
            alpha = 0.0
        if not 0 < alpha < math.inf:
            raise ValueError(f"expected {FORM}")
        return cls(int(rank), alpha, tuple(sorted(set(names))))

    def __str__(self) -> str:
        targets = f",targets={'+'.join(self.targets)}" if self.targets else ""
        return f"r={self.r},alpha={shortest(self.alpha)}{targets}"


def check_lora(text: str) -> str:
    """The one text that means what this one means, so that peers can compare texts.

    Raises:
        ValueError: It cannot be read.
    """
    return str(Lora.parse(text))
