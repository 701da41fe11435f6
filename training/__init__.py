"""Tasks, algorithms and the learner that trains one peer's model; torch is imported when one of the names is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpeer.lazy import lazily

if TYPE_CHECKING:
    from dpeer.training.algorithms import (
        ALGORITHMS,
        Algorithm,
        find_algorithm,
        make_options,
        option,
        shared_options,
        source_hash,
    )
    from dpeer.training.building import build_learner
    from dpeer.training.codecs import Codec, Undecodable
    from dpeer.training.data.partitions import partition
    from dpeer.training.dpsgd.task_checks import replace_batch_norm
    from dpeer.training.evaluation import Evaluation
    from dpeer.training.flat import Tracker
    from dpeer.training.gradients import plain, proximal, sam
    from dpeer.training.learner import TorchLearner
    from dpeer.training.loading import load_task
    from dpeer.training.objective import class_counts
    from dpeer.training.optimizers import adamw, momentum, projected
    from dpeer.training.settings import Hyperparameters
    from dpeer.training.task import Task
    from dpeer.training.tasks import BUILTIN_TASKS, Choices
    from dpeer.training.tasks.builtin import forget
    from dpeer.training.trainer import Trainer

_NAMES = {
    "algorithms": "ALGORITHMS Algorithm find_algorithm make_options option shared_options source_hash",
    "building": "build_learner",
    "codecs": "Codec Undecodable",
    "data.partitions": "partition",
    "dpsgd.task_checks": "replace_batch_norm",
    "evaluation": "Evaluation",
    "flat": "Tracker",
    "gradients": "plain proximal sam",
    "learner": "TorchLearner",
    "loading": "load_task",
    "objective": "class_counts",
    "optimizers": "adamw momentum projected",
    "settings": "Hyperparameters",
    "task": "Task",
    "tasks": "BUILTIN_TASKS Choices",
    "tasks.builtin": "forget",
    "trainer": "Trainer",
}
"""What each module gives."""

__getattr__ = lazily(
    __name__, {name: f"dpeer.training.{module}" for module, names in _NAMES.items() for name in names.split()}
)

__all__ = [
    "ALGORITHMS",
    "BUILTIN_TASKS",
    "Algorithm",
    "Choices",
    "Codec",
    "Evaluation",
    "Hyperparameters",
    "Task",
    "TorchLearner",
    "Tracker",
    "Trainer",
    "Undecodable",
    "adamw",
    "build_learner",
    "class_counts",
    "find_algorithm",
    "forget",
    "load_task",
    "make_options",
    "momentum",
    "option",
    "partition",
    "plain",
    "projected",
    "proximal",
    "replace_batch_norm",
    "sam",
    "shared_options",
    "source_hash",
]
