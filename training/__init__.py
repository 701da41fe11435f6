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

_PLACES = {
    "ALGORITHMS": "dpeer.training.algorithms",
    "Algorithm": "dpeer.training.algorithms",
    "find_algorithm": "dpeer.training.algorithms",
    "adamw": "dpeer.training.optimizers",
    "make_options": "dpeer.training.algorithms",
    "option": "dpeer.training.algorithms",
    "shared_options": "dpeer.training.algorithms",
    "source_hash": "dpeer.training.algorithms",
    "momentum": "dpeer.training.optimizers",
    "plain": "dpeer.training.gradients",
    "projected": "dpeer.training.optimizers",
    "proximal": "dpeer.training.gradients",
    "sam": "dpeer.training.gradients",
    "Tracker": "dpeer.training.flat",
    "Trainer": "dpeer.training.trainer",
    "Codec": "dpeer.training.codecs",
    "Undecodable": "dpeer.training.codecs",
    "build_learner": "dpeer.training.building",
    "class_counts": "dpeer.training.objective",
    "replace_batch_norm": "dpeer.training.dpsgd.task_checks",
    "Evaluation": "dpeer.training.evaluation",
    "Hyperparameters": "dpeer.training.settings",
    "TorchLearner": "dpeer.training.learner",
    "load_task": "dpeer.training.loading",
    "partition": "dpeer.training.data.partitions",
    "Task": "dpeer.training.task",
    "BUILTIN_TASKS": "dpeer.training.tasks",
    "Choices": "dpeer.training.tasks",
    "forget": "dpeer.training.tasks.builtin",
}

__getattr__ = lazily(__name__, _PLACES)

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
