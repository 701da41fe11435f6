"""Trackers of experiments: the registry of those that `--log-to` names, and the interface of each; a file for one."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from dpeer.exceptions import UnknownName
from dpeer.optional_libraries import check_libraries

TRACKERS = {
    "tensorboard": "dpeer.federation.trackers.tensorboard:TensorBoard",
    "mlflow": "dpeer.federation.trackers.mlflow:MLflow",
    "wandb": "dpeer.federation.trackers.wandb:WeightsAndBiases",
}
"""By name, module and class; a module imports its library when a tracker of it is opened."""

PROJECT = "dpeer"
"""The project, or experiment, in which a tracker lists runs, where its own settings name none."""


@dataclass(frozen=True)
class TrackedRun:
    """What a tracker is given of a peer's run.

    Attributes:
        name: The run folder and the rank, as people tell runs apart.
        group: The run folder: what runs of one federation have in common.
        folder: The rank's folder.
        settings: Settings to show beside the figures: plain values.
        start: The first round of this process.
        known: What an earlier process of the run has kept of this tracker's run; None where it is a new one.
        keep: Keeps that for a later process.
    """

    name: str
    group: str
    folder: Path
    settings: Mapping[str, Any]
    start: int
    known: str | None
    keep: Callable[[str], None]


class Tracker(ABC):
    """One tracker's run; every call may block or raise, on a thread of its own.

    Attributes:
        extra: The extra of dpeer that installs its library.
        libraries: The library's name, by the module that is imported.
        stays_home: Whether what it is given stays in the peer's own folder.
    """

    extra: ClassVar[str]
    libraries: ClassVar[Mapping[str, str]]
    stays_home: ClassVar[bool] = False

    @classmethod
    def check(cls) -> None:
        """Refuse what would certainly fail, before the run begins; nothing is connected.

        Raises:
            ConfigurationError: The library, or a setting of it, is missing.
        """
        check_libraries(f"--log-to {cls.extra}", cls.extra, **cls.libraries)

    @abstractmethod
    def __init__(self, run: TrackedRun) -> None:
        """Begin, or go on with, a run."""

    @abstractmethod
    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Show the figures of a round."""

    @abstractmethod
    def close(self) -> None:
        """End the run."""


def find(name: str) -> type[Tracker]:
    """The tracker of this name.

    Raises:
        UnknownName: None is called so.
    """
    if name not in TRACKERS:
        raise UnknownName("tracker", name, TRACKERS)
    module, _, attribute = TRACKERS[name].partition(":")
    found: type[Tracker] = getattr(importlib.import_module(module), attribute)
    return found


def check(names: Sequence[str]) -> None:
    """Refuse trackers that cannot be used, before anything is written.

    Raises:
        ConfigurationError: One is unknown, its library is not installed, or a setting of it is missing.
    """
    for name in names:
        find(name).check()
