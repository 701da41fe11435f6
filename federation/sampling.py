"""Privacy at sample level of one rank: what its task and its settings make of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from dpeer.federation.sample_protection import check_groups, check_units, protect_steps, sampling_rate
from dpeer.federation.settings import Settings
from dpeer.privacy.soundness import check_records
from dpeer.training import Task
from dpeer.training.dpsgd_trainer import Sampling


def sampling_of(
    task: Task,
    settings: Settings,
    folder: Path,
    rounds: int,
    *,
    left: int,
    resume: bool,
    data: str | None,
    new_data: bool,
) -> Sampling:
    """How single records of a rank are protected.

    Args:
        task: The rank's.
        settings: As this rank uses them.
        folder: The rank's privacy folder.
        rounds: In how many rounds it takes part.
        left: In how many of them that are still to come.
        resume: Whether the run in the folder is continued.
        data: SHA-256 (hex) of the data; None where nobody knows.
        new_data: Whether they are others than those of earlier runs in the folder.

    Raises:
        TaskError: Groups are to be protected, and the task knows none.
        ConfigurationError: The peer has too few records for what is asked, or --records is missing.
    """
    groups = None
    if settings.privacy_unit == "group":
        told = task.groups
        check_groups(settings, told)
        groups = np.asarray(told)
    units = len(task.train) if groups is None else len(np.unique(groups))
    check_records(settings.records, units, settings.privacy_unit, own=task.division is None)
    check_units(settings, units)
    protect = partial(
        protect_steps, settings, units=units, folder=folder, rounds=rounds, left=left, resume=resume, data=data,
        new_data=new_data,
    )  # fmt: skip
    return Sampling(
        sampling_rate(settings, units), protect, settings.dp_head, settings.dp_sam, settings.microbatch, groups
    )
