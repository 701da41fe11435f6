"""The runs of benchmarks/sample_level.py: which settings are tried for which data, alone and joined alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kept import Cell

TASKS = Path(__file__).parent / "examples" / "fixed_features.py"
SETS = ("cancer", "digits", "har", "cifar10")
BUDGETS = (1.0, 3.0, 8.0)
LINEAR = "linear"
"""The model of examples/fixed_features.py; other names are those of `--model`."""

# A cell has "set", "way", "model", "epsilon" (0 without privacy), "seed", and what else differs from `SAME`.

SAME: Mapping[str, Any] = {
    "size": 8, "workers": 1, "log_level": "error", "checkpoint_every": 10_000, "evaluate_every": 10_000,
    "grad_clip": 0.0, "lr_decay": 1.0, "momentum": 0.0, "finish": "none", "topology": "full", "weights": "uniform",
}  # fmt: skip

SHORT, LONG = {"sampling_rate": 1.0, "steps": 10}, {"sampling_rate": 1.0, "steps": 40}
COSINE = {"sampling_rate": 1.0, "steps": 20, "lr_schedule": "cosine", "at_once": 1}
MANY = {"sampling_rate": 1.0, "steps": 200, "lr_schedule": "cosine", "at_once": 10}
RATES, COSINE_RATES = (0.5, 2.0, 8.0), (2.0, 6.0)
FREE_RATES = (0.05, 0.2, 0.8, 2.0, 5.0, 15.0)
"""Learning rates without privacy: as many as there are settings with it. All are for the table, whose rows are about
five long; rows of length one take larger ones."""
LARGER = 4.0

WAYS: Mapping[str, Mapping[str, Any]] = {
    "alone": {"algorithm": "local"},
    "joined": {"algorithm": "dfedavgm"},
    "bias at home": {"algorithm": "dfedmdc"},
    "by size": {"algorithm": "dfedmdc"},
    "finished": {"algorithm": "dfedmdc", "dp_head": "post"},
}
"""What is compared. "by size" is "bias at home" with the same `--records` everywhere."""

RECORDS: Mapping[str, int] = {"digits": 180, "cifar10": 500}
"""About a peer's mean. Where all peers divide by the same number, each moves the average by its share of the records,
and all add as much noise; else the noise of the smallest peers is the longest by far. The others are divided evenly."""

AT_HOME: Mapping[str, int] = {"cancer": 40, "digits": 120, "har": 640, "cifar10": 320}
"""Minibatches of "finished" at home: twenty epochs of 32 examples, as without privacy."""

SEARCH_SEED = 0
SEARCH_EPSILON = 3.0
SEARCHED: Mapping[str, tuple[float, ...]] = {"cancer": BUDGETS, "digits": BUDGETS, "har": (1.0, 3.0), "cifar10": (3.0,)}
"""The budgets for which settings are searched; elsewhere those of `SEARCH_EPSILON` are taken."""


def searched() -> Iterator[Cell]:
    """The runs of which the best settings are chosen, by the accuracy with this one seed."""
    for name in SETS:
        larger = _larger(name)
        for lr in (larger * rate for rate in FREE_RATES):
            yield _cell(name, "alone", 0.0, lr=lr, epochs=20)
            yield _cell(name, "joined", 0.0, lr=lr, epochs=20)
        for epsilon in SEARCHED[name]:
            for way in ways(name):
                more = {"records": RECORDS[name]} if way == "by size" else {}
                for plan in (SHORT, LONG):
                    for lr in (larger * rate for rate in RATES):
                        yield _cell(name, way, epsilon, lr=lr, **plan, **more)
                if way != "alone" and name in RECORDS:
                    more = {"records": RECORDS[name]}
                for lr in (larger * rate for rate in COSINE_RATES):
                    yield _cell(name, way, epsilon, lr=lr, **COSINE, **more)
                if name == "har":  # with a thousand records noise leaves room for more steps
                    for lr in (8.0, 16.0):
                        yield _cell(name, way, epsilon, lr=lr, **MANY, **more)


def carried_over(chosen: Mapping[tuple[str, str, float], Cell]) -> dict[tuple[str, str, float], Cell]:
    """The chosen settings, and at budgets that were not searched those of another one."""
    found = dict(chosen)
    for (name, way, epsilon), cell in chosen.items():
        if epsilon == SEARCH_EPSILON:
            for other in set(BUDGETS) - set(SEARCHED[name]):
                found[name, way, other] = cell | {"epsilon": other}
    return found


def finished(chosen: Mapping[tuple[str, str, float], Cell]) -> Iterator[Cell]:
    """What is trained at home after the last message: on from the best joined settings of each data set and budget."""
    for name in SETS:
        for epsilon in SEARCHED[name]:
            base = chosen.get((name, ways(name)[-1], epsilon))
            if base is not None:
                # With --local-steps an epoch of --finish is a fifth of the minibatches of a round.
                epochs = 5 * AT_HOME[name] // (base.get("at_once") or -(-base["steps"] // 20))
                for finish_lr in (_larger(name) * rate for rate in FREE_RATES[::2]):
                    yield base | {"way": "finished", "finish": f"all:{epochs}", "finish_lr": finish_lr}


def variants(chosen: Mapping[tuple[str, str, float], Cell]) -> Iterator[Cell]:
    """One setting changed from the chosen ones at one budget, or another model with settings of its own."""
    for name in SETS:
        joined = chosen.get((name, ways(name)[-1], SEARCH_EPSILON))
        alone = chosen.get((name, "alone", SEARCH_EPSILON))
        if joined is None or alone is None:
            continue
        for own in (alone, joined):
            yield own | {"sampling_rate": 0.25, "steps": 4 * own["steps"]}
            yield own | {"momentum": 0.9, "lr": own["lr"] / 4}
            yield own | {"clip_norm": 0.3, "lr": own["lr"] * 3}
        yield joined | {"at_once": 10}
        yield joined | {"dp_head": "frozen"}
        yield joined | {"dp_head": "alternate"}
        for topology in ("ring", "exponential"):
            yield joined | {"topology": topology, "weights": "metropolis"}
        if name == "digits":  # with models of more parameters
            for model in ("small-body", "digits"):
                for lr in (0.5, 2.0):
                    yield alone | {"model": model, "lr": lr}
                    yield joined | {"model": model, "lr": lr}


def _larger(name: str) -> float:
    return 1.0 if name == "cancer" else LARGER


def ways(name: str) -> tuple[str, ...]:
    """The ways that are searched with privacy."""
    return ("alone", "joined", "by size" if name in RECORDS else "bias at home")


def _cell(name: str, way: str, epsilon: float, **rest: Any) -> Cell:
    return {"set": name, "way": way, "model": LINEAR, "epsilon": epsilon, "seed": SEARCH_SEED, **rest}


def settings(cell: Cell, data: str | None, out: Path) -> dict[str, Any]:
    """What `dpeer.Settings` takes for a cell.

    Args:
        cell: The run.
        data: The path of the data set's files; None where it comes with scikit-learn.
        out: The run's folder.
    """
    own = dict(cell)
    name, way, model, epsilon = own.pop("set"), own.pop("way"), own.pop("model"), own.pop("epsilon")
    lr, options = own.pop("lr"), {} if data is None else {"data": data}
    values: dict[str, Any] = {**SAME, **WAYS[way], "out": out, "body_lr": lr, "head_lr": lr}
    if model == LINEAR:
        values["task"] = f"{TASKS}:{name}"
    else:
        values |= {"task": name, "model": model}
    values["task_options"] = options
    at_once, steps, epochs = own.pop("at_once", None), own.pop("steps", None), own.pop("epochs", None)
    if steps is None:
        values |= {"rounds": 1 if way == "alone" else epochs, "body_epochs": epochs if way == "alone" else 1}
    else:
        # Alone no mixing falls between the steps.
        at_once = at_once or (steps if way == "alone" else -(-steps // 20))
        values |= {"rounds": -(-steps // at_once), "local_steps": at_once}
    if epsilon:
        values |= {"privacy": "sample", "target_epsilon": epsilon, "microbatch": 1024}
    else:
        values.pop("dp_head", None)
    return values | own
