"""A rank's folder: metrics that other programs change, failed runs, and bodies in the checkpoint."""

import gc
import json
import weakref

import pytest

from dpeer.exceptions import CheckpointError, TaskError
from dpeer.peer import checkpoint
from dpeer.peer.config import PeerConfig
from dpeer.peer.core import wire
from dpeer.peer.core.bodies import Outbox
from dpeer.peer.core.round_budget import RoundLimit
from dpeer.peer.rank_folder import RankFolder
from tests.error_texts import refused
from tests.peer.table import encoded

OURS = {"size": 2, "rounds": 4, "body_lr": 0.1}


class Silent:
    """A learner that has nothing to save."""

    figures = property(lambda self: self)
    best_round = None
    kept_point = "mixed"
    finite = True
    privacy = None

    def write_model(self, path):
        path.touch()

    def card(self):
        return {}

    def copied(self):
        return lambda directory: None

    def load(self, directory): ...


def begun(out, fingerprint=OURS, *, resume=False, learner=None, warn=lambda message: None, first=0, every=1):
    """A rank's folder in which a run has begun at round `first`."""
    config = PeerConfig(0, fingerprint["rounds"], None, fingerprint, out=out, resume=resume, checkpoint_every=every)
    files = RankFolder(config, learner or Silent(), Outbox(), {}, {}, warn)
    assert files.take_up() == first
    files.begin()
    return files


def run(files, *numbers):
    """Complete and save these rounds."""
    for number in numbers:
        files.complete({"round": number, "accuracy": number / 10, "bytes_sent": 5, "heard": [1]})
        files.save()


class Copying(Silent):
    """A learner of which only one copy may exist at a time."""

    def __init__(self):
        self.copies, self.most = weakref.WeakSet(), 0

    def copied(self):
        def copy(directory): ...

        self.copies.add(copy)
        gc.collect()
        self.most = max(self.most, len(self.copies))
        return copy


@pytest.mark.parametrize(("rounds", "left"), [(1, 1), (2, 1), (3, 3), (5, 3), (6, 6), (8, 6)])
def test_after_a_crash_a_run_goes_on_from_the_last_checkpoint(tmp_path, rounds, left):
    learner = Copying()
    first = begun(tmp_path, OURS | {"rounds": 9}, learner=learner, every=3)
    run(first, *range(rounds))
    assert (first.progress.completed, learner.most) == (rounds, 1)
    begun(tmp_path, OURS | {"rounds": 9}, resume=True, first=left, every=3)
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == left
    begun(tmp_path, OURS | {"rounds": 9}, resume=True, first=left)


def of_summary(out, *names):
    summary = json.loads((out / "summary.json").read_text())
    return [summary[name] for name in names]


def damage(metrics):
    """Damage the middle one of three lines."""
    metrics.write_bytes(metrics.read_bytes().replace(b'"round": 1', b'"rou\xff\xfe: 1'))


def tear(metrics):
    with metrics.open("a") as file:
        file.write('{"round": 3, "acc')


def test_a_round_that_a_quorum_had_completed_costs_no_checkpoint_but_its_line(tmp_path):
    """A returner is quick, whatever its disk: it may sit such rounds out again after a crash."""
    files = begun(tmp_path, first=0)
    run(files, 0)
    for number in (1, 2):
        files.complete({"round": number, "heard": []}, over=True)
        files.save()
    assert checkpoint.completed(tmp_path) == 1
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 3
    assert begun(tmp_path, resume=True, first=1).progress.last["round"] == 0, (
        "the lines without a checkpoint are dropped"
    )
    files.save(now=True)
    assert checkpoint.completed(tmp_path) == 3, "one that ends in good order loses nothing"


def test_an_adoption_has_a_checkpoint_whatever_the_round(tmp_path):
    """A process that is killed goes on with the adopted body."""
    files = begun(tmp_path, every=3)
    run(files, 0)
    assert checkpoint.completed(tmp_path) == 1
    files.complete({"round": 1, "heard": [1], "adopted": True})
    files.save()
    assert checkpoint.completed(tmp_path) == 2


def test_the_last_round_in_which_it_has_mixed_is_kept_over_a_resume(tmp_path):
    """One that has adopted has not taken part."""
    files = begun(tmp_path)
    assert files.progress.mixed_round is None
    run(files, 0, 1)
    files.complete({"round": 2, "heard": [1], "adopted": True})
    files.save()
    assert files.progress.mixed_round == 1
    assert begun(tmp_path, resume=True, first=3).progress == files.progress


@pytest.mark.parametrize(
    ("change", "missing", "left"),
    [
        (lambda metrics: metrics.unlink(), 3, [3]),
        (damage, 1, [0, 2, 3]),
        (tear, 0, [0, 1, 2, 3]),
    ],
)
def test_a_resumed_run_goes_on_with_damaged_metrics_and_loses_no_figure(change, missing, left, tmp_path):
    run(begun(tmp_path), 0, 1, 2)
    change(tmp_path / "metrics.jsonl")
    warnings = []
    second = begun(tmp_path, resume=True, warn=warnings.append, first=3)
    assert second.progress.completed == 3
    run(second, 3)
    second.conclude("done")
    assert of_summary(tmp_path, "completed_rounds", "bytes_sent", "rounds_mixed") == [4, 20, 4]
    assert of_summary(tmp_path, "metrics_missing", "accuracy") == [missing, 0.3]
    assert len(warnings) == (missing > 0)
    assert all(f"metrics.jsonl' lacks {missing} of 3 lines: " in warning for warning in warnings)
    assert [json.loads(line)["round"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == left


@pytest.mark.parametrize("at_the_end", [False, True])
def test_lines_that_are_gone_at_the_end_are_counted_and_cost_no_figure(at_the_end, tmp_path):
    learner, warnings = Silent(), []
    files = begun(tmp_path, learner=learner, warn=warnings.append)
    learner.best_round = 0
    for number in range(4):
        run(files, number)
        if number == 3 or not at_the_end:
            (tmp_path / "metrics.jsonl").rename(tmp_path / f"metrics-{number}.jsonl")
    files.conclude("done")
    assert of_summary(tmp_path, "completed_rounds", "metrics_missing", "bytes_sent") == [4, 4, 20]
    assert of_summary(tmp_path, "kept_round", "accuracy") == [0, 0.0], "the best round's line is known all the same"
    assert len(warnings) == 1
    assert "metrics.jsonl' lacks 4 of 4 lines: " in warnings[0]


def test_a_run_that_failed_leaves_its_summary_also_where_the_model_cannot_be_measured(tmp_path):
    class Failing(Silent):
        def card(self):
            raise TaskError("the task's data cannot be read")

    files = begun(tmp_path, learner=Failing())
    run(files, 0, 1)
    with pytest.raises(TaskError):
        files.conclude("done")
    assert not (tmp_path / "summary.json").exists()
    (tmp_path / "model.json").write_text("{}")  # of an earlier model
    with pytest.raises(TaskError):
        files.conclude("failed")
    assert of_summary(tmp_path, "status", "completed_rounds") == ["failed", 2]
    assert (tmp_path / "model.safetensors").exists()
    assert not (tmp_path / "model.json").exists()


@pytest.mark.parametrize(("before", "accepted"), [({}, True), ({"rounds": 3}, True), ({"body_lr": 0.2}, False)])
def test_a_run_goes_on_with_more_rounds_and_with_no_other_settings(before, accepted, tmp_path):
    run(begun(tmp_path, OURS | before), 0)
    if accepted:
        begun(tmp_path, resume=True, first=1)
    else:
        with refused(CheckpointError, "round-00000000' is of another run: body_lr is 0.2 there and 0.1 here"):
            begun(tmp_path, resume=True, first=1)
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 1


def test_a_column_that_is_defined_otherwise_is_named(tmp_path):
    run(begun(tmp_path, OURS | {"schema": {"h1": "x"}}), 0)
    config = PeerConfig(0, 4, None, OURS | {"schema": {"h1": "y"}}, out=tmp_path, resume=True,
                        names={"schema": {"h1": "age"}})  # fmt: skip
    with refused(CheckpointError, "schema: 'age' missing or different at the checkpoint"):
        RankFolder(config, Silent(), Outbox(), {}, {}).take_up()


def test_completed_rounds_without_a_checkpoint_are_refused(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"round": 0}\n{"round": 1}\n')
    with refused(CheckpointError, f"'{tmp_path}/metrics.jsonl' has completed rounds but no checkpoint exists"):
        begun(tmp_path, resume=True)


def test_a_body_that_is_sent_again_is_of_the_federation_as_it_is_resumed(tmp_path):
    """Neighbors that have the same, larger number of rounds would drop one of another federation."""
    older = OURS | {"rounds": 3}
    first = begun(tmp_path, older)
    sent = encoded(wire.federation_id(older), 0, 0, [b"12345678", b"abc"])
    first.outbox.add(0, sent, (1,))
    run(first, 0)
    second = begun(tmp_path, resume=True, first=1)
    found = wire.decode([bytes(frame) for frame in second.outbox[0].frames], wire.Limits(payload_bytes=100))
    assert (found.federation, found.rank, found.round) == (wire.federation_id(OURS), 0, 0)
    assert b"".join(bytes(part) for part in found.buffers) == b"12345678abc"  # pragma: allowlist secret
    again = begun(tmp_path, older, resume=True, first=1)
    assert [bytes(frame) for frame in again.outbox[0].frames] == [bytes(frame) for frame in sent]


WHOLE = RoundLimit(1.0, None, None)


@pytest.mark.parametrize(("every", "kept"), [(1, [2, 3]), (3, [0, 1, 2, 3])])
def test_rounds_that_may_be_trained_again_have_the_limit_with_which_they_were_released(every, kept, tmp_path):
    """Those since the last checkpoint; a round that no process has released has a limit of its own."""
    ours = OURS | {"rounds": 9}
    files = begun(tmp_path, ours, every=every)
    run(files, 0)
    limits = [WHOLE, RoundLimit(0.5, 2.5, 5.0), RoundLimit(0.3, 1.5, 5.0), RoundLimit(0.1, 0.25, 2.5)]
    for number, limit in enumerate(limits):
        files.releases.note(number, limit)
    again = begun(tmp_path, ours, resume=True, every=every, first=1)
    assert {number: again.releases.recorded(number) for number in range(6)} == {
        number: (limits[number] if number in kept else WHOLE) if number <= 3 else None for number in range(6)
    }
    assert again.releases.last_limit == limits[3]
    assert begun(tmp_path, ours, every=every).releases.recorded(1) is None, "a new run"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("[1]", None),
        ('{"round": 3, "limits": 7}', WHOLE),
        ('{"round": 3, "limits": {"3": "many", "x": [1]}}', WHOLE),
        ('{"round": 3, "limits": {"3": {"share": "much", "whole": 2}}}', RoundLimit(1.0, None, 2.0)),
    ],
)
def test_damaged_notes_of_releases_leave_rounds_whole(content, found, tmp_path):
    run(begun(tmp_path), 0)
    (tmp_path / "released.json").write_text(content)
    assert begun(tmp_path, resume=True, first=1).releases.recorded(3) == found


def known(out):
    noted = json.loads((out / "released.json").read_text())
    return noted["known"], noted["sent"]


def test_rounds_whose_lines_are_dropped_stay_known_however_often_the_peer_is_killed(tmp_path):
    """Else a rank that sat rounds out would know of fewer than its neighbors do, as one with an older copy does."""
    run(begun(tmp_path), 0)
    with (tmp_path / "metrics.jsonl").open("a") as lines:
        lines.write('{"round": 1}\n{"round": 2, "active": false}\n{"round": 3, "active": false, "adopted": true}\n')
    begun(tmp_path, resume=True, first=1)
    assert known(tmp_path) == (3, 2)
    files = begun(tmp_path, resume=True, first=1)
    assert known(tmp_path) == (3, 2)
    files.releases.note(1, RoundLimit(0.5, None, None))
    files.releases.note(1, None)
    assert json.loads((tmp_path / "released.json").read_text()) == {"round": 1, "known": 3, "sent": 2}
    begun(tmp_path, resume=False)
    assert not (tmp_path / "released.json").exists()
