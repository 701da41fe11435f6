"""Tasks, algorithms and the learner that trains one peer's model."""

from __future__ import annotations

from dpeer.training.algorithms import ALGORITHMS, Algorithm, find_algorithm
from dpeer.training.evaluation import Evaluation
from dpeer.training.hyperparameters import Hyperparameters
from dpeer.training.learner import Learner
from dpeer.training.loading import DEFAULT_PARTITION, load_task
from dpeer.training.partitions import partition, partition_pools
from dpeer.training.task import Task
from dpeer.training.tasks import BUILTIN_TASKS, BuiltinTask

__all__ = [
    "ALGORITHMS",
    "BUILTIN_TASKS",
    "DEFAULT_PARTITION",
    "Algorithm",
    "BuiltinTask",
    "Evaluation",
    "Hyperparameters",
    "Learner",
    "Task",
    "find_algorithm",
    "load_task",
    "partition",
    "partition_pools",
]
