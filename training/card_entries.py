"""Model card entries of a learner's task: classes, input shape, columns, sample counts and versions."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import torch

import dpeer
from dpeer.training.measures import Figures
from dpeer.training.task import Task


def class_names(task: Task) -> tuple[str, ...]:
    """The classes by number, where the task names them."""
    return tuple(task.names.get("classes", ())) or (task.reading.classes if task.reading else ())


def input_shape(task: Task) -> list[int] | None:
    """The shape of one input; None where an input is not one tensor."""
    if task.collate is not None:
        return None
    first = task.train[0][0]
    return list(first.shape) if isinstance(first, torch.Tensor) else None


def about(task: Task, shape: list[int] | None, measured_on: str, figures: Figures | None) -> dict[str, Any]:
    """The card's entries that follow from the task, as JSON values.

    Args:
        task: The task.
        shape: The shape of one input; None where that is not one tensor.
        measured_on: Which of the task's data the figures are of.
        figures: The figures of the model that predicts.
    """
    reading = task.reading
    return {
        "model": None if task.built is None else dict(task.built),
        "init_from": None if task.initial is None else task.initial.to_json(),
        "lora": task.lora,
        "input_shape": shape,
        "head": list(task.head),
        "target": None if reading is None else reading.target,
        "columns": list(reading.columns if reading else task.names.get("input columns", ())) or None,
        "classes": list(class_names(task)) or None,
        "preparation": None if reading is None else reading.to_json(),
        "samples": {
            name: 0 if (data := getattr(task, name)) is None else len(data) for name in ("train", "validation", "test")
        },
        "measured_on": measured_on,
        "metrics": figures,
        "versions": {
            "dpeer": dpeer.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
