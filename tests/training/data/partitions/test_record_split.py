"""Who is held out of training, where nobody's fate may depend on another sample."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dpeer.exceptions import PartitionError
from dpeer.training import Choices, load_task
from dpeer.training.data.partitions import hold_out_apart
from dpeer.training.data.pool import Data, Pool
from dpeer.training.tasks.pooled import keep

KEY = b"0123456789abcdef"


def names(count: int) -> list[bytes]:
    return [str(number).encode() for number in range(count)]


def test_about_that_share_is_held_out_and_each_key_chooses_others() -> None:
    first, second = (set(hold_out_apart(names(10_000), 0.2, key).tolist()) for key in (KEY, b"another"))
    for held in (first, second):
        assert len(held) == pytest.approx(2000, abs=5 * 40)  # five standard deviations
    assert len(first & second) == pytest.approx(400, abs=5 * 20)


def test_a_sample_more_changes_no_others_fate_wherever_it_stands() -> None:
    before = names(500)
    held = {before[row] for row in hold_out_apart(before, 0.3, KEY)}
    for place in (0, 250, 500):
        after = [*before[:place], b"new", *before[place:]]
        assert {after[row] for row in hold_out_apart(after, 0.3, KEY)} - {b"new"} == held


def test_equal_samples_are_held_out_together_however_many_they_are() -> None:
    for name in names(40):
        counts = [len(hold_out_apart([name] * count, 0.5, KEY)) for count in (1, 2, 50)]
        assert counts in ([0, 0, 0], [1, 2, 50])


def test_a_group_is_not_parted() -> None:
    groups = np.arange(600) // 3
    held = hold_out_apart([str(group).encode() for group in groups], 0.2, KEY)
    rows, counts = np.unique(groups[held], return_counts=True)
    assert set(counts.tolist()) == {3}
    assert 10 < len(rows) < 80


def test_inputs_tell_samples_apart_and_neither_their_class_nor_their_group() -> None:
    inputs, targets = torch.tensor([[1.0], [1.0], [2.0], [1.0]]), torch.tensor([0, 1, 0, 0])
    for groups in (None, np.array(["a", "a", "a", "b"])):
        found = Pool(inputs, targets, groups).names(np.arange(4))
        assert found[0] == found[1] == found[3] != found[2]


def test_bytes_and_what_a_model_gets_of_them_have_one_name() -> None:
    pool = Pool(torch.arange(256, dtype=torch.uint8).reshape(256, 1, 1, 1), torch.zeros(256, dtype=torch.int64))
    index = np.arange(256)
    assert Pool(*pool.rows(index)).names(index) == pool.names(index)


def test_a_group_that_is_not_parted_has_its_own_name_whatever_its_number() -> None:
    inputs, targets = torch.arange(3.0).unsqueeze(1), torch.zeros(3, dtype=torch.int64)
    for numbers in ([0, 1, 0], [7, 3, 7]):
        pool = Pool(inputs, targets, np.array(["b", "a", "b"]), np.array(numbers))
        assert pool.names(np.arange(3)) == [b"b", b"a", b"b"]


def test_too_few_by_chance_is_said() -> None:
    data = Data(Pool(torch.arange(11.0).unsqueeze(1), torch.zeros(11, dtype=torch.int64)), None, 2)
    with pytest.raises(PartitionError, match=r"give it more data \(who is held out is drawn one by one where single"):
        keep(data, 0, 0.0, 0, apart=True)


def table(path: Path, patients: range) -> str:
    """Three rows for each patient, whose names sort otherwise than they stand here."""
    rows = np.random.default_rng(1).normal(size=(max(patients) + 1, 3, 2)).round(4)
    lines = [
        f"{a},{b},P{patient * 7919 % 10007},{patient % 2}"
        for patient in patients for a, b in rows[patient]
    ]  # fmt: skip
    path.write_text("\n".join(["a,b,patient,sick", *lines]))
    return str(path)


def rows_of(part: Any) -> set[tuple[float, ...]]:
    tensor: Tensor = part.tensors[0]
    return {tuple(row) for row in tensor.round(decimals=4).tolist()}


@pytest.mark.parametrize("more", [{}, {"group": "patient"}, {"ignore": ["patient"]}])
@pytest.mark.parametrize("validation", [0.0, 0.2])
def test_rows_more_in_ones_own_table_part_no_others(tmp_path: Path, more: dict[str, Any], validation: float) -> None:
    """A row, or a patient with all rows, is the only difference between the training sets."""
    if not more:
        more = {"ignore": ["patient"], "columns": ["a", "b"]}
    found = []
    for patients in (range(1, 120), range(120)):
        options = {
            "path": table(tmp_path / f"{patients.start}.csv", patients),
            "target": "sick",
            "classes": ["0", "1"],
            **more,
        }
        choices = Choices(validation=validation, apart=True, standardize=False)
        task = load_task("csv", 0, 3, 0, options, choices)
        assert task.validation is not None or not validation
        found.append([rows_of(part) for part in (task.train, task.test, task.validation or task.test)])
    new = rows_of_first(tmp_path)
    for before, after in zip(*found, strict=True):
        assert before <= after
        assert after - before <= new
    together = set.union(*found[1])
    assert new <= together


def rows_of_first(tmp_path: Path) -> set[tuple[float, ...]]:
    """The rows of the patient who is new."""
    lines = (tmp_path / "0.csv").read_text().splitlines()[1:4]
    return {
        tuple(torch.tensor([float(cell) for cell in line.split(",")[:2]]).round(decimals=4).tolist()) for line in lines
    }
