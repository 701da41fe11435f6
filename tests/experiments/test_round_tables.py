"""Tables of accuracy in given rounds, at given epsilons, and on training data."""

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.experiments.experiment import load
from dpeer.experiments.outcomes import Result
from dpeer.experiments.output import as_json, csv_rows, csv_text
from dpeer.experiments.tables import at_epsilon, at_round, epsilon_table, gap_of, gap_table, rounds_table

Write = Callable[..., Path]
Add = Callable[..., Result]


@pytest.fixture
def made(write_cell: Write) -> Add:
    """A cell with more keys in its lines: `more(rank, round)`."""

    def make(
        name: str, accuracy: Sequence[Sequence[float]], more: Callable[[int, int], dict[str, Any]], **how: Any
    ) -> Result:
        folder = write_cell(name, accuracy, **how)
        for rank in range(len(accuracy)):
            path = folder / f"rank-{rank}" / "metrics.jsonl"
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            path.write_text("".join(f"{json.dumps(line | more(rank, line['round']))}\n" for line in lines))
        return Result(folder)

    return make


def nothing(rank: int, number: int) -> dict[str, Any]:
    return {}


def test_the_gap_is_training_less_test_accuracy_of_the_same_rounds(made: Add) -> None:
    def training(rank: int, number: int) -> dict[str, Any]:
        return {"training_accuracy": 0.9 + 0.01 * number, "training_accuracy_trained": 1.0}

    ours = [
        made("a", [[0.2, 0.5, 0.7], [0.4, 0.6, 0.9]], training),
        made("b", [[0.2, 0.5, 0.6], [0.4, 0.6, 0.8]], training),
    ]
    last = gap_of(ours, "accuracy_mixed")
    assert last is not None
    assert (last.training, last.test) == pytest.approx((0.92, 0.75))
    assert last.gap.mean == pytest.approx(0.17)
    assert last.gap.half == pytest.approx(12.706 * 0.1 / math.sqrt(2) / math.sqrt(2), rel=1e-3), "of 0.12 and 0.22"
    before, late = gap_of(ours, "accuracy_trained"), gap_of(ours, "accuracy_mixed", last=2)
    assert before is not None
    assert late is not None
    assert before.gap.mean == pytest.approx(1 - 0.375)
    assert late.training == pytest.approx(0.915)
    assert late.test == pytest.approx((0.55 + 0.75) / 2)

    other = [made("c", [[0.2, 0.5, 0.7]], nothing)] * 2
    table = gap_table("ring", "accuracy_mixed", {"one": ours, "two": other})
    assert table is not None
    assert table.columns == ["", "training", "test", "generalization gap"]
    assert table.rows[0][:3] == ["one", "0.9200", "0.7500"]
    assert table.rows[0][3].startswith("+0.1700 ± ")
    assert table.rows[1] == ["two", "-", "-", "-"]
    assert table.title == "ring: training accuracy after mixing, last round"
    assert gap_table("ring", "accuracy_mixed", {"two": other}) is None


def test_the_csv_has_every_peers_training_accuracy_and_gap_where_they_were_measured(made: Add) -> None:
    def training(rank: int, number: int) -> dict[str, Any]:
        return {"training_accuracy": 0.9 + 0.01 * rank, "training_accuracy_trained": 1.0}

    plain = made("plain", [[0.2, 0.5], [0.4, 0.6]], nothing)
    measured = made("measured", [[0.2, 0.5], [0.4, 0.6]], training, training_kept=[0.875, 0.75], kept=[0.5, 0.625])
    text = csv_text(csv_rows({"plain": [plain], "measured": [measured]}, {}, [0]))
    found = {(line["row"], int(line["rank"])): line for line in csv.DictReader(io.StringIO(text))}
    figures = [
        f"{name}{ending}"
        for ending in ("_mixed", "_trained", "")
        for name in ("training_accuracy", "generalization_gap")
    ]
    assert [found["plain", 1][name] for name in figures] == [""] * 6
    assert [float(found["measured", 0][name]) for name in figures] == pytest.approx([0.9, 0.4, 1.0, 0.75, 0.875, 0.375])
    assert [float(found["measured", 1][name]) for name in figures] == pytest.approx([0.91, 0.31, 1.0, 0.7, 0.75, 0.125])
    assert "training_accuracy" not in csv_text(csv_rows({"plain": [plain]}, {}, [0])), "no empty columns"


def test_the_gap_of_kept_models_has_a_table(made: Add) -> None:
    rows = {
        "ours": [made("ours", [[0.5], [0.5]], nothing, training_kept=[0.875, 0.75], kept=[0.5, 0.625])],
        "other": [made("other", [[0.5], [0.5]], nothing, kept=[0.5, 0.625])],
    }
    table = gap_table("ring", "accuracy", rows)
    assert table is not None
    assert table.title == "ring: training accuracy of the kept model"
    assert table.rows == [["ours", "0.8125", "0.5625", "+0.2500"], ["other", "-", "-", "-"]]


def test_accuracy_after_given_rounds(made: Add) -> None:
    values = [[0.1, 0.2, 0.3, 0.4, 0.5], [0.3, 0.4, 0.5, 0.6, 0.7]]
    results = [made("a", values, nothing, evaluate_every=2)]
    assert at_round(results, "accuracy_mixed", 2) == pytest.approx(0.3)
    assert at_round(results, "accuracy_trained", 4) == pytest.approx(0.25)
    assert at_round(results, "accuracy_mixed", 5) == pytest.approx(0.6), "the last one is evaluated"
    table = rounds_table("ring", "accuracy_mixed", {"one": results}, [2, 3, 9])
    assert table.columns == ["", "round 2", "round 3", "round 9"]
    assert table.rows == [["one", "0.3000", "-", "-"]]
    assert table.remarks == ["-: not evaluated in round 3, 9"]


def test_accuracy_at_an_epsilon_is_that_of_the_last_round_in_which_no_peer_had_spent_more(made: Add) -> None:
    spent = [[0.0, 1.0, 2.0, 3.0], [1.5, 1.5, 2.5, 3.5]]

    def costs(rank: int, number: int) -> dict[str, Any]:
        return {"epsilon": spent[rank][number], "privacy": {"epsilon": spent[rank][number]}}

    def without_bound(rank: int, number: int) -> dict[str, Any]:
        return {"epsilon": None, "privacy": {"epsilon": None}}

    values = [[0.1, 0.2, 0.3, 0.4], [0.3, 0.4, 0.5, 0.6]]
    private = [made("a", values, costs)]
    for budget, rounds, accuracy in ((1.5, 2, 0.3), (2.0, 2, 0.3), (2.5, 3, 0.4), (99.0, 4, 0.5)):
        found = at_epsilon(private, "accuracy_mixed", budget)
        assert found is not None
        assert (found.rounds, found.accuracy) == (rounds, pytest.approx(accuracy))
    assert at_epsilon(private, "accuracy_mixed", 1.4) is None
    assert at_epsilon([made("n", values, without_bound)], "accuracy_mixed", 99.0) is None
    assert at_epsilon([made("p", values, nothing)], "accuracy_mixed", 99.0) is None
    rarely = at_epsilon([made("r", values, costs, evaluate_every=2)], "accuracy_mixed", 2.5)
    assert rarely is not None
    assert rarely.rounds == 2, "the last evaluated one"

    def dear(rank: int, number: int) -> dict[str, Any]:
        return {"epsilon": 2.2, "privacy": {"epsilon": 2.2}}

    table = epsilon_table("ring", "accuracy_mixed", {"one": [*private, made("d", values, dear)]}, [2.0, 3.0])
    assert table.columns == ["", "epsilon 2", "rounds", "epsilon 3", "rounds"]
    assert table.rows == [["one", "0.3000", "2.0", "0.4500", "3.5"]]
    assert table.remarks[1] == "not all seeds have one: one at 2: 1 of 2 seeds"


def asked(tmp_path: Path, settings: dict[str, Any] | None = None, **plan: Any) -> Any:
    return load(None, {"rounds": 10, **(settings or {})}, {"algorithms": ["fedavg"], **plan}, small=False)


@pytest.mark.parametrize(
    ("settings", "plan", "message"),
    [
        ({}, {"at_round": [11]}, "--at-round 11: these runs have 10 rounds"),
        ({"evaluate_every": 4}, {"at_round": [6]}, "--at-round 6: with evaluate-every 4 .*4 and 8 are$"),
        ({"evaluate_every": 4}, {"at_round": [9]}, "--at-round 9: with evaluate-every 4 .*8 and 10 are$"),
        ({"evaluate_every": 50}, {"at_round": [1]}, "--at-round 1: .*evaluate-every 50 .*10 is the first that is$"),
        ({}, {"at_round": [0]}, "^--at-round = 0: input should be greater than or equal to 1$"),
        ({}, {"at_round": [2, 4, 2]}, "^--at-round: 2 is named twice$"),
        ({}, {"at_epsilon": [2.0]}, "--at-epsilon 2: no run of this comparison is private"),
        ({"preset": "paper-cifar"}, {"at_epsilon": [2.0]}, "--at-epsilon 2: no run of this comparison is private"),
        (
            {},
            {"at_epsilon": [2.0], "algorithms": ["fedavg:preset=paper-cifar"]},
            "--at-epsilon 2: no run of this comparison is private",
        ),
        ({}, {"at_epsilon": [-1.0]}, "^--at-epsilon = -1.0: input should be greater than 0$"),
        ({}, {"at_epsilon": [math.inf]}, "^--at-epsilon = inf: input should be a finite number$"),
        ({}, {"at_epsilon": [1.5, 1.5]}, "^--at-epsilon: 1.5 is named twice$"),
    ],
)
def test_what_no_run_would_have_is_refused(
    settings: dict[str, Any], plan: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        asked(tmp_path, settings, **plan)


def test_what_can_be_asked_for(tmp_path: Path) -> None:
    private = {"privacy": "client", "noise_multiplier": 2.0}
    assert asked(tmp_path, private, at_epsilon=[1, 2.5]).at_epsilon == [1, 2.5]
    assert asked(tmp_path, {"preset": "dp-fedsam"}, at_epsilon=[1]).at_epsilon == [1]
    assert asked(tmp_path, algorithms=["fedavg:privacy=client:noise-multiplier=2"], at_epsilon=[1]).at_epsilon == [1]
    assert asked(tmp_path, algorithms=["fedavg:preset=dp-fedsam"], at_epsilon=[1]).at_epsilon == [1]
    assert asked(tmp_path, {"evaluate_every": 4}, at_round=[4, 10]).at_round == [4, 10], "the last one is evaluated"


def test_the_json_has_them_too(made: Add, tmp_path: Path) -> None:
    def more(rank: int, number: int) -> dict[str, Any]:
        return {"epsilon": 1.0 + number, "privacy": {"epsilon": 1.0 + number}, "training_accuracy": 0.9}

    results = [made("a", [[0.1, 0.2], [0.3, 0.4]], more)]
    found = asked(
        tmp_path, {"privacy": "client", "noise_multiplier": 2.0, "rounds": 2}, at_round=[1, 2], at_epsilon=[1.5, 9]
    )
    row = as_json(found, [(found.conditions[0], {"fedavg": results})])["tables"][0]["rows"]["fedavg"]
    message = row["accuracy_mixed"]
    assert message["training_accuracy"] == pytest.approx(0.9)
    assert message["generalization_gap"] == pytest.approx(0.6)
    assert message["at_round"] == {"1": pytest.approx(0.2), "2": pytest.approx(0.3)}
    assert message["at_epsilon"] == {
        "1.5": {"accuracy": pytest.approx(0.2), "rounds": 1.0, "seeds": 1},
        "9": {"accuracy": pytest.approx(0.3), "rounds": 2.0, "seeds": 1},
    }
    assert "at_round" not in row["accuracy"]
