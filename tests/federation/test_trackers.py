"""What a person finds in trackers after a run, with their own libraries, and that no round waits for one."""

import http.server
import json
import math
import sys
import threading
import time

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.federation import trackers
from dpeer.federation.settings import Settings
from dpeer.federation.trackers import SHOWN, TRACKERS, TrackedRun, Tracking, check, close, figures
from dpeer.peer.logs import PeerLog
from dpeer.sections import Mark, meaning_of


def play(name, folder, rounds, *, known=None):
    """A process's rounds; returns the tracker's run."""
    folder.mkdir(parents=True, exist_ok=True)
    run = TRACKERS[name](folder, {"task": "digits", "rounds": 4}, rounds[0], known)
    for number in rounds:
        run.log(number, {"accuracy": number / 10, "metrics/auroc": 0.5})
    run.close()
    return run.identity


def test_tensorboard_reads_the_figures_of_both_processes_of_a_run(tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    identity = play("tensorboard", tmp_path, range(3))
    play("tensorboard", tmp_path, range(2, 5), known=identity)
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

    identity = play("mlflow", tmp_path / "run" / "rank-0", range(3))
    assert play("mlflow", tmp_path / "run" / "rank-0", range(3, 5), known=identity) == identity
    client = MlflowClient((tmp_path / "mlruns").as_uri())
    experiment = client.get_experiment_by_name("dpeer")
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("run/rank-0", "FINISHED")
    assert run.data.params == {"task": "digits", "rounds": "4"}
    history = client.get_metric_history(run.info.run_id, "accuracy")
    assert [(one.step, one.value) for one in history] == [(number, number / 10) for number in range(5)]


@pytest.mark.usefixtures("mlflow_files")
def test_metrics_names_are_made_fit_for_mlflow_and_of_two_alike_the_first_is_shown(tmp_path):
    from mlflow import MlflowClient

    names = {
        "F1 (macro)": "F1 _macro_",
        "AR@100": "AR_100",
        "größe": "größe",
        "a//b/": "a/_/b/_",
        "..": "_",
        "x" * 300: "x" * 242,
    }
    metrics = dict.fromkeys(names, 0.5) | {"F1 [macro]": 0.25}
    assert track(tmp_path, ["mlflow"], 2, entry={**ENTRY, "metrics": metrics}) == []
    identity = json.loads((tmp_path / "tracked.json").read_text())["mlflow"]
    for shown in names.values():
        history = MlflowClient((tmp_path / "mlruns").as_uri()).get_metric_history(identity, f"metrics/{shown}")
        assert {(one.step, one.value) for one in history} == {(0, 0.5), (1, 0.5)}


class Broken(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(500)

    do_POST = do_GET  # noqa: N815 - the name that http.server calls

    def log_message(self, *_):
        pass


def test_a_server_with_an_error_is_logged_and_no_run_is_kept(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    server = http.server.HTTPServer(("127.0.0.1", 0), Broken)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    try:
        log = track(tmp_path, ["mlflow"], 3)
    finally:
        server.shutdown()
        server.server_close()
    assert [event for event, _ in log] == ["tracker"] * 2
    assert log[0][1].startswith("mlflow lacks rounds for now, which are in metrics.jsonl, and the run goes on (Mlflow")
    assert log[1][1].startswith("mlflow lacks 3 rounds, which are in metrics.jsonl (MlflowException: ")
    assert not (tmp_path / "tracked.json").exists()


@pytest.mark.slow
def test_wandb_writes_its_files_into_the_ranks_folder_and_keeps_the_runs_id(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    check(["wandb"])
    identity = play("wandb", tmp_path / "rank-0", range(3))
    (folder,) = (tmp_path / "rank-0" / "wandb").glob("offline-run-*")
    assert folder.name.endswith(identity)
    assert play("wandb", tmp_path / "rank-0", range(3, 5), known=identity) == identity
    assert len([*(tmp_path / "rank-0" / "wandb").glob(f"offline-run-*-{identity}")]) == 2


# -- before a run ------------------------------------------------------------------------------------------------------


def test_a_library_or_setting_that_is_missing_shows_before_the_run(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(ConfigurationError, match=r"--log-to mlflow: set MLFLOW_TRACKING_URI to the server's address"):
        check(["tensorboard", "mlflow"])
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ConfigurationError) as refused:
        check(["tensorboard"])
    assert str(refused.value) == "--log-to tensorboard needs tensorboard: pip install 'dpeer[tensorboard]'"


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


@pytest.mark.slow
def test_a_simulation_and_one_that_goes_on_show_each_round_of_each_rank_once(dpeer, tmp_path, monkeypatch):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    options = (
        "simulate", "--size", 2, "--topology", "full", "--task", "digits", "--alone", "never", "--local-steps", 1,
        "--log-to", "tensorboard", "--log-to", "mlflow",
    )  # fmt: skip
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # nothing listens there
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setattr("dpeer.federation.trackers._PATIENCE", 2.0)
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
        assert "and the run goes on" in failed[0]["message"]


# -- beside a run ------------------------------------------------------------------------------------------------------

ENTRY = {
    "round": 3, "active": True, "accuracy": 0.5, "test_loss": math.nan, "metrics": {"auroc": 0.75, "why": "x"},
    "train_loss": 1.5, "samples": 90, "train_seconds": 2.0, "steps": [3, 4], "bytes_sent": 100, "bytes_received": 200,
    "heard": [1, 2], "missed": [], "mass_error": None, "epsilon": 0.25, "delta": 1e-5,
    "privacy": {"update_norm": 3.0, "releases": 4},
}  # fmt: skip


class Fake:
    """A tracker that fails some times, and blocks while `goes_on` is not set."""

    def __init__(self):
        self.fails, self.given, self.shown, self.closed = 0, [], [], False
        self.goes_on = threading.Event()
        self.goes_on.set()

    def __call__(self, folder, settings, start, known):
        self.given.append((settings, start, known))
        return TrackedRun("run-1", self.log, self.close)

    def log(self, step, values):
        self.goes_on.wait()
        if self.fails:
            self.fails -= 1
            raise ConnectionError("no\nserver")
        self.shown.append((step, values))

    def close(self):
        self.closed = True


def track(folder, names, rounds, *, entry=ENTRY, settings=None, protects=False, resume=False, around=lambda: None):
    """Give a peer's trackers some rounds, and end them; returns what was logged."""
    said = []

    def say(line):
        said.append((line["event"], line["message"]))
        return True

    log = PeerLog(0, None, "info", say)
    tracking = Tracking(names, folder, settings or {}, log, protects=protects, resume=resume)
    for number in range(rounds):
        tracking.add({**entry, "round": number})
    around()
    close([tracking])
    return said


@pytest.fixture
def fake(monkeypatch):
    made = Fake()
    monkeypatch.setitem(TRACKERS, "fake", made)
    return made


def test_figures_are_the_finite_numbers_of_a_record():
    assert figures(ENTRY, protects=False) == {
        "accuracy": 0.5, "metrics/auroc": 0.75, "train_loss": 1.5, "samples": 90.0, "train_seconds": 2.0,
        "bytes_sent": 100.0, "bytes_received": 200.0, "heard": 2, "missed": 0, "epsilon": 0.25, "delta": 1e-5,
    }  # fmt: skip


def test_of_a_peer_that_protects_its_data_only_progress_leaves():
    assert figures(ENTRY, protects=True) == {
        "bytes_sent": 100.0, "bytes_received": 200.0, "heard": 2, "missed": 0, "epsilon": 0.25, "delta": 1e-5,
    }  # fmt: skip


def test_no_setting_that_is_shown_is_a_path_an_address_or_found_in_data():
    fields = Settings.model_fields
    assert set(SHOWN) <= set(fields)
    assert {meaning_of(fields[name]).mark for name in SHOWN} <= {Mark.SHARED, Mark.FOLLOWS, Mark.OWN}
    assert not any("Path" in str(fields[name].annotation) for name in SHOWN)


def test_rounds_come_in_order_and_the_run_is_kept_and_closed(fake, tmp_path):
    settings = {"task": "digits", "rounds": 4, "secret": "/path", "body_lr": None}
    assert track(tmp_path, ["fake"], 50, settings=settings) == []
    assert [step for step, _ in fake.shown] == list(range(50))
    assert fake.closed
    assert fake.given == [({"task": "digits", "rounds": 4}, 0, None)]
    assert json.loads((tmp_path / "tracked.json").read_text()) == {"fake": "run-1"}


@pytest.mark.parametrize(("fails", "lacking"), [(4, 0), (100, 5)])
def test_rounds_of_an_outage_come_later_and_a_line_says_what_is_lacking(fake, tmp_path, fails, lacking):
    fake.fails = fails
    (event, message), *last = track(tmp_path, ["fake"], 5)
    assert [step for step, _ in fake.shown] == list(range(5 - lacking))
    assert event == "tracker"
    assert message == (
        "fake lacks rounds for now, which are in metrics.jsonl, and the run goes on (ConnectionError: no server)"
    )
    end = "fake lacks 5 rounds, which are in metrics.jsonl (ConnectionError: no server)"
    assert last == ([("tracker", end)] if lacking else [])


def test_rounds_that_wait_for_one_that_hangs_cost_no_time(fake, tmp_path, monkeypatch):
    monkeypatch.setattr(trackers, "_PATIENCE", 0.0)
    fake.goes_on.clear()
    began = time.perf_counter()
    ((_, message),) = track(tmp_path, ["fake"], 5000)
    assert time.perf_counter() - began < 5
    assert message.endswith("(it has not ended in time)")
    fake.goes_on.set()
    for thread in threading.enumerate():
        if thread.name == "track-fake":
            thread.join(30)
    assert fake.closed
    assert len(fake.shown) == 5000


@pytest.mark.parametrize(("resume", "known"), [(True, "run-7"), (False, None)])
def test_a_resumed_peer_goes_on_with_the_trackers_run(fake, tmp_path, resume, known):
    (tmp_path / "tracked.json").write_text('{"fake": "run-7", "other": 3}')
    track(tmp_path, ["fake"], 1, resume=resume)
    assert fake.given[0][2] == known
