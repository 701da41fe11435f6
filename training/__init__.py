"""Tasks, algorithms and the learner that trains one peer's model."""

from __future__ import annotations

from dpeer.training.algorithms import ALGORITHMS, Algorithm, find_algorithm
from dpeer.training.counts import class_counts
from dpeer.training.evaluation import Evaluation
from dpeer.training.hyperparameters import Hyperparameters
from dpeer.training.learner import Learner
from dpeer.training.loading import load_task
from dpeer.training.models import MODELS, build_model
from dpeer.training.partitions import partition, partition_pools
from dpeer.training.task import Task
from dpeer.training.tasks import BUILTIN_TASKS, BuiltinTask, Choices
from dpeer.training.tasks.reading import forget

__all__ = [
    "ALGORITHMS",
    "BUILTIN_TASKS",
    "MODELS",
    "Algorithm",
    "BuiltinTask",
    "Choices",
    "Evaluation",
    "Hyperparameters",
    "Learner",
    "Task",
    "build_model",
    "class_counts",
    "find_algorithm",
    "forget",
    "load_task",
    "partition",
    "partition_pools",
]
