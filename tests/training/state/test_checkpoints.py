"""Checkpoints of another run, and damaged ones."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file

from dpeer.exceptions import CheckpointError, ConfigurationError
from dpeer.privacy import ClientSession, Guarantee, Ledger
from dpeer.training import Hyperparameters, build_learner
from dpeer.training.models.scaling import standardize
from dpeer.training.state.file_names import saved_body
from tests.error_texts import refused
from tests.training.dp_learners import sampled
from tests.training.small import small_task


def learner(folder: Path, algorithm: str = "dfedmdc", **settings: Any) -> Any:
    """A learner of these settings, and what a task and a session have of it."""
    task = small_task(**{name: settings.pop(name) for name in ("head",) if name in settings})
    if settings.pop("scaled", False):
        standardize(task.model, task.train.tensors[0])
    private = settings.pop("private", False)
    session = ClientSession(Guarantee(1.0, 1.0, 1e-5), Ledger(folder / "l", {}, resume=False)) if private else None
    return build_learner(task, algorithm, Hyperparameters(**settings), rank=0, seed=0, session=session)


def saved(folder: Path, **settings: Any) -> Path:
    """The checkpoint of a learner of these settings after its first round."""
    folder.mkdir()
    one = learner(folder, **settings)
    one.train(0)
    one.release(0)
    if "finish" in settings:
        one.fine_tune(0)
    one.save(folder)
    return folder


LAST: dict[str, Any] = {"algorithm": "dfedavgm", "rounds": 1, "finish": "all:1"}


@pytest.mark.parametrize(
    ("first", "then", "fragment"),
    [
        ({}, {"head": ()}, "of another run: its body is one of 56 parameters in 2 tensors, this run's is one of 83"),
        ({"scaled": True}, {}, "it alone has the buffer 'input_mean'"),
        ({}, {"scaled": True}, "this one alone has the buffer 'input_mean'"),
        (LAST, LAST | {"finish": "none"}, 'its finish is "all:1", this run'),
    ],
)
def test_a_run_does_not_go_on_with_that_of_other_settings(
    first: dict[str, Any], then: dict[str, Any], fragment: str, tmp_path: Path
) -> None:
    folder = saved(tmp_path / "saved", **first)
    with refused(CheckpointError, "the checkpoint ", fragment):
        learner(tmp_path / "other", **then).load(folder)


def cut(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-9])


def rewritten(**changes: Any) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        path = folder / "learner.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


@pytest.mark.parametrize(
    ("damage", "fragment"),
    [
        (cut("learner.safetensors"), "cannot be read: SafetensorError"),
        (cut("learner.json"), "cannot be read: JSONDecodeError"),
        (lambda folder: (folder / "learner.json").unlink(), "cannot be read: FileNotFoundError"),
        (rewritten(round=None), "is damaged: TypeError("),
        (lambda folder: save_file({}, folder / "learner.safetensors"), "is damaged: KeyError('body')"),
        (rewritten(best_point="later"), "is damaged: ValueError(\"best_point is 'later'\")"),
    ],
)
def test_a_damaged_checkpoint_is_named(damage: Callable[[Path], object], fragment: str, tmp_path: Path) -> None:
    folder = saved(tmp_path / "saved")
    damage(folder)
    with refused(CheckpointError, f"the checkpoint in {folder} {fragment}"):
        learner(tmp_path / "other").load(folder)


def test_a_model_that_was_trained_without_noise_does_not_become_private(tmp_path: Path) -> None:
    how: dict[str, Any] = {"head": "post", "rounds": 9}
    first = sampled(small_task(), tmp_path / "s", hyper={"finish": "head:1"}, **how)
    first.train(0)
    first.release(0)
    (tmp_path / "saved").mkdir()
    first.save(tmp_path / "saved")
    sampled(small_task(), tmp_path / "s", hyper={"finish": "head:1"}, resume=True, **how).load(tmp_path / "saved")
    private = sampled(small_task(), tmp_path / "s", hyper={"finish": "none"}, resume=True, **how)
    with refused(CheckpointError, 'its finish is "head:1", this run'):
        private.load(tmp_path / "saved")


def test_a_body_that_is_not_there(tmp_path: Path) -> None:
    with refused(CheckpointError, f"the checkpoint in {tmp_path} cannot be read: No such file"):
        saved_body(tmp_path)


@pytest.mark.parametrize(("algorithm", "settings"), [("dis-pfl", {}), ("dfedmdc", {"compress": "int8"})])
def test_what_leaves_a_private_peer_without_noise_is_refused(
    algorithm: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    with refused(ConfigurationError, "--privacy client cannot be used with "):
        learner(tmp_path, algorithm, private=True, **settings)
