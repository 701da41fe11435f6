"""The write-ahead ledger, and processes that die in the middle of it."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import CheckpointError
from dpeer.privacy import Charge, Ledger
from dpeer.privacy import ledger as ledger_module
from dpeer.privacy.ledger import Charged
from dpeer.privacy.noise import SCHEME

M = {"noise_multiplier": 2.0, "clip_norm": 0.5}
SAMPLE = {"sampling_rate": 0.05, "noise_multiplier": 1.0, "unit": "record"}
STEPS = Charge(0.05, 1.0, 30)


def opened(level: Any, folder: Path, *, resume: bool = False, **values: Any) -> Ledger:
    changes, options = values.pop("changes", {}), {"data": "a", **values}
    return Ledger(folder, {**(M if level == "client" else SAMPLE), **changes}, level=level, resume=resume, **options)


def charge(ledger: Ledger, level: str, number: int) -> None:
    if level == "client":
        ledger.release(number, lambda: b"x")
    else:
        ledger.charge(Charged(number, charge=STEPS))


both_levels = pytest.mark.parametrize("level", ["client", "sample"])


def rounds(folder: Path) -> list[int]:
    return [json.loads(line)["round"] for line in (folder / "ledger.jsonl").read_text().splitlines()[1:]]


def test_the_charge_is_on_disk_before_the_release_is_more_than_a_draft(tmp_path, monkeypatch):
    folder = tmp_path / "privacy"
    ledger = Ledger(folder, M, resume=False)
    assert ledger.releases == 0
    assert not folder.exists(), "nothing is written before the first charge"
    rename = Path.rename

    def watched(draft: Path, final: Path) -> Path:
        assert rounds(folder) == [0]
        assert [path.suffix for path in folder.glob("released-*")] == [".part"]
        return rename(draft, final)

    monkeypatch.setattr(Path, "rename", watched)
    assert ledger.release(0, lambda: b"body") == b"body"
    again = Ledger(folder, M, resume=True)
    assert (again.releases, again.released(0), again.last()) == (1, b"body", b"body")
    assert not again.charged(1)


def refuses(*arguments: object) -> None:
    raise OSError("the disk is full")


def test_a_process_that_ends_between_charge_and_name_has_lost_nothing(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path, M, resume=False)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuses)
        with pytest.raises(OSError, match="full"):
            ledger.release(4, lambda: b"body")
    again = Ledger(tmp_path, M, resume=True)
    assert (again.charged(4), again.released(4), again.last()) == (True, b"body", b"body")
    assert [path.name for path in tmp_path.glob("released-*")] == ["released-00000004.bin"], "once it is asked for"
    for number in (5, 6):
        again.release(number, lambda: b"next")
    assert sorted(path.name[-6:] for path in tmp_path.glob("released-*")) == ["05.bin", "06.bin"]


def test_a_disk_without_room_for_the_bytes_charges_nothing_and_another_process_makes_others(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path, M, resume=False)
    ledger.release(3, lambda: b"before")
    with monkeypatch.context() as patch:
        patch.setattr(ledger_module, "append", refuses)
        with pytest.raises(OSError, match="full"):
            ledger.release(4, lambda: b"body")
    again = Ledger(tmp_path, M, resume=True)
    assert (again.releases, again.charged(4), again.released(4)) == (1, False, None)
    assert again.release(4, lambda: b"other") == b"other"
    assert Ledger(tmp_path, M, resume=True).released(4) == b"other"
    assert len(list(tmp_path.glob("released-*"))) == 2


def test_a_release_that_was_charged_and_lost_stays_silent(tmp_path):
    Ledger(tmp_path, M, resume=False).release(4, lambda: b"body")
    (tmp_path / "released-00000004.bin").unlink()
    again = Ledger(tmp_path, M, resume=True)
    assert again.charged(4)
    assert again.released(4) is None
    with pytest.raises(ValueError, match="charged already"):
        again.release(4, lambda: b"other")


def test_a_line_says_when_what_and_to_whom(tmp_path):
    before = time.time()
    Ledger(tmp_path, M, resume=False).release(3, lambda: b"body", [5, 2])
    first, line = (json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines())
    assert first["mechanism"] == M
    assert first["noise"] == SCHEME
    assert (line["round"], line["to"]) == (3, [2, 5])
    assert line["sha256"] == hashlib.sha256(b"body").hexdigest()
    assert before - 0.01 <= first["time"] <= line["time"] <= time.time() + 0.01


def test_bytes_that_are_not_those_that_were_charged_are_never_sent(tmp_path):
    ledger = Ledger(tmp_path, M, resume=False)
    for number in range(2):
        ledger.release(number, lambda n=number: bytes([n]))
    (tmp_path / "released-00000001.bin").write_bytes(b"of a copy of this folder")
    again = Ledger(tmp_path, M, resume=True)
    assert again.charged(1)
    assert again.released(1) is None
    assert again.last() == b"\0"


def test_as_many_bytes_stay_as_a_run_may_have_to_send_again(tmp_path):
    ledger = Ledger(tmp_path, M, resume=False, keep=4)
    for number in (0, 1, 3, 4, 7, 8):
        ledger.release(number, lambda n=number: bytes([n]))
    again = Ledger(tmp_path, M, resume=True, keep=4)
    assert [number for number in range(9) if again.released(number) == bytes([number])] == [3, 4, 7, 8]
    again.release(9, lambda: b"next")
    assert sorted(path.name[-6:] for path in tmp_path.glob("released-*")) == ["04.bin", "07.bin", "08.bin", "09.bin"]


def test_a_run_that_begins_anew_has_nothing_of_the_old_one(tmp_path):
    Ledger(tmp_path, M, resume=False).release(0, lambda: b"old")
    begun = Ledger(tmp_path, {**M, "clip_norm": 9.0}, resume=False)
    assert (begun.releases, begun.last()) == (0, None)
    assert begun.release(1, lambda: b"new") == b"new"
    assert [path.name for path in tmp_path.glob("released-*")] == ["released-00000001.bin"]
    assert json.loads((tmp_path / "ledger.jsonl").read_text().splitlines()[0])["mechanism"]["clip_norm"] == 9.0


@both_levels
def test_a_charge_is_on_disk_with_its_mechanism_before_it_takes_effect(tmp_path: Path, level: Any) -> None:
    folder = tmp_path / "privacy"
    ledger = opened(level, folder)
    assert not folder.exists(), "nothing is written before the first charge"
    charge(ledger, level, 0)
    first, line = (json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines())
    assert first["mechanism"] == (M if level == "client" else SAMPLE)
    assert (first["noise"], line["round"]) == (SCHEME, 0)
    if level == "sample":
        assert line["charge"] == {"sampling_rate": 0.05, "noise_multiplier": 1.0, "steps": 30}


@both_levels
def test_a_run_goes_on_with_what_it_has_charged_and_only_as_what_it_was(tmp_path: Path, level: Any) -> None:
    ledger = opened(level, tmp_path)
    for number in range(9):
        charge(ledger, level, number)
    again = opened(level, tmp_path, resume=True)
    assert (again.releases, again.charges, again.steps) == (ledger.releases, ledger.charges, ledger.steps)
    assert again.steps == (270 if level == "sample" else 0)
    for name, value in (("noise_multiplier", 50.0), ("clip_norm", 9.0)):
        with pytest.raises(CheckpointError):
            opened(level, tmp_path, resume=True, changes={name: value})
    with pytest.raises(CheckpointError):
        opened(level, tmp_path, resume=True, data="b")
    other: Any = "sample" if level == "client" else "client"
    with pytest.raises(CheckpointError):
        opened(other, tmp_path, resume=True)


@both_levels
@pytest.mark.parametrize("torn", ['{"rou', '{"round": 1, "charge": {"sampl'])
def test_a_line_without_its_end_was_never_acted_upon(tmp_path: Path, level: Any, torn: str) -> None:
    charge(opened(level, tmp_path), level, 0)
    with (tmp_path / "ledger.jsonl").open("a") as file:
        file.write(torn)
    again = opened(level, tmp_path, resume=True)
    charge(again, level, 1)
    assert rounds(tmp_path) == [0, 1]
    (tmp_path / "ledger.jsonl").write_text('{"mech')
    charge(opened(level, tmp_path, resume=True), level, 3)
    assert rounds(tmp_path) == [3], "begun anew"


@both_levels
@pytest.mark.parametrize(
    "content",
    [
        "nonsense\n",
        '{"round": "a"}\n',
        '{"round": 0}\n[]\n{"round": 1}\n',
        *(f'HEADER\n{{"round": 0, "charge": {{"sampling_rate": 0.05, "noise_multiplier": 1.0, "steps": 30}}}}\n{line}\n'
          for line in (
            '{"round": 1, "time": 1.0}',
            '{"round": 1, "charge": {"sampling_rate": 0.05, "noise_multiplier": 1.0, "steps": -30}}',
            '{"round": 1, "charge": {"sampling_rate": 0.05, "noise_multiplier": 1.0}}',
            '{"round": 1, "charge": 30}',
        )),
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_counted_is_damage_of_the_named_file(tmp_path: Path, level: Any, content: str) -> None:
    header = json.dumps({"mechanism": SAMPLE, "noise": SCHEME, "data": "a", "time": 0.5})
    (tmp_path / "ledger.jsonl").write_text(content.replace("HEADER", header))
    with pytest.raises(CheckpointError):
        opened(level, tmp_path, resume=True)


def test_a_disk_that_refuses_may_have_taken_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = opened("sample", tmp_path)
    ledger.charge(Charged(0, charge=STEPS))

    def full(path: Path, line: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(ledger_module, "append", full)
    with pytest.raises(OSError, match="full"):
        ledger.charge(Charged(1, charge=STEPS))
    assert ledger.charges == (STEPS, STEPS)


def test_nothing_is_charged_after_the_end(tmp_path: Path) -> None:
    ledger = opened("sample", tmp_path)
    with pytest.raises(ValueError, match="has charged nothing"):
        ledger.charge(Charged(0, ended=True))
    ledger.charge(Charged(0, charge=STEPS))
    ledger.charge(Charged(1, ended=True))
    for ended in (ledger, opened("sample", tmp_path, resume=True)):
        assert ended.ended
        with pytest.raises(ValueError, match="after the end"):
            ended.charge(Charged(1, charge=STEPS))


LIVES = """
import os, sys
from pathlib import Path
from dpeer.privacy import Ledger

def live(start):
    ledger = Ledger(Path(sys.argv[1]), {"noise_multiplier": 2.0, "clip_norm": 0.5}, resume=True)
    for number in range(start, start + 10_000):
        sent = ledger.released(number) if ledger.charged(number) else ledger.release(number, lambda: os.urandom(2000))
        if sent is not None:  # "sent": somebody else has it now
            os.write(1, f"{number} {sent.hex()}\\n".encode())

for line in sys.stdin:
    life = os.fork()
    if not life:
        os.write(1, f"{os.getpid()}\\n".encode())
        live(int(line))
        os._exit(0)
    os.waitpid(life, 0)
    os.write(1, b"ended\\n")
"""
"""A process of its own for each life, with the modules in memory. (A write so short is whole or not there.)"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_at_any_moment_nothing_sent_is_uncharged_or_sent_again_with_other_noise(tmp_path):
    """20 lives, each killed at a random moment; each goes on one round before where the last one was."""
    draw = random.Random(7)
    folder, seen, start = tmp_path / "privacy", {}, 0
    with subprocess.Popen(
        [sys.executable, "-c", LIVES, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as lives:
        for _ in range(20):
            print(start, file=lives.stdin)
            life = int(lives.stdout.readline())
            lines = [lives.stdout.readline() for _ in range(draw.randrange(1, 8))]
            os.kill(life, signal.SIGKILL)
            for line in [*lines, *iter(lives.stdout.readline, "ended\n")]:
                number, sent = line.split()
                assert seen.setdefault(int(number), sent) == sent, "a round was sent twice with different noise"
            charged = set(rounds(folder)) if (folder / "ledger.jsonl").read_text().endswith("\n") else None
            ledger = Ledger(folder, M, resume=True)
            charged = charged or set(rounds(folder))
            assert set(seen) <= charged, "something was sent that is not charged"
            assert ledger.released(max(charged)) is not None, "a round that is charged has its bytes"
            start = max(seen)  # where a checkpoint of the round before would go on
            assert ledger.released(start) is not None, "the bytes that were sent can be sent again"
    assert len(seen) > 20
