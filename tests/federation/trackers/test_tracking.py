"""What trackers are given of a run, and that no round waits for one that is slow, down or gone."""

import json
import math
import threading
import time

import pytest

from dpeer.federation.settings import Settings
from dpeer.federation.trackers import tracking
from dpeer.federation.trackers.tracking import SHOWN, Feed, figures, start
from dpeer.peer.logs import peer_logger
from dpeer.sections import Mark, meaning_of

ENTRY = {
    "round": 3, "active": True, "accuracy": 0.5, "test_loss": math.nan, "metrics": {"auroc": 0.75, "why": "x"},
    "train_loss": 1.5, "samples": 90, "train_seconds": 2.0, "steps": [3, 4], "bytes_sent": 100, "bytes_received": 200,
    "heard": [1, 2], "missed": [], "mass_error": None, "epsilon": 0.25, "delta": 1e-5,
    "privacy": {"update_norm": 3.0, "releases": 4},
}  # fmt: skip


class Fake:
    """A tracker that fails as often as it is told, and blocks while `holds` is set."""

    def __init__(self, fails=0):
        self.fails, self.opened, self.shown, self.closed = fails, 0, [], False
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.has = threading.Condition()

    def open(self):
        self.opened += 1
        return self

    def log(self, step, values):
        self.goes_on.wait()
        if self.fails:
            self.fails -= 1
            raise ConnectionError("no\nserver")
        with self.has:
            self.shown.append((step, values))
            self.has.notify()

    def close(self):
        self.closed = True

    def until(self, rounds):
        with self.has:
            assert self.has.wait_for(lambda: len(self.shown) >= rounds, 30)


class Notes(list):
    def __call__(self, level, event, message, tracker):
        self.append((level, event, message))


def ended(feed, seconds=30):
    feed.end()
    feed.join(seconds)


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


def test_rounds_come_in_order_and_the_tracker_is_closed():
    fake, notes = Fake(), Notes()
    feed = Feed("fake", fake.open, notes)
    for number in range(50):
        feed.add(number, {"x": number})
    ended(feed)
    assert [step for step, _ in fake.shown] == list(range(50))
    assert (fake.opened, fake.closed, notes) == (1, True, [])


def test_one_that_fails_is_tried_again_until_it_has_every_round_and_two_lines_tell():
    fake, notes = Fake(fails=3), Notes()
    feed = Feed("fake", fake.open, notes, first_pause=0.001)
    for number in range(4):
        feed.add(number, {})
    fake.until(4)
    ended(feed)
    assert [step for step, _ in fake.shown] == [0, 1, 2, 3]
    assert [(level, event) for level, event, _ in notes] == [("warning", "tracker"), ("info", "tracker-back")]
    assert notes[0][2] == "fake cannot be used (ConnectionError: no server): it is tried again, and rounds go on"


def test_one_that_cannot_be_opened_at_first_is_opened_later():
    fake, notes, tries = Fake(), Notes(), []

    def opened():
        tries.append(1)
        if len(tries) < 3:
            raise OSError("down")
        return fake.open()

    feed = Feed("fake", opened, notes, first_pause=0.001)
    feed.add(0, {})
    fake.until(1)
    ended(feed)
    assert len(tries) == 3


def test_rounds_that_wait_for_one_that_hangs_are_bounded_and_cost_no_time(monkeypatch):
    monkeypatch.setattr(tracking, "_MOST", 20)
    fake, notes = Fake(), Notes()
    fake.goes_on.clear()
    feed = Feed("fake", fake.open, notes)
    began = time.perf_counter()
    for number in range(5000):
        feed.add(number, {})
    assert time.perf_counter() - began < 5
    feed.end()
    feed.join(0.0)
    ((level, event, message),) = notes
    assert (level, event) == ("warning", "tracker")
    assert message.startswith("fake has not ended in time: it lacks ")
    fake.goes_on.set()
    feed.join(30)
    assert fake.closed
    assert [step for step, _ in fake.shown][-20:] == list(range(4980, 5000)), "the newest are kept"


def test_the_end_of_a_run_does_not_try_a_broken_one_again():
    fake, notes = Fake(fails=10**9), Notes()
    feed = Feed("fake", fake.open, notes, first_pause=3600.0)
    feed.add(0, {})
    ended(feed)
    assert fake.fails == 10**9 - 1
    assert notes[-1][2] == "fake has not ended in time: it lacks 1 rounds, which are in metrics.jsonl"


def test_without_rounds_no_tracker_is_opened(tmp_path):
    log = peer_logger(0, tmp_path / "log.jsonl", "info")
    trackers = start(["mlflow", "wandb"], tmp_path / "run" / "rank-0", {}, log, protects=False, resume=False)
    tracking.close([trackers])
    log.close()
    assert (tmp_path / "log.jsonl").read_text() == ""


@pytest.mark.parametrize(("stays_home", "more"), [(True, {"accuracy", "train_loss"}), (False, set())])
def test_one_that_keeps_figures_in_the_peers_folder_gets_them_all(tmp_path, monkeypatch, stays_home, more):
    fake = Fake()

    class Kind:
        def __new__(cls, run):
            fake.run = run
            run.keep("run-1")
            return fake.open()

    Kind.stays_home = stays_home
    monkeypatch.setattr(tracking, "find", lambda name: Kind)
    out = tmp_path / "run" / "rank-0"
    out.mkdir(parents=True)
    log = peer_logger(0, out / "log.jsonl", "info")
    settings = {"task": "digits", "rounds": 4, "secret": "/path", "body_lr": None}
    trackers = start(["fake"], out, settings, log, protects=True, resume=False)
    trackers.add(ENTRY)
    tracking.close([trackers])
    log.close()
    ((step, values),) = fake.shown
    assert step == 3
    assert {"accuracy", "train_loss"} & values.keys() == more
    assert (fake.run.name, fake.run.settings, fake.run.start) == ("run/rank-0", {"task": "digits", "rounds": 4}, 3)
    assert json.loads((out / "tracked.json").read_text()) == {"fake": "run-1"}


@pytest.mark.parametrize(("resume", "known"), [(True, "run-7"), (False, None)])
def test_a_resumed_peer_goes_on_with_the_trackers_run(tmp_path, monkeypatch, resume, known):
    (tmp_path / "tracked.json").write_text('{"fake": "run-7", "other": 3}')
    fake, seen = Fake(), []

    class Kind:
        stays_home = False

        def __new__(cls, run):
            seen.append(run.known)
            return fake.open()

    monkeypatch.setattr(tracking, "find", lambda name: Kind)
    log = peer_logger(0, tmp_path / "log.jsonl", "info")
    trackers = start(["fake"], tmp_path, {}, log, protects=False, resume=resume)
    trackers.add(ENTRY)
    tracking.close([trackers])
    log.close()
    assert seen == [known]
