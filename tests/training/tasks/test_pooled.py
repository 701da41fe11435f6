"""Tasks of a pool: test, validation and group splits; options and paths of one's own data."""

import gc
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dpeer.exceptions import ConfigurationError, PartitionError, TaskError
from dpeer.training import BUILTIN_TASKS, Choices, forget, load_task
from dpeer.training.data.pool import Data, Pool
from dpeer.training.tasks.builtin import check_own_data, read
from dpeer.training.tasks.pooled import HoldOut, divide, keep, pooled_task
from tests.error_texts import refused


def pool(count: int, *, first: int = 0, groups: Any = None, stretches: Any = None, classes: int = 4) -> Pool:
    """Samples whose only feature is their number; class by number."""
    numbers = torch.arange(first, first + count)
    return Pool(numbers.float().unsqueeze(1), numbers % classes, groups, stretches)


def part_sets(division: Any) -> list[dict[str, set[int]]]:
    """Each peer's parts, by the samples' feature."""
    found = []
    for part in division.parts:
        rows = {"train": part.train, "validation": part.validation, "test": part.test}
        found.append(
            {
                name: set((division.test if name == "test" else division.train).inputs[index, 0].int().tolist())
                for name, index in rows.items()
            }
        )
    return found


def disjoint(parts: list[dict[str, set[int]]]) -> set[int]:
    everything = [sample for peer in parts for part in peer.values() for sample in part]
    assert len(everything) == len(set(everything))
    return set(everything)


@pytest.mark.parametrize("spec", ["iid", "dirichlet:1", "dirichlet-equal:1", "pathological:2"])
def test_a_pool_without_tests_holds_out_a_fifth(spec: str) -> None:
    parts = part_sets(divide(Data(pool(800), None, 4), 5, spec, "disjoint", HoldOut(0.25, 0)))
    assert disjoint(parts) == set(range(800))
    for peer in parts:
        whole = sum(map(len, peer.values()))
        assert len(peer["test"]) == pytest.approx(whole / 5, abs=1)
        assert len(peer["validation"]) == pytest.approx(whole / 5, abs=1.3)
        for number in range(4):
            mine = {name: sum(sample % 4 == number for sample in part) for name, part in peer.items()}
            assert abs(mine["test"] - sum(mine.values()) / 5) < 1


def test_validation_is_of_training_and_moves_nothing_else() -> None:
    data = Data(pool(800), pool(200, first=800), 4)
    without = part_sets(divide(data, 4, "iid", "disjoint", HoldOut(0.0, 3)))
    with_it = part_sets(divide(data, 4, "iid", "disjoint", HoldOut(0.2, 3)))
    for plain, peer in zip(without, with_it, strict=True):
        assert peer["train"] | peer["validation"] == plain["train"]
        assert peer["test"] == plain["test"]
        assert all(sample >= 800 for sample in peer["test"])
        assert len(peer["validation"]) == 40


def test_groups_keep_their_own_tests() -> None:
    """Each group's samples come divided: whoever gets the group gets both parts, and nothing else is held out."""
    data = Data(
        pool(300, groups=np.repeat(np.arange(6), 50)), pool(60, first=300, groups=np.tile(np.arange(6), 10)), 4,
        "writer", same_groups=True,
    )  # fmt: skip
    parts = part_sets(divide(data, 3, "writer", "disjoint", HoldOut(0.1, 0)))
    assert disjoint(parts) == set(range(360))
    for peer in parts:
        assert all(sample >= 300 for sample in peer["test"])
        trained = {sample // 50 for sample in peer["train"]}
        assert trained == {sample // 50 for sample in peer["validation"]} == {sample % 6 for sample in peer["test"]}
        assert len(trained) == 2
        assert (len(peer["test"]), len(peer["validation"])) == (20, 10)


def test_stretches_are_whole_in_every_part() -> None:
    stretches = np.random.default_rng(0).integers(0, 60, 600)
    data = Data(pool(600, groups=stretches % 5, stretches=stretches), None, 4, "subject")
    for seed in range(5):
        parts = part_sets(divide(data, 5, "subject", "disjoint", HoldOut(0.3, seed)))
        assert disjoint(parts) == set(range(600))
        for rank, peer in enumerate(parts):
            held = [{int(stretches[sample]) for sample in part} for part in peer.values()]
            assert sum(map(len, held)) == len(set.union(*held)) == 12
            assert {stretch % 5 for part in held for stretch in part} == {rank}


def test_a_data_set_is_read_once_and_can_be_forgotten() -> None:
    """One reading serves all peers of a process; then nothing holds on to it."""
    count = 0

    def reader() -> Data:
        nonlocal count
        count += 1
        return Data(pool(100), None, 4)

    def task(rank: int) -> Any:
        return pooled_task(read(reader, {}, 0), rank, 2, 0, Choices(partition="iid"), model="mlp")

    first, second = task(0), task(1)
    assert count == 1
    data = weakref.ref(read(reader, {}, 0))
    forget()
    gc.collect()
    assert data() is None
    assert len(first.train) + len(second.train) == 80
    task(0)
    assert count == 2


def test_a_file_that_has_changed_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"

    def reader(path: str) -> Data:
        return Data(pool(len(Path(path).read_text())), None, 4)

    path.write_text("x" * 20)
    first = read(reader, {"path": str(path)}, 0)
    assert read(reader, {"path": str(path)}, 0) is first
    path.write_text("x" * 30)
    assert len(read(reader, {"path": str(path)}, 0).train) == 30


@pytest.mark.parametrize("options", [{}, {"train_samples": 90, "test_samples": 40}])
@pytest.mark.parametrize("spec", ["writer", "iid"])
def test_places_are_those_in_the_whole_pools(options: dict[str, int], spec: str) -> None:
    """Whole writers count through both pools, as they were before some of their samples were drawn."""

    def reader() -> Data:
        return Data(
            pool(200, groups=np.arange(200) % 4), pool(80, first=200, groups=4 + np.arange(80) % 2), 4, "writer"
        )

    forget()
    data = read(reader, {}, 1, **options)
    for rank in range(3):
        task = pooled_task(data, rank, 3, 0, Choices(partition=spec, validation=0.2), model="mlp")
        assert task.validation is not None
        for name, held in (("train", task.train), ("validation", task.validation), ("test", task.test)):
            first = 200 if spec == "iid" and name == "test" else 0
            assert (first + task.indices[name]).tolist() == held.tensors[0][:, 0].int().tolist()
        trained = task.train.tensors[0][:, 0].int().tolist()
        assert task.groups.tolist() == [number % 4 if number < 200 else 4 + number % 2 for number in trained]


def peers(count: int, task: str, **options: Any) -> list[tuple[str, Mapping[str, Any]]]:
    return [(task, options)] * count


def test_data_of_their_own_and_shares_of_one_pool_pass() -> None:
    for spec in ("iid", "group"):
        check_own_data(peers(3, "csv", path="x.csv"), spec)
    check_own_data([("csv", {"path": "a"}), ("csv", {"path": "./a"})], "iid")
    check_own_data([("csv", {"path": "a"}), ("csv", {"path": "b"})], "own")
    check_own_data([("har", {"data": f"site-{rank}"}) for rank in range(3)], "own")
    check_own_data(peers(3, "csv", path="site-{rank}.csv"), None)
    check_own_data([("csv", {"path": f"{rank}.csv"}) for rank in range(3)], None)
    check_own_data([*peers(1, "csv", path="x"), *peers(1, "image-folder", path="x")], None)
    check_own_data(peers(3, "cifar10", data="x"), None)
    check_own_data(peers(3, "my_task.py:task", path="x"), None)
    check_own_data(peers(3, "csv"), None)  # the task complains about what is missing
    check_own_data(peers(3, "csv", path=3), None)
    assert {name for name, task in BUILTIN_TASKS.items() if task.partition == "own"} == {"csv", "image-folder"}


def test_the_divisions_hash_covers_the_parts_but_not_what_is_held_out() -> None:
    found = {
        name: load_task("digits", 1, 4, 0, {}, Choices(**changes)).division
        for name, changes in {
            "plain": {}, "again": {}, "validation": {"validation": 0.2}, "iid": {"partition": "iid"},
            "shared": {"test_split": "shared"},
        }.items()
    }  # fmt: skip
    assert found["plain"] == found["again"] == found["validation"]
    assert len(set(found.values())) == 3
    assert load_task("digits", 0, 4, 0).division == found["plain"], "the same on every rank"
    assert load_task("digits", 0, 4, 0, {}, Choices(partition="own")).division is None


@pytest.mark.parametrize(
    ("spec", "groups", "group", "split", "fragment"),
    [
        ("writer", None, None, "disjoint", "partition 'writer': the data do not say which writer"),
        ("writer", np.arange(100) % 9, "subject", "disjoint", "these know each sample's subject"),
        ("writer", np.minimum(np.arange(100) // 8, 2), "writer", "disjoint", "partition 'writer': rank 0 gets "),
        ("iid", np.arange(100) % 10, "writer", "shared", "--test-split shared cannot be had with partition 'iid'"),
    ],
)
def test_data_that_cannot_be_divided_so(spec: str, groups: Any, group: Any, split: Any, fragment: str) -> None:
    with refused(PartitionError, fragment):
        divide(Data(pool(100, groups=groups), None, 4, group), 3, spec, split, HoldOut(0.0, 0))


@pytest.mark.parametrize(("apart", "fragment"), [(False, "give it more data"), (True, "a draw of its own")])
def test_too_few_samples_of_ones_own(apart: bool, fragment: str) -> None:
    with refused(PartitionError, "partition 'own': rank 4 gets ", fragment):
        keep(Data(pool(11), None, 4), 4, HoldOut(0.0, 0, apart))


CSV: dict[str, Any] = {"path": "x.csv", "target": "y"}


@pytest.mark.parametrize(
    ("name", "options", "fragment"),
    [
        ("csv", {"path": True}, "task option path = True"),
        ("csv", CSV | {"kind": "regresion"}, "kind = 'regresion': input should be 'classification' or 'regression'"),
        ("csv", CSV | {"classes": "a"}, "task option classes = 'a'"),
        ("csv", CSV | {"classes": ["a", "a"]}, "task option classes = ['a', 'a']"),
        ("csv", CSV | {"ignore": {"a": 1}}, "task option ignore = {'a': 1}"),
        ("csv", CSV | {"kind": "regression", "classes": "a,b"}, "classes= is for kind=classification"),
        ("csv", CSV | {"path": "site-{rank}.csv"}, "'site-0.csv' does not exist: with path = 'site-{rank}.csv'"),
        ("image-folder", {"path": "x", "image_size": True}, "task option image_size = True"),
        ("image-folder", {"path": "x", "channels": 2}, "task option channels = 2"),
    ],
)
def test_an_option_that_cannot_be(name: str, options: dict[str, Any], fragment: str) -> None:
    with refused(ConfigurationError, fragment, f"task '{name}'"):
        load_task(name, 0, 2, 0, options)


def test_a_share_of_data_of_ones_own() -> None:
    with refused(TaskError, "path = 's-{rank}.csv'", "--partition iid"):
        load_task("csv", 1, 4, 0, {"path": "s-{rank}.csv", "target": "y"}, Choices(partition="iid"))


@pytest.mark.parametrize(
    ("peers", "partition", "fragments"),
    [
        (
            [("csv", CSV)] * 3,
            None,
            ("--task csv: ranks 0 and 1 would hold the same", "'x.csv': divide"),
        ),
        ([("digits", {})] * 3, "own", ("--task digits: ranks 0 and 1 would hold the same data:",)),
        ([("csv", {"path": path}) for path in ("a", "site-{rank}", "site-1")], None, ("ranks 1 and 2", "site-1'")),
    ],
)
def test_ranks_that_would_hold_the_same_data(peers: Any, partition: str | None, fragments: tuple[str, ...]) -> None:
    with refused(TaskError, *fragments):
        check_own_data(peers, partition)


@pytest.mark.parametrize(
    ("groups", "choices", "fragment"),
    [
        (2, Choices(validation=0.5), "partition 'own': rank 0 gets 30 training and 30 test samples"),
        (1, Choices(), "partition 'own': rank 0 gets 60 training and 0 test samples"),
        (2, Choices(partition="iid"), "partition 'iid' would divide one group's samples"),
        (0, Choices(partition="group"), "partition 'group': the data do not say which group"),
    ],
)
def test_groups_that_cannot_be_divided(groups: int, choices: Choices, fragment: str, tmp_path: Path) -> None:
    forget()
    lines = [f"{n},p{n % (groups or 1)},{'ill' if n % 2 else 'well'}" for n in range(60)]
    (tmp_path / "x.csv").write_text("\n".join(["a,who,y", *lines]))
    options = {"path": str(tmp_path / "x.csv"), "target": "y", "group" if groups else "ignore": "who"}
    with refused(PartitionError, fragment):
        load_task("csv", 0, 2, 0, options, choices)
