"""The contract of built-in tasks: what every one of them keeps, whatever its data."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from dpeer.exceptions import DpeerError
from dpeer.training import BUILTIN_TASKS, Choices, Task, build_learner, load_task
from tests.training.dataset_files import RANKS as SIZE
from tests.training.dataset_files import WRITERS
from tests.training.small import gossip

Options = dict[str, Any]


def test_every_task_is_here() -> None:
    assert WRITERS.keys() == BUILTIN_TASKS.keys()


@pytest.fixture(params=BUILTIN_TASKS, scope="module")
def known(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Options]:
    """A task's name and the options under which it finds its data."""
    return request.param, WRITERS[request.param](tmp_path_factory.mktemp(request.param)).options


def loaded(known: tuple[str, Options], rank: int, **choices: Any) -> Task:
    return load_task(known[0], rank, SIZE, 3, known[1], Choices(**choices))


def tensors(task: Task) -> dict[str, list[torch.Tensor]]:
    parts = {"train": task.train, "validation": task.validation, "test": task.test}
    return {
        "weights": list(task.model.state_dict().values()),
        **{name: list(part.tensors) for name, part in parts.items() if isinstance(part, TensorDataset)},
    }


def test_the_same_arguments_make_the_same_task_to_the_bit(known: tuple[str, Options]) -> None:
    one, other = (tensors(loaded(known, 1, validation=0.25)) for _ in range(2))
    assert one.keys() == other.keys() == {"weights", "train", "validation", "test"}
    for name, values in one.items():
        assert all(torch.equal(a, b) for a, b in zip(values, other[name], strict=True)), name


def test_peers_begin_with_one_model_and_have_samples_of_their_own(known: tuple[str, Options]) -> None:
    tasks = [loaded(known, rank, validation=0.25) for rank in range(SIZE)]
    first, second = (dict(task.model.named_parameters()) for task in tasks)
    assert first.keys() == second.keys()
    assert all(torch.equal(value, second[name]) for name, value in first.items()), "one initialisation"
    held: list[set[int]] = []
    for task in tasks:
        parts = {name: {*index.tolist()} for name, index in task.indices.items()}
        assert all(parts.values()), "no part is empty"
        assert len(task.train) == len(parts["train"])
        assert not parts["train"] & parts["validation"]
        held.append(parts["train"] | parts["validation"])
    if BUILTIN_TASKS[known[0]].partition != "own":
        assert not held[0] & held[1]
        assert tasks[0].division == tasks[1].division is not None


def test_the_model_learns_from_the_data_and_has_a_head(known: tuple[str, Options]) -> None:
    task = loaded(known, 0)
    inputs, targets = (part[:8] for part in task.train.tensors)
    outputs = task.model(inputs)
    loss = (task.loss or torch.nn.functional.cross_entropy)(outputs, targets)
    loss.backward()
    assert torch.isfinite(loss)
    names = [name for name, value in task.model.named_parameters() if value.grad is not None]
    head = [name for name in names if name.startswith(tuple(task.head))]
    assert head
    assert len(head) < len(names), "a body is left to share"


def test_a_validation_share_is_taken_from_training_alone(known: tuple[str, Options]) -> None:
    whole, part = loaded(known, 0), loaded(known, 0, validation=0.25)
    assert whole.validation is None
    assert part.validation is not None
    assert len(part.train) + len(part.validation) == len(whole.train)
    assert all(torch.equal(a, b) for a, b in zip(whole.test.tensors, part.test.tensors, strict=True))


def test_mistakes_are_one_line_that_names_the_option(known: tuple[str, Options], tmp_path: Path) -> None:
    name, options = known
    with pytest.raises(DpeerError) as refused:
        load_task(name, 0, SIZE, 3, options | {"colour": "red"}, Choices())
    assert "colour" in str(refused.value)
    assert "\n" not in str(refused.value)
    place = next((key for key in ("data", "path") if key in options), None)
    if place is not None:
        for wrong in (str(tmp_path / "nowhere"), None):
            with pytest.raises(DpeerError) as refused:
                load_task(name, 0, SIZE, 3, options | {place: wrong}, Choices())
            assert (place if wrong is None else "nowhere") in str(refused.value)
            assert "\n" not in str(refused.value)


# The digits: their pools, and the gain of collaboration.


@pytest.mark.slow
@pytest.mark.long
def test_collaboration_beats_training_alone() -> None:
    accuracy = {}
    for algorithm in ("local", "dfedmdc", "dfedsmdc"):
        learners = [build_learner(load_task("digits", rank, 8, 0), algorithm, rank=rank, seed=0) for rank in range(8)]
        gossip(learners, 8)
        accuracy[algorithm] = np.mean([learner.evaluate().accuracy for learner in learners])
    assert accuracy["dfedmdc"] >= 0.955, accuracy
    assert accuracy["dfedsmdc"] >= 0.955, accuracy
    assert min(accuracy["dfedmdc"], accuracy["dfedsmdc"]) > accuracy["local"], accuracy
