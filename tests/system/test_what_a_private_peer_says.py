"""With privacy, neighbors learn settings, progress, and bodies that are noised: nothing else changes with a record.

Each test trains twice on data that differ in one record of rank 0, and compares every byte that rank 0 sent, but for
the values of its bodies.
"""

import re
from pathlib import Path
from typing import Any, get_args

import msgpack
import pytest

from dpeer.peer.core import wire
from dpeer.peer.transport import Sent
from dpeer.peer.transports.inprocess import InProcessTransport

pytestmark = pytest.mark.slow

HEADER = "age,bmi,score,diagnosis"
PRIVATE = ("--privacy", "client", "--noise-multiplier", 2)
SAMPLE = ("--privacy", "sample", "--noise-multiplier", 2, "--records", 50)
SAID = ("--task-option", "columns=age,bmi,score", "--task-option", "classes=well,ill,dead")


@pytest.fixture
def sent(monkeypatch):
    """Everything that rank 0 says from now on: a body's values and digest are replaced by how many bytes they have."""
    found: list[tuple[Any, ...]] = []
    send = InProcessTransport.send

    def listening(transport: InProcessTransport, link: Any, frames: Any) -> Sent:
        header, *buffers = (bytes(frame) for frame in frames)
        fields = msgpack.unpackb(header)
        if fields["kind"] == "body":
            fields["digest"] = len(fields["digest"])
        if fields["rank"] == 0:
            found.append((msgpack.packb(fields), *map(len, buffers)))
        return send(transport, link, frames)

    monkeypatch.setattr(InProcessTransport, "send", listening)
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

    def run(
        name: str, *options: object, target: tuple[object, ...] = ("--task-option", "target=diagnosis")
    ) -> dict[str, set[tuple[Any, ...]]]:
        sent.clear()
        simulate("--size", 2, "--task", "csv", *target, "--rounds", 2, "--body-epochs", 1, *options, "--out", name)
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
            {"round", "got", "pace", "presence", "paused", "enters", "stamps", "uses"}
            if fields["kind"] == "heartbeat"
            else {"reason", "back_within"}
        )
        assert set(fields) == {"rank", "kind", "federation"} | expected
        assert fields["federation"] == federation
        assert fields.get("round", 0) in range(3)
        assert fields.get("pace", 0) == 0
        assert not any(fields.get("presence", b""))  # peers of one process tell none
        assert not fields.get("stamps", b""), "all have the federation file alone"
        assert fields.get("uses", b"") in (b"", b"0")
        assert not fields.get("paused", False)
        assert fields.get("enters", 0) == 0
        assert fields.get("reason", "done") == "done"


@pytest.mark.parametrize(
    ("algorithm", "private"),
    [
        ("dfedsmdc", (*PRIVATE, "--standardize")),
        ("dfedavgm", (*PRIVATE, "--standardize")),
        ("fedbabu", (*PRIVATE, "--standardize")),
        ("dfedsmdc", SAMPLE),
        ("dfedavgm", SAMPLE),
        ("fedbabu", (*SAMPLE, "--dp-head", "post")),
    ],
)
def test_one_record_changes_no_byte_that_is_not_noised(kinds, tmp_path, algorithm, private):
    write(tmp_path / "site-1.csv", None)
    options = ("--task-option", "path=site-{rank}.csv", *SAID, *private, "--algorithm", algorithm)
    write(tmp_path / "site-0.csv", "dead")
    first = kinds("first", *options)
    for rare in ("ill", None):
        write(tmp_path / "site-0.csv", rare)
        check_alike(first, kinds(f"with-{rare}", *options))


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


def test_nor_with_a_schema(kinds, tmp_path):
    """The record that changes has a value at the end of its range, and one that no other has."""
    (tmp_path / "schema.toml").write_text(SCHEMA)
    write(tmp_path / "site-1.csv", None)
    options = ("--task-option", "path=site-{rank}.csv", *PRIVATE, "--algorithm", "dfedavgm", "--schema", "schema.toml")
    write(tmp_path / "site-0.csv", "dead")
    first = kinds("first", *options, target=())
    for rare in ("ill", None):
        write(tmp_path / "site-0.csv", rare)
        check_alike(first, kinds(f"with-{rare}", *options, target=()))


@pytest.mark.parametrize("partition", ["iid", "dirichlet:5.0"])
def test_nor_does_it_where_a_common_table_is_divided(kinds, tmp_path, partition):
    options = ("--task-option", "path=all.csv", *SAID, *PRIVATE, "--partition", partition)
    found = []
    for name, rare in (("first", "dead"), ("second", "well"), ("third", None)):
        write(tmp_path / "all.csv", rare)
        found.append(kinds(name, *options))
    check_alike(found[0], found[1])
    check_alike(found[0], found[2])


def test_without_privacy_the_same_comparison_finds_what_the_data_show(kinds, tmp_path):
    """So that the tests above can fail: classes that are found go out as a hash, and in the head's shape."""
    for rank in range(2):
        write(tmp_path / f"site-{rank}.csv", "dead")
    options = ("--task-option", "path=site-{rank}.csv", "--algorithm", "dfedavgm")
    first = kinds("first", *options)
    for rank in range(2):
        write(tmp_path / f"site-{rank}.csv", "ill")
    second = kinds("second", *options)
    assert first["hello"] != second["hello"]
    assert {sizes for _, *sizes in map(list, first["body"]) for sizes in sizes} != {
        sizes for _, *sizes in map(list, second["body"]) for sizes in sizes
    }


@pytest.mark.parametrize("missing", ["columns", "classes"])
def test_classes_and_columns_are_not_taken_from_private_data(simulate, tmp_path, missing):
    for rank in range(2):
        write(tmp_path / f"site-{rank}.csv", "dead")
    options = [word for word in SAID if not str(word).startswith(missing)]
    given = [option for word in options if word != "--task-option" for option in ("--task-option", word)]
    (line,) = simulate("--size", 2, "--task", "csv", "--task-option", "target=diagnosis", "--task-option",
                       "path=site-{rank}.csv", *given, *PRIVATE, code=2).complaints  # fmt: skip
    assert f"{missing} must be given" in line
    assert f"--task-option {missing}=" in line


def test_a_page_has_every_message_and_field_of_a_private_peer():
    page = (Path(__file__).parents[2] / "docs" / "wire.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"^## Messages of a private peer$(.*?)^## ", page, flags=re.DOTALL | re.MULTILINE)
    documented: dict[str, str] = {}
    kind = ""
    for first, rest in re.findall(r"^\| ([^|]*)\|(.*)$", section, flags=re.MULTILINE)[1:]:
        kind = first.split(",")[0].strip() or kind
        documented[kind] = documented.get(kind, "") + rest
    # What a field is called there, where that is another word.
    words = {
        "next_round": "next round", "fingerprint": "settings", "manifest": "shapes",
        "digest": {"hello": "SHA-256 of the first body", "body": "their `digest`"},
        "reason": {"goodbye": "done, stopped, failed, isolated or left", "refusal": "another process"},
        "federation": "federation id", "sizes": "sizes",
    }  # fmt: skip
    for message in get_args(wire.Message):
        kind = message.model_fields["kind"].default
        for name, field in message.model_fields.items():
            if name in ("kind", "reply") or field.exclude:
                continue
            word = words.get(name, name)
            assert (word if isinstance(word, str) else word[kind]) in documented[kind], (kind, name)
    assert set(documented) == {message.model_fields["kind"].default for message in get_args(wire.Message)}


@pytest.mark.parametrize("unit", ["record", "group"])
def test_the_number_of_records_is_not_taken_from_them(simulate, tmp_path, unit):
    """One more can change a rounded number, and noise, steps and what sums are divided by follow from it."""
    for rank in range(2):
        write(tmp_path / f"site-{rank}.csv", None)
    options = [word for word in SAID if word != "--task-option"]
    columns, classes = ("columns=bmi,score", options[1]) if unit == "group" else options
    of_unit = ("--privacy-unit", unit, *(("--task-option", "group=age") if unit == "group" else ()))
    (line,) = simulate("--size", 2, "--task", "csv", "--task-option", "target=diagnosis", "--task-option",
                       "path=site-{rank}.csv", "--task-option", columns, "--task-option", classes, *SAMPLE[:-2],
                       *of_unit, "--delta", 1e-5, code=2).complaints  # fmt: skip
    assert "--records N must be given" in line
    assert f"one {unit} more can change" in line
    assert f"about how many {unit}s it trains with (it has " in line
    assert not list(tmp_path.rglob("metrics.jsonl")), "nothing has been trained"


def test_nor_are_the_classes_of_folders_of_images(simulate, tmp_path):
    from PIL import Image

    for rank in range(2):
        for name in ("cat", "dog"):
            folder = tmp_path / f"site-{rank}" / name
            folder.mkdir(parents=True)
            for number in range(20):
                Image.new("RGB", (8, 8), (number * 9, 40, rank * 90)).save(folder / f"{number}.png")
    common = ("--size", 2, "--task", "image-folder", "--task-option", "path=site-{rank}", *PRIVATE, "--rounds", 1,
              "--body-epochs", 1, "--task-option", "image_size=8", "--model", "mlp")  # fmt: skip
    assert "--task-option classes=cat,dog" in simulate(*common, code=2).err
    simulate(*common, "--task-option", "classes=cat,dog,bird")
