"""One record more in files of one's own changes which others are trained on in no built-in task, or it is refused."""

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpeer.exceptions import PartitionError
from dpeer.training import Choices, Task, forget, load_task
from dpeer.training.data.har import CHANNELS
from tests.error_texts import refused
from tests.thinning import every

Record = tuple[int, str]
"""Its number, from which its content is drawn, and whose it is."""

COUNT = 60
BASE = [(number, f"p{number // 3}") for number in range(COUNT)]
NEW = (COUNT, "a new one")
SCHEMA = """
format = 1
target = { column = "sick", classes = ["0", "1"] }
[columns]
blood = { kind = "category", values = ["A", "B"] }
seen = { kind = "date", format = "%Y-%m-%d", since = 2020-01-01, range = [2020-01-01, 2030-01-01] }
a = { kind = "number", range = [-9, 9] }
who = { kind = "WHO" }
"""


def own(task: str, options: dict[str, Any], *, apart: bool = True, **chosen: Any) -> Task:
    forget()
    return load_task(task, 0, 2, 0, options, Choices(partition="own", apart=apart, standardize=False, **chosen))


def numbers(record: Record, shape: Any) -> Any:
    return np.random.default_rng(record[0]).normal(size=shape).round(4)


def csv(where: Path, records: list[Record], validation: float, *, group: bool) -> Task:
    lines = [",".join([*map(str, numbers(one, 2)), one[1], str(one[0] % 2)]) for one in records]
    (where / "t.csv").write_text("\n".join(["a,b,who,sick", *lines]))
    options = {"path": str(where / "t.csv"), "target": "sick", "classes": ["0", "1"], "columns": ["a", "b"]}
    return own("csv", options | ({"group": "who"} if group else {"ignore": ["who"]}), validation=validation)


def schema(where: Path, records: list[Record], validation: float, *, group: bool) -> Task:
    """Every fifth record has gaps; every seventh a category that is not listed."""
    lines = []
    for number, who in records:
        blood, date = ("AB"[number % 2] if number % 7 else "?"), f"2024-01-{number % 28 + 1:02d}"
        cells = (blood, date, str(numbers((number, who), 1)[0])) if number % 5 else ("", "", str(number / 100))
        lines.append(",".join([*cells, who, str(number % 2)]))
    (where / "t.csv").write_text("\n".join(["blood,seen,a,who,sick", *lines]))
    (where / "s.toml").write_text(SCHEMA.replace("WHO", "group" if group else "ignore"))
    return own("csv", {"path": str(where / "t.csv")}, schema=where / "s.toml", validation=validation)


def images(where: Path, records: list[Record], validation: float, *, group: bool) -> Task:
    image = pytest.importorskip("PIL.Image", reason="reading images needs Pillow")
    folder = where / str(len(list(where.iterdir())))
    table = ["file,label,group"]
    for place, (number, who) in enumerate(records):
        path = folder / ("scans" if group else "01"[number % 2]) / f"{place:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        image.fromarray(pixels).save(path)
        table.append(f"scans/{path.name},{number % 2},{who}")
    if group:
        (folder / "labels.csv").write_text("\n".join(table))
    options = {"path": str(folder), "image_size": 8, "classes": ["0", "1"]}
    return own("image-folder", options, validation=validation)


def glue(where: Path, records: list[Record], validation: float, **more: Any) -> Task:
    """What is held out is for validation alone: the test examples have a file of their own."""
    pytest.importorskip("transformers")
    sentences = [f"sentence {number}\t{number % 2}" for number, _ in records]
    (where / "train.tsv").write_text("\n".join(["sentence\tlabel", *sentences, ""]))
    (where / "dev.tsv").write_text("\n".join(["sentence\tlabel", *sentences[:20], ""]))
    options = {"data": str(where), "name": "sst2", "length": 16, **more}
    return own("glue", options, validation=validation)


def femnist(where: Path, records: list[Record], validation: float) -> Task:
    pixels = {one: np.random.default_rng(one[0]).integers(0, 256, 784) / 255 for one in records}
    users = [f"w{number}" for number in range(5)]
    data = {
        user: {"x": [pixels[one].tolist() for one in theirs], "y": [one[0] % 2 for one in theirs]}
        for number, user in enumerate(users) if (theirs := [one for one in records if one[0] % 5 == number])
    }  # fmt: skip
    content = {"users": users, "num_samples": [len(one["y"]) for one in data.values()], "user_data": data}
    (where / "a.json").write_text(json.dumps(content))
    return own("femnist", {"data": str(where)}, validation=validation)


def trained_on(task: Task) -> Counter[bytes]:
    inputs, targets = task.train.tensors
    return Counter(one.numpy().tobytes() + other.numpy().tobytes() for one, other in zip(inputs, targets, strict=True))


KINDS: dict[str, Callable[[Path, list[Record], float], Task]] = {
    **{f"{kind.__name__} {group=}": partial(kind, group=group) for kind in (csv, schema, images) for group in (0, 1)},
    "glue": glue,
    "femnist": femnist,
}


@pytest.mark.slow
@pytest.mark.parametrize("validation", every(2, [0.4, 0.0]))
@pytest.mark.parametrize("kind", KINDS)
def test_a_record_more_is_all_that_differs(kind: str, validation: float, tmp_path: Path) -> None:
    more = {
        "in front": [NEW, *BASE],
        "in the middle": [*BASE[:40], NEW, *BASE[40:]],
        "at the end": [*BASE, NEW],
        "in a group": [*BASE[:40], (COUNT, "p9"), *BASE[40:]],
        "twice": [*BASE, BASE[4]],
        "again in front": [BASE[31], *BASE],
    }
    task = KINDS[kind](tmp_path, BASE, validation)
    before, facts = trained_on(task), (task.built, task.names)
    held = COUNT - sum(before.values())
    assert held > 5 or (kind == "glue" and not validation), "else nothing is seen"
    for where, records in more.items():
        task = KINDS[kind](tmp_path, records, validation)
        after = trained_on(task)
        assert (task.built, task.names) == facts, "they are in the card of the model"
        assert not before - after, where
        assert sum((after - before).values()) <= 1, where


def test_a_drawn_part_of_the_training_records_is_for_other_promises(tmp_path: Path) -> None:
    with pytest.raises(PartitionError):
        glue(tmp_path, BASE, 0.0, train_samples=40)
    assert len(glue(tmp_path, BASE, 0.0, test_samples=10).test) == 10, "nothing leaves that depends on test records"
    options = {"data": str(tmp_path), "name": "sst2", "length": 16, "train_samples": 40}
    assert len(own("glue", options, apart=False).train) == 40
    divided = load_task("glue", 0, 2, 0, options, Choices(partition="iid", apart=True))
    assert len(divided.train) == 20, "a common data set may be divided as before"


def har(folder: Path, *, tested: bool) -> dict[str, Any]:
    signal = np.random.default_rng(0).normal(size=(64 * 61, len(CHANNELS))).astype(np.float32)
    x = np.stack([signal[64 * n : 64 * n + 128] for n in range(60)])
    person, y = np.arange(60) // 6, np.arange(60) % 6
    np.savez(folder / "h.npz", x=x, y=y, subject=person, is_test=(person == 9) & tested)
    return {"data": str(folder / "h.npz")}


def test_stretches_are_parted_where_single_records_are_not_protected(tmp_path: Path) -> None:
    assert len(own("har", har(tmp_path, tested=False), apart=False, validation=0.3).train)
    assert len(own("har", har(tmp_path, tested=True)).train) == 54, "all are trained on: none is held out"


@pytest.mark.parametrize(
    ("tested", "choices", "fragment"),
    [(False, {}, "to experiment --partition subject"), (True, {"validation": 0.3}, "leave --validation out")],
)
def test_windows_that_overlap_are_not_held_out_where_single_records_are_protected(
    tested: bool, choices: dict[str, Any], fragment: str, tmp_path: Path
) -> None:
    with refused(PartitionError, "partition 'own': of these data whole stretches are held out", fragment):
        own("har", har(tmp_path, tested=tested), **choices)
