"""A model from a checkpoint: what it is like, and what cannot be used."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import CheckpointError, ConfigurationError, DpeerError, OutputError
from dpeer.federation.control_client import held
from dpeer.federation.saved_models import make_model
from dpeer.federation.settings import Settings
from dpeer.peer import checkpoint
from dpeer.simulation.run import simulate

LEFT = ("model.safetensors", "model.json", "summary.json")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a rank that is done, of a run of three rounds."""
    out = tmp_path_factory.mktemp("ended") / "run"
    settings = Settings(
        size=2, rounds=3, task="digits", keep="best", validation=0.2, local_steps=2, alone="never", out=out, threads=1
    )
    simulate(settings)
    return out / "rank-1"


@pytest.fixture
def killed(ended: Path, tmp_path: Path) -> Path:
    """The same, if it had been killed before it wrote model, card and summary."""
    folder = tmp_path / "run" / "rank-1"
    shutil.copytree(ended, folder)
    for name in LEFT:
        (folder / name).unlink()
    return folder


def state(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((_state(folder)).read_text())
    return content


def _state(folder: Path) -> Path:
    found = checkpoint.latest(folder / checkpoint.FOLDER)
    assert found is not None
    return found / checkpoint.STATE


def write_state(folder: Path, content: dict[str, Any]) -> None:
    """Write a state.json whose checksum is right."""
    content.pop("checksum", None)
    _state(folder).write_text(json.dumps({**content, "checksum": checkpoint.checksum(content)}))


def test_it_is_the_model_that_the_peer_would_have_left(ended: Path, killed: Path) -> None:
    made = make_model(killed)
    assert (made.status, made.completed, made.rounds) == ("done", 3, 3)
    assert (killed / LEFT[0]).read_bytes() == (ended / LEFT[0]).read_bytes()
    before, after = (json.loads((folder / LEFT[2]).read_text()) for folder in (ended, killed))
    for one in (before, after):
        for name in ("worth", "accuracy_alone"):  # what is compared afterwards
            one.pop(name, None)
        one["settings"].pop("out")
        one.pop("wall_seconds")
    counted = {name: before.pop(name) for name in [*before] if name not in after}
    assert after == before
    assert counted.keys() == {
        "dropped", "warnings", "left_behind", "pauses", "paused_seconds", "late_bodies", "log_dropped",
    }, "what the process had counted that is gone"  # fmt: skip


def test_a_model_that_is_there_is_replaced_only_when_asked(killed: Path) -> None:
    (killed / LEFT[0]).write_bytes(b"there")
    with pytest.raises(OutputError):
        make_model(killed)
    assert (killed / LEFT[0]).read_bytes() == b"there"
    make_model(killed, overwrite=True)
    assert (killed / LEFT[0]).read_bytes() != b"there"


@pytest.mark.parametrize("kept", ["alone", "blend"])
def test_a_model_that_the_run_has_chosen_is_not_replaced_by_the_federated_one(
    ended: Path, killed: Path, kept: str, tmp_path: Path
) -> None:
    summary = json.loads((ended / LEFT[2]).read_text())
    (killed / LEFT[2]).write_text(json.dumps({**summary, "kept_point": kept}))
    (killed / LEFT[0]).write_bytes(b"chosen")
    with pytest.raises(OutputError, match="give --output FILE"):
        make_model(killed, overwrite=True)
    assert (killed / LEFT[0]).read_bytes() == b"chosen"
    make_model(killed, output=tmp_path / "federated.safetensors")
    assert (tmp_path / "federated.safetensors").read_bytes() == (ended / LEFT[0]).read_bytes()


def test_a_running_peer_is_left_alone(killed: Path) -> None:
    with held(killed), pytest.raises(OutputError):
        make_model(killed)


def _missing(folder: Path) -> None:
    shutil.rmtree(folder)


def _no_checkpoint(folder: Path) -> None:
    shutil.rmtree(folder / checkpoint.FOLDER)


def _older(folder: Path) -> None:
    content = state(folder)
    del content["extra"]["about"]
    write_state(folder, content)


def _with_unknown_setting(folder: Path) -> None:
    content = state(folder)
    content["extra"]["about"]["settings"]["warp_speed"] = 9
    write_state(folder, content)


def _later_learner(folder: Path) -> None:
    path = _state(folder).parent / "learner" / "learner.json"
    path.write_text(path.read_text().replace('"format": 2', '"format": 3'))
    content = state(folder)
    content["sha256"]["learner/learner.json"] = checkpoint.digest_of(path)
    write_state(folder, content)


def _damaged(folder: Path) -> None:
    _state(folder).write_text(_state(folder).read_text()[:-20])


def _without_task(folder: Path) -> None:
    content = state(folder)
    content["extra"]["about"]["settings"]["task"] = "gone.py:task"
    write_state(folder, content)


@pytest.mark.parametrize(
    ("spoil", "kind", "message"),
    [
        (_missing, ConfigurationError, "no folder .*rank-1' exists; name the --out of a run, or rank-R in it"),
        (_no_checkpoint, CheckpointError, "rank-1' has no checkpoint: its peer has completed no round"),
        (_older, CheckpointError, "is of another version of dpeer .'settings'.: .* --resume"),
        (_with_unknown_setting, CheckpointError, "is of another version of dpeer .* 'warp_speed'"),
        (_later_learner, CheckpointError, "is of another run: its format is 3, this run's is 2"),
        (_damaged, CheckpointError, "round-00000002' is damaged"),
        (_without_task, ConfigurationError, "gone.py"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(
    spoil: Any, kind: type[DpeerError], message: str, killed: Path
) -> None:
    spoil(killed)
    with pytest.raises(kind, match=message) as caught:
        make_model(killed)
    assert "\n" not in str(caught.value)
    assert not (killed / LEFT[0]).exists()
