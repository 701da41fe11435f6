"""The trackers themselves, with their own libraries: what a person finds in them after a run."""

import http.server
import json
import threading
from pathlib import Path

import pytest

from dpeer.exceptions import ConfigurationError, UnknownName
from dpeer.federation import trackers
from dpeer.federation.settings import Settings
from dpeer.federation.trackers import TrackedRun, check, find


def run_of(folder, *, known=None, start=0, kept=None):
    folder.mkdir(parents=True, exist_ok=True)
    kept = [] if kept is None else kept
    return TrackedRun("run/rank-0", "run", folder, {"task": "digits", "rounds": 4}, start, known, kept.append)


def play(name, folder, rounds, *, known=None):
    """A process's rounds; returns what it has kept of the tracker's run."""
    kept = []
    tracker = find(name)(run_of(folder, known=known, start=rounds[0], kept=kept))
    for number in rounds:
        tracker.log(number, {"accuracy": number / 10, "metrics/auroc": 0.5})
    tracker.close()
    return kept


def test_tensorboard_reads_the_figures_of_both_processes_of_a_run(tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    (identity,) = play("tensorboard", tmp_path, range(3))
    assert play("tensorboard", tmp_path, range(2, 5), known=identity) == []
    found = events.EventAccumulator(str(tmp_path / "tensorboard"))
    found.Reload()
    scalars = [(one.step, round(one.value, 6)) for one in found.Scalars("accuracy")]
    assert scalars == [(number, number / 10) for number in range(5)], "the round that was run again counts once"
    assert set(found.Tags()["scalars"]) == {"accuracy", "metrics/auroc"}


@pytest.fixture
def mlflow_files(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())


@pytest.mark.usefixtures("mlflow_files")
def test_mlflow_has_one_run_of_both_processes_with_its_settings(tmp_path):
    from mlflow import MlflowClient

    (identity,) = play("mlflow", tmp_path / "rank-0", range(3))
    assert play("mlflow", tmp_path / "rank-0", range(3, 5), known=identity) == []
    client = MlflowClient((tmp_path / "mlruns").as_uri())
    experiment = client.get_experiment_by_name("dpeer")
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("run/rank-0", "FINISHED")
    assert run.data.params == {"task": "digits", "rounds": "4"}
    history = client.get_metric_history(run.info.run_id, "accuracy")
    assert [(one.step, one.value) for one in history] == [(number, number / 10) for number in range(5)]


@pytest.mark.usefixtures("mlflow_files")
def test_a_run_that_the_server_has_no_more_is_begun_anew(tmp_path):
    (identity,) = play("mlflow", tmp_path / "rank-0", range(1, 2), known="0" * 32)
    assert identity != "0" * 32


class Broken(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(500)

    do_POST = do_GET  # noqa: N815 - the name that http.server calls

    def log_message(self, *_):
        pass


def test_a_server_with_an_error_raises_and_no_run_is_kept(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    server = http.server.HTTPServer(("127.0.0.1", 0), Broken)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    kept = []
    try:
        with pytest.raises(Exception, match="500"):
            find("mlflow")(run_of(tmp_path / "rank-0", kept=kept))
    finally:
        server.shutdown()
        server.server_close()
    assert kept == []


@pytest.mark.slow
def test_wandb_writes_its_files_into_the_ranks_folder_and_keeps_the_runs_id(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    check(["wandb"])
    (identity,) = play("wandb", tmp_path / "rank-0", range(3))
    (folder,) = (tmp_path / "rank-0" / "wandb").glob("offline-run-*")
    assert folder.name.endswith(identity)
    assert play("wandb", tmp_path / "rank-0", range(3, 5), known=identity) == []
    assert len([*(tmp_path / "rank-0" / "wandb").glob(f"offline-run-*-{identity}")]) == 2


# -- before a run ------------------------------------------------------------------------------------------------------


def test_a_library_or_setting_that_is_missing_shows_before_the_run(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(ConfigurationError, match=r"--log-to mlflow: set MLFLOW_TRACKING_URI to the server's address"):
        check(["tensorboard", "mlflow"])
    monkeypatch.setattr(find("tensorboard"), "libraries", {"no_such_module": "tensorboard"})
    with pytest.raises(ConfigurationError) as refused:
        check(["tensorboard"])
    assert str(refused.value) == "--log-to tensorboard needs tensorboard: pip install 'dpeer[tensorboard]'"
    with pytest.raises(UnknownName):
        check(["aim"])


def test_wandb_without_a_key_asks_nothing_and_is_refused(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match=r"--log-to wandb: it has no key: type `wandb login`"):
        check(["wandb"])


@pytest.mark.parametrize("value", ["aim", "mlflow,mlflow", "mlflow,", 3])
def test_a_value_that_names_no_tracker_is_refused(value):
    with pytest.raises(ConfigurationError, match=r"log_to = .*: expected tensorboard, mlflow or wandb"):
        Settings.model_validate({"log_to": value})


def test_a_list_and_a_text_state_the_same_trackers():
    assert Settings(log_to="mlflow, wandb").log_to == Settings(log_to=["mlflow", "wandb"]).log_to == ["mlflow", "wandb"]


def test_every_tracker_is_a_file_of_its_own_and_an_extra():
    assert trackers.TRACKERS.keys() == {find(name).extra for name in trackers.TRACKERS}
    for name in trackers.TRACKERS:
        assert Path(__import__(find(name).__module__, fromlist=["x"]).__file__).name == f"{name}.py"


@pytest.mark.slow
def test_a_simulation_and_one_that_goes_on_show_each_round_of_each_rank_once(dpeer, tmp_path, monkeypatch):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    options = (
        "simulate", "--size", 2, "--topology", "full", "--task", "digits", "--alone", "never", "--local-steps", 1,
        "--log-to", "tensorboard", "--log-to", "mlflow",
    )  # fmt: skip
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # nothing listens there
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setattr("dpeer.federation.trackers.tracking._PATIENCE", 2.0)
    assert dpeer(*options, "--rounds", 2).code == 0
    assert dpeer(*options, "--rounds", 4, "--resume").code == 0
    for rank in range(2):
        folder = tmp_path / "dpeer-run" / f"rank-{rank}"
        found = events.EventAccumulator(str(folder / "tensorboard"))
        found.Reload()
        assert [one.step for one in found.Scalars("accuracy")] == [0, 1, 2, 3]
        log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        failed = [one for one in log if one["event"] == "tracker"]
        assert {one["tracker"] for one in failed} == {"mlflow"}
        assert "it is tried again, and rounds go on" in failed[0]["message"]
