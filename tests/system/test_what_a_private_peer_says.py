"""With privacy, neighbors learn settings, progress, and bodies that are noised: nothing else changes with a record.

The comparison trains on data that differ in one record of rank 0, and takes every byte that rank 0 sent, but for the
values of its bodies.
"""

from pathlib import Path
from typing import Any

import msgpack
import pytest
from PIL import Image

from dpeer.peer.transport import Sent
from dpeer.simulation.network import FaultyTransport

pytestmark = pytest.mark.slow

HEADER = "age,bmi,score,diagnosis"
PRIVATE = ("--privacy", "client", "--noise-multiplier", 2)
SAMPLE = ("--privacy", "sample", "--noise-multiplier", 2, "--records", 50)
TARGET = ("--task-option", "target=diagnosis")
SAID = ("--task-option", "columns=age,bmi,score", "--task-option", "classes=well,ill,dead")


@pytest.fixture
def sent(monkeypatch):
    """Everything that rank 0 says from now on: a body's values and digest are replaced by how many bytes they have."""
    found: list[tuple[Any, ...]] = []
    send = FaultyTransport.send

    def listening(transport: FaultyTransport, link: Any, frames: Any) -> Sent:
        header, *buffers = (bytes(frame) for frame in frames)
        fields = msgpack.unpackb(header)
        if fields["kind"] == "body":
            fields["digest"] = len(fields["digest"])
        if fields["rank"] == 0:
            found.append((msgpack.packb(fields), *map(len, buffers)))
        return send(transport, link, frames)

    monkeypatch.setattr(FaultyTransport, "send", listening)
    return found


def write(path: Path, rare: str | None) -> None:
    """60 patients; one of them, of a class of its own, is left out where `rare` is None."""
    rows = [f"{30 + i % 50},{18 + i % 17},{i % 7},{'ill' if i % 3 else 'well'}" for i in range(59)]
    if rare is not None:
        rows.append(f"99,30,5,{rare}")
    path.write_text("\n".join([HEADER, *rows, ""]))


@pytest.fixture
def kinds(sent, simulate, tmp_path):
    """Train, and give what rank 0 sent, by kind."""

    def run(name: str, *options: object) -> dict[str, set[tuple[Any, ...]]]:
        sent.clear()
        simulate("--size", 2, "--task", "csv", "--rounds", 2, "--body-epochs", 1, *options, "--out", name)
        by_kind: dict[str, set[tuple[Any, ...]]] = {}
        for message in sent:
            by_kind.setdefault(msgpack.unpackb(message[0])["kind"], set()).add(message)
        return by_kind

    return run


def check_alike(first: dict[str, set[tuple[Any, ...]]], second: dict[str, set[tuple[Any, ...]]]) -> None:
    """The same hellos and bodies; and no more in the other messages than where a peer is and that it leaves.

    Which of those are sent depends on who ends first: a neighbor that has left gets no goodbye.
    """
    assert set(first) | set(second) <= {"hello", "heartbeat", "body", "goodbye"}
    assert first["hello"] == second["hello"]
    assert first["body"] == second["body"]
    small = [msgpack.unpackb(header) for found in (first, second) for kind in ("heartbeat", "goodbye")
             for (header,) in found.get(kind, ())]  # fmt: skip
    federation = msgpack.unpackb(next(iter(first["body"]))[0])["federation"]
    for fields in small:
        expected = (
            {"round", "got", "presence", "paused", "enters", "stamps", "uses"}
            if fields["kind"] == "heartbeat"
            else {"reason", "back_within"}
        )
        assert set(fields) == {"rank", "kind", "federation"} | expected
        assert fields["federation"] == federation
        assert fields.get("round", 0) in range(3)
        assert not any(fields.get("presence", b""))  # peers of one process tell none
        assert not fields.get("stamps", b""), "all have the federation file alone"
        assert fields.get("uses", b"") in (b"", b"0")
        assert not fields.get("paused", False)
        assert fields.get("enters", 0) == 0
        assert fields.get("reason", "done") == "done"


SCHEMA = """
format = 1
[target]
column = "diagnosis"
classes = ["well", "ill", "dead"]
[columns.age]
kind = "number"
range = [0, 99]
[columns.bmi]
kind = "category"
values = ["18", "20"]
[columns.score]
kind = "number"
range = [0, 20]
"""
"""The record that changes has a value at the end of its range, and one that no other has."""

OWN = ("--task-option", "path=site-{rank}.csv", *TARGET, *SAID)
COMMON = ("--task-option", "path=site-0.csv", *TARGET, *SAID, *PRIVATE, "--partition")


@pytest.mark.parametrize(
    "options",
    [
        (*OWN, *PRIVATE, "--standardize", "--algorithm", "dfedsmdc"),
        (*OWN, *PRIVATE, "--standardize", "--algorithm", "dfedavgm"),
        (*OWN, *PRIVATE, "--standardize", "--algorithm", "fedbabu"),
        (*OWN, *SAMPLE, "--algorithm", "dfedsmdc"),
        (*OWN, *SAMPLE, "--algorithm", "dfedavgm"),
        (*OWN, *SAMPLE, "--algorithm", "fedbabu", "--dp-head", "post"),
        (*OWN[:2], *PRIVATE, "--algorithm", "dfedavgm", "--schema", "schema.toml"),
        (*COMMON, "iid"),
        (*COMMON, "dirichlet:5.0"),
    ],
)
def test_one_record_changes_no_byte_that_is_not_noised(kinds, tmp_path, options):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    write(tmp_path / "site-1.csv", None)
    write(tmp_path / "site-0.csv", "dead")
    first = kinds("first", *options)
    for rare in ("ill", None):
        write(tmp_path / "site-0.csv", rare)
        check_alike(first, kinds(f"with-{rare}", *options))


def test_without_privacy_the_same_comparison_finds_what_the_data_show(kinds, tmp_path):
    """So that the test above can fail: classes that are found go out as a hash, and in the head's shape."""
    found = []
    for rare in ("dead", "ill"):
        for rank in range(2):
            write(tmp_path / f"site-{rank}.csv", rare)
        found.append(kinds(rare, *OWN[:2], *TARGET, "--algorithm", "dfedavgm"))
    first, second = found
    assert first["hello"] != second["hello"]
    assert {sizes for _, *sizes in map(list, first["body"]) for sizes in sizes} != {
        sizes for _, *sizes in map(list, second["body"]) for sizes in sizes
    }


UNITS = ("--task", "csv", *OWN, "--privacy", "sample", "--noise-multiplier", 2)


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        (("--task", "csv", *OWN[:4], *SAID[:2], *PRIVATE), "--task-option classes="),
        (("--task", "csv", *OWN[:4], *SAID[2:], *PRIVATE), "--task-option columns="),
        (("--task", "image-folder", *OWN[:2], "--model", "mlp", *PRIVATE), "--task-option classes=cat,dog"),
        (UNITS, "one record more can change"),
        ((*UNITS, "--privacy-unit", "group", "--task-option", "columns=bmi,score", "--task-option", "group=age"),
         "one group more can change"),
    ],
)  # fmt: skip
def test_what_a_task_finds_in_private_data_must_be_stated(simulate, tmp_path, options, missing):
    """Names, and numbers of records: noise, steps and what sums are divided by follow from them."""
    for rank in range(2):
        if "csv" in options:
            write(tmp_path / f"site-{rank}.csv", None)
        for name in ("cat", "dog") if "image-folder" in options else ():
            folder = tmp_path / f"site-{rank}.csv" / name
            folder.mkdir(parents=True)
            for number in range(20):
                Image.new("RGB", (8, 8), (number * 9, 40, rank * 90)).save(folder / f"{number}.png")
    (line,) = simulate("--size", 2, *options, code=2).complaints
    assert " must be given" in line
    assert missing in line
    assert not list(tmp_path.rglob("metrics.jsonl")), "nothing has been trained"
