"""Error messages of dpeer from Python: of settings and of dpeer.run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dpeer
from dpeer.exceptions import ConfigurationError, OutputError, UnknownName
from dpeer.federation.settings import InvalidSettings
from tests.messages.message import Message


def settings(**values: Any) -> Callable[[Path], object]:
    return lambda _: dpeer.Settings(**values)


def assigned(name: str, value: object) -> Callable[[Path], object]:
    """A run of settings of which one was assigned."""

    def cause(folder: Path) -> object:
        made = dpeer.Settings(size=3, out=folder / "run")
        setattr(made, name, value)
        return dpeer.run(made)

    return cause


def run(*given: Any, **more: Any) -> Callable[[Path], object]:
    return lambda _: dpeer.run(*given, **more)


OWN = dpeer.Settings(task=lambda rank, size, seed: None)

MESSAGES = {
    name: Message(cause, error, text)
    for name, (cause, error, text) in {
        "too small a value": (
            settings(size=1), InvalidSettings, "size = 1: input should be greater than or equal to 2"
        ),
        "an unknown key of a rank": (
            settings(rank={1: {"bath_size": 3}}), InvalidSettings,
            "unknown key 'bath_size' in [rank.1]: did you mean 'batch_size'? valid: …",
        ),
        "an unknown graph": (run(dpeer.Settings(topology="rnig")), UnknownName, "unknown topology 'rnig': …"),
        "an unknown mode": (run(mode="fast"), ConfigurationError, "mode = 'fast': choose 'simulate' or 'cluster'"),
        "no settings": (run(5), ConfigurationError, "settings = 5: expected dpeer.Settings(...)"),
        "a flag that is a text": (run(overwrite="no"), ConfigurationError, "overwrite = 'no': expected True or False"),
        "a flag that is a number": (run(resume=1), ConfigurationError, "resume = 1: expected True or False"),
        "a listener that is no function": (
            run(on_record=5), ConfigurationError,
            "on_record = 5: expected a function that takes a peer's line, or None",
        ),
        "a task that no other process can import": (
            run(OWN, mode="cluster"), ConfigurationError,
            "task '<lambda>' cannot be imported by the peers' processes: define it at the top of a file, or use "
            "mode='simulate'",
        ),
        "a folder without a run": (
            lambda _: dpeer.open_run("nowhere"), ConfigurationError,
            "'nowhere' holds no run: name the --out of a run, or `Settings.out`",
        ),
        "no folder": (lambda _: dpeer.open_run(None), ConfigurationError, "folder = None: expected a path"),
        "a page without a path": (
            lambda _: dpeer.Run(Path()).report("a\0b"), ConfigurationError, "path = 'a\\x00b': expected a path"
        ),
        "metrics of no peer": (
            lambda _: dpeer.Run(Path("run")).metrics(7), ConfigurationError, "rank 7: 'run' holds no peer of that rank"
        ),
        "the model of no peer": (
            lambda _: dpeer.Run(Path("run")).model(7), ConfigurationError,
            "rank 7: 'run/rank-7/model.safetensors' is missing; it is written when the peer ends or is stopped",
        ),
        "no such name": (
            lambda _: dpeer.nothing, AttributeError,
            "module 'dpeer' has no attribute 'nothing'",
        ),
        "an assigned text for a number": (
            assigned("rounds", "5"), InvalidSettings, "rounds = '5': input should be a valid integer"
        ),
        "an assigned number that is none": (
            assigned("body_lr", float("nan")), InvalidSettings, "body_lr = nan: input should be a finite number"
        ),
        "an assigned number for a text": (
            assigned("topology", 5), InvalidSettings, "topology = 5: input should be a valid string"
        ),
        "an assigned value that is no choice": (
            assigned("keep", "x"), InvalidSettings, "keep = 'x': input should be 'auto', 'best' or 'last'"
        ),
        "an assigned rank that does not exist": (
            assigned("rank", {7: {"batch_size": 3}}), ConfigurationError,
            "rank.7: ranks of a federation of size 3 are 0..2",
        ),
        "an assigned option of a type of its own": (
            assigned("task_options", {"shift": np.float32(1)}), ConfigurationError,
            "task_options.shift = np.float32(1.0): expected a number, a text, True, False, None, or a list or dict "
            "of these",
        ),
        "an assigned folder with a null byte": (
            assigned("out", "a\0b"), OutputError, "--out 'a\\x00b' cannot be written: embedded null byte"
        ),
    }.items()
}  # fmt: skip
