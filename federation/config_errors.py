"""Pydantic's validation error as one line: the key, the value and what would be right."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dpeer.exceptions import ConfigurationError, UnknownName
from dpeer.federation.removed_names import KEYS, VALUES
from dpeer.training.lora import FORM

_EXPECTED = {
    "device": "auto, cpu, cuda or cuda:N",
    "robust": "none, clip, clip:TAU, trimmed-mean:F or median, for example trimmed-mean:1",
    "lora": FORM,
    "lr_schedule": "exponential, step:N or cosine, perhaps with +warmup:N, for example step:10",
    "deadline": "a number of seconds, auto or never",
    "quorum": "majority, any, or a number of ranks, more than half of all",
    "log_to": "tensorboard, mlflow or wandb, or a list of them",
    "serve": "PORT or HOST:PORT, for example 7780 or 10.0.0.3:7780",
    "weight": "a number above 0: rows, patients or votes, such as 400",
    "key": "64 hexadecimal digits in quotes, as `dpeer keygen` prints them, or a list of two such keys",
}
"""Settings whose pattern says less than an example."""

_NO_KEYS = ("[key]", "str", "list[str]", "int", "constrained-int", "float", "constrained-float")
"""What pydantic puts into a mistake's place beside keys: the key itself is wrong, or none of a key's types fits."""


class InvalidSettings(ConfigurationError):  # noqa: N818 - reads as what happened
    """Settings that pydantic has refused.

    Args:
        error: Pydantic's error.
        known: All settings.
        of_rank: The settings that a rank may have of its own.
    """

    def __init__(self, error: ValidationError, known: Collection[str], of_rank: Collection[str]) -> None:
        self._first = error.errors()[0]
        self._known, self._of_rank = known, of_rank
        super().__init__(str(self.located({}, None)))

    def located(self, flags: Mapping[str, Any], path: Path | None) -> ConfigurationError:
        """The same error, with each mistake named as the user made it: as a flag, or in the file.

        Args:
            flags: The settings that were given as flags; all others are in the file.
            path: The federation file; None without one.
        """
        first = self._first
        parts = [str(part) for part in first["loc"]]
        location = [part for part in parts if part not in _NO_KEYS and not part.startswith("literal[")]
        key = ".".join(location)
        if first["type"] == "extra_forbidden":
            *table, name = location
            of_file = "" if path is None else f" of {path}"
            where = f"[{'.'.join(table)}]{of_file}" if table else of_file.removeprefix(" of ")
            if name in KEYS:
                return ConfigurationError(f"{name}{f' in {where}' if where else ''} has been removed: {KEYS[name]}")
            if name == "policy":
                why = "a site's own rules, which no federation file sets: give --policy FILE, or DPEER_POLICY=FILE"
                return ConfigurationError(f"policy{f' in {where}' if where else ''}: {why} (docs/security.md)")
            return UnknownName("key", name, self._of_rank if table else self._known, where)
        source = key if path is None else f"{key} in {path}"
        if location and location[0] in flags:
            source = f"--{key.replace('_', '-')}"
        if location and (advice := VALUES.get((location[-1], str(first["input"])))):
            return ConfigurationError(f"{source} = {first['input']!r} has been removed: {advice}")
        expected = _EXPECTED.get(location[-1]) if location else None
        if first["type"] == "value_error":  # of a check of dpeer's own
            wrong = str(first["ctx"]["error"])
        elif expected is not None:
            wrong = f"expected {expected}"
        else:
            wrong = first["msg"].lower()
        return ConfigurationError(f"{source} = {first['input']!r}: {wrong}")
