"""From settings to the guarantee and the session of a run, at client level."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import dpeer
from dpeer import privacy
from dpeer.exceptions import BudgetTooSmall, CheckpointError, ConfigurationError, OutputError
from dpeer.federation.checks import check_settings
from dpeer.federation.config import resolve
from dpeer.federation.folders import check
from dpeer.federation.resume_checks import check_ledger, counted
from dpeer.federation.settings import Settings
from dpeer.privacy import Guarantee, PeerData
from dpeer.topology.settings import build_graph
from tests.error_texts import refused
from tests.runs import MODELS


def promise(settings: Settings) -> Guarantee | None:
    return resolve(settings, 0).protected.guarantee


def promised(**settings):
    return promise(Settings(privacy="client", **settings))


def protect(settings: Settings, folder: Path, *, resume: bool, data: str | None = None) -> Any:
    if resume:
        check_ledger(folder.parent)
    return privacy.open(resolve(settings, 0).protected, folder, PeerData(data), resume=resume)


def test_a_private_run_cannot_be_gone_on_with_in_another_way(tmp_path):
    def peer(resume, **settings):
        asked = Settings(**settings)
        return protect(asked, tmp_path / "rank-0" / "privacy", resume=resume)

    run = peer(False, privacy="client", noise_multiplier=5.0)
    run.ledger.release(0, lambda: b"x")
    assert peer(True, privacy="client", noise_multiplier=5.0, target_epsilon=9.0).ledger.releases == 1
    with pytest.raises(CheckpointError):
        peer(True, privacy="client", noise_multiplier=50.0)
    with pytest.raises(CheckpointError):
        peer(True)
    # The same command again would release the same round with other noise.
    for overwrite in (False, True):
        with refused(OutputError, "private run", "another --out"):
            check(tmp_path, [0], resume=False, overwrite=overwrite)


def test_a_budget_that_is_used_up_ends_the_releases_of_a_run_that_goes_on(tmp_path):
    asked = Settings(privacy="client", target_epsilon=10.0, rounds=5)
    folder = tmp_path / "rank-0" / "privacy"
    first = protect(asked, folder, resume=False)
    for number in range(5):
        assert first.may_release
        first.ledger.release(number, lambda: b"x")
    assert not first.may_release
    assert not protect(asked, folder, resume=True).may_release


def test_a_start_promises_no_less_than_is_spent_already(tmp_path):
    asked = Settings(privacy="client", noise_multiplier=5.0, rounds=9)
    guarantee = promise(asked)
    run = protect(asked, tmp_path / "rank-0" / "privacy", resume=False)
    for number in range(3):
        run.ledger.release(number, lambda: b"x")
    tighter = Settings(privacy="client", noise_multiplier=5.0, rounds=9, target_epsilon=2.0)
    run = protect(tighter, tmp_path / "rank-0" / "privacy", resume=True)
    notes = run.notes(10)
    assert f"epsilon {guarantee.epsilon(3):.4g} at delta 1e-05 after 3 releases" in notes[0]
    assert not run.may_release


def with_metrics(folder, **entry):
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text(json.dumps({"round": 0, "bytes_sent": 50, **entry}) + "\n")


def test_it_follows_from_the_rounds_in_which_a_peer_takes_part():
    settings = Settings(privacy="client", target_epsilon=8.0, rounds=40, size=10, participation=0.3)
    graph = build_graph(settings)
    planned = resolve(settings, 0).planned_rounds()
    from dpeer.topology import take_part

    drawn = take_part(graph, settings.participation, settings.participation_mode, settings.seed)
    counts = [sum(drawn.at(number, rank).active for number in range(40)) for rank in range(10)]
    assert planned == max(counts) < 40
    assert promise(settings).epsilon(planned) <= 8.0 < promise(settings).epsilon(planned + 1)


def test_a_budget_too_small_for_one_release_ends_with_code_5():
    with pytest.raises(BudgetTooSmall) as found:
        promised(target_epsilon=0.5, noise_multiplier=1.0)
    assert found.value.exit_code == 5


def lines(tmp_path, parameters=60_000, **settings):
    asked = Settings(privacy="client", **settings)
    session = protect(asked, tmp_path / "privacy", resume=False)
    assert not (tmp_path / "privacy").exists()
    return session.notes(session.noised(parameters, 0))


def test_the_start_says_whose_data_against_whom_and_how_much_noise(tmp_path):
    found = lines(tmp_path, target_epsilon=10.0, rounds=20)
    assert "one peer's whole data set, against a neighbor, replace-one: epsilon 10 at delta 1e-05 after 20" in found[0]
    # PRIVACY: eps 10, delta 1e-5, 20 rounds, 60,000 parameters, replace-one: about 1,100 times the clip norm.
    ratio = float(found[1].split(" is ")[1].split(" times")[0].replace(",", ""))
    assert ratio == pytest.approx(1100, rel=0.02)
    assert "fewer shared parameters" in found[2]


def test_it_says_when_the_budget_will_be_used_up(tmp_path):
    found = lines(tmp_path, target_epsilon=10.0, noise_multiplier=4.0, rounds=50)
    guarantee = promised(target_epsilon=10.0, noise_multiplier=4.0, rounds=50)
    fitting = next(releases for releases in range(50) if guarantee.epsilon(releases + 1) > 10.0)
    assert fitting >= 1
    assert any(f"after {fitting} of 50 releases" in line for line in found)


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A rank's folder after a private run."""
    made = tmp_path_factory.mktemp("ended")
    (made / "small.py").write_text(MODELS)
    settings = Settings(
        size=2, rounds=2, task=f"{made}/small.py:task", privacy="client", noise_multiplier=50.0, alone="never",
        out=made / "run",
    )  # fmt: skip
    dpeer.run(settings)
    return made / "run" / "rank-0"


def takes(folder: Path) -> None:
    """Ask for another run in a rank's folder."""
    check(folder.parent, [0], resume=False, overwrite=True)


@pytest.mark.parametrize("damage", ["none", "emptied", "header alone", "on one line", "gone", "a folder", "garbage"])
def test_a_folder_that_holds_a_private_run_takes_no_other(damage, ended, tmp_path):
    """What the run released on its data must stay on record, whatever has become of its ledger."""
    folder = shutil.copytree(ended, tmp_path / "rank-0")
    ledger = folder / "privacy" / "ledger.jsonl"
    content = ledger.read_bytes()
    if damage == "gone":
        shutil.rmtree(folder / "privacy")
    elif damage == "a folder":
        ledger.unlink()
        ledger.mkdir()
    else:
        damaged = {
            "none": content,
            "emptied": b"",
            "header alone": content.splitlines(True)[0],
            "on one line": content.replace(b"\n", b""),
            "garbage": b"\x00\xffgarbage\n",
        }
        ledger.write_bytes(damaged[damage])
    with refused(OutputError, str(folder), "private run", "another --out"):
        takes(folder)


@pytest.mark.parametrize("gone", [("ledger.jsonl",), ("ledger.jsonl", "released"), ("ledger.jsonl", "checkpoint")])
@pytest.mark.parametrize("emptied", [False, True])
def test_so_does_one_whose_ledger_and_metrics_are_lost_together(gone, emptied, ended, tmp_path):
    """The checkpoint and the bytes that were kept tell of the run."""
    folder = shutil.copytree(ended, tmp_path / "rank-0")
    for path in (folder / "privacy" / "ledger.jsonl", folder / "metrics.jsonl"):
        path.write_bytes(b"") if emptied else path.unlink()
    if "released" in gone:
        for path in (folder / "privacy").glob("released-*"):
            path.unlink()
    if "checkpoint" in gone:
        shutil.rmtree(folder / "checkpoint")
    with refused(OutputError, "private run"):
        takes(folder)


@pytest.mark.parametrize("damage", [b"\x00\xffgarbage\n", b""])
def test_of_a_damaged_ledger_the_advice_is_what_will_be_accepted(damage: bytes, tmp_path: Path) -> None:
    """Of one that cannot be read nobody knows what it counted, so no run goes on from it."""
    asked = Settings(privacy="client", noise_multiplier=5.0)
    folder = tmp_path / "rank-0" / "privacy"
    with_metrics(tmp_path / "rank-0", privacy={"releases": 1})
    run = protect(asked, folder, resume=False)
    run.ledger.release(0, lambda: b"x")
    content = (folder / "ledger.jsonl").read_bytes()
    (folder / "ledger.jsonl").write_bytes(damage or content[: content.index(b"\n") + 1])
    with pytest.raises(CheckpointError, match="another --out"):
        check_ledger(tmp_path / "rank-0")


@pytest.mark.parametrize("cut", [1, 40])
def test_a_release_whose_line_is_lost_is_neither_made_again_nor_forgotten(cut: int, tmp_path: Path) -> None:
    asked = Settings(privacy="client", noise_multiplier=5.0)
    folder = tmp_path / "rank-0" / "privacy"
    run = protect(asked, folder, resume=False)
    for number in range(3):
        run.ledger.release(number, lambda: b"x")
    ledger = folder / "ledger.jsonl"
    whole = ledger.read_bytes()
    ledger.write_bytes(whole[:-cut])
    with pytest.raises(CheckpointError):
        protect(asked, folder, resume=True)
    assert ledger.read_bytes() == whole[:-cut], "nothing was changed"
    ledger.write_bytes(whole)
    assert protect(asked, folder, resume=True).ledger.releases == 3


def test_a_folder_counts_the_rounds_of_its_ledger_its_checkpoint_and_its_metrics(tmp_path: Path) -> None:
    """After the last release in a ledger others may know rounds in which nothing was released."""
    asked = Settings(privacy="client", noise_multiplier=5.0)
    folder = tmp_path / "rank-0"
    run = protect(asked, folder / "privacy", resume=False)
    for number in (0, 1, 4):
        run.ledger.release(number, lambda: b"x")
    assert counted(folder, resume=True, stated=0) == (5, 5)
    (folder / "checkpoint" / "round-00000006").mkdir(parents=True)
    assert counted(folder, resume=True, stated=0) == (7, 5)
    lines = [f'{{"round": {number}, "active": {"true" if number < 7 else "false"}}}\n' for number in range(8)]
    (folder / "metrics.jsonl").write_text("".join(lines))
    assert counted(folder, resume=True, stated=0) == (8, 7), "the last release was sent again where the budget ended"
    with (folder / "metrics.jsonl").open("a") as metrics:
        metrics.write('{"round": 8, "active": false, "adopted": true}\n')
    assert counted(folder, resume=True, stated=0) == (8, 7), "without a checkpoint it may be run after all"
    (folder / "metrics.jsonl").write_text("".join(lines[:5]))
    (folder / "released.json").write_text('{"round": 4, "known": 8, "sent": 7}')
    assert counted(folder, resume=True, stated=0) == (8, 7), "--resume has dropped the lines"
    assert counted(folder, resume=True, stated=9) == (9, 9)
    assert counted(folder, resume=False, stated=0) == (0, 0), "those were rounds of another run"
    assert counted(folder, resume=False, stated=9) == (9, 9)


def test_nothing_is_counted_until_something_was_released(tmp_path: Path) -> None:
    """A copy that was taken while it waited for its neighbors lacks what was released after that."""
    asked = Settings(privacy="client", noise_multiplier=5.0)
    run = protect(asked, tmp_path / "privacy", resume=False, data="b")
    assert counted(tmp_path, resume=True, stated=0) == (0, 0)
    run.ledger.release(20, lambda: b"x")
    assert counted(tmp_path, resume=True, stated=0) == (21, 21)


def test_more_rounds_than_a_run_has_cannot_be_stated() -> None:
    with refused(ConfigurationError, "--rounds-released 21", "at most 20"):
        check_settings(resolve(Settings(rounds_released=21, rounds=20, privacy="client", noise_multiplier=2.0), 0))
    check_settings(resolve(Settings(rounds_released=20, rounds=20, privacy="client", noise_multiplier=2.0), 0))
    with refused(ConfigurationError, "--rounds-released 3", "--privacy"):
        promise(Settings(rounds_released=3))
