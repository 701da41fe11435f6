"""`dpeer algorithms`: what is listed, and with which numbers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.federation.config import resolve
from dpeer.federation.fingerprint import fingerprint
from dpeer.federation.presets import PRESETS
from dpeer.federation.settings import Settings
from dpeer.peer.core.handshake import mismatch
from dpeer.peer.core.wire import Hello
from dpeer.topology.settings import build_graph
from dpeer.training import ALGORITHMS

Command = Callable[..., Any]

GRADIENTS = {
    "local": 5, "dfedavgm": 5, "dfedsam": 10, "dfedmdc": 6, "dfedsmdc": 11, "dis-pfl": 5, "fedavg": 5, "fedsam": 10,
    "fedper": 5, "fedrep": 15, "fedbabu": 5, "ditto": 10, "fedrod": 5, "scaffold": 5, "fedavg-ls": 5, "fedopt": 5,
    "fafed": 10, "fedlada": 5, "localadamw": 5, "fedadamw": 5,
}  # fmt: skip
"""With 5 epochs for the body and 1 for the head; fedrep has 10 for the head where nobody says otherwise."""


@pytest.fixture
def listed(dpeer: Command) -> Callable[..., dict[str, dict[str, Any]]]:
    """What `dpeer algorithms --json ARGUMENTS` says, by name."""

    def run(*arguments: object) -> dict[str, dict[str, Any]]:
        ended = dpeer("algorithms", "--json", *arguments)
        assert (ended.code, ended.err) == (0, "")
        entries = json.loads(ended.out)
        assert isinstance(entries, list)
        return {entry["name"]: entry for entry in entries}

    return run


def numbers(listed: dict[str, dict[str, Any]]) -> dict[str, float]:
    return {name: entry["gradients"] for name, entry in listed.items()}


def words(text: str) -> str:
    return " ".join(text.split())


def test_every_algorithm_has_its_gradients_here() -> None:
    assert GRADIENTS.keys() == ALGORITHMS.keys()


def test_json_lists_every_algorithm_as_it_describes_itself(listed: Command) -> None:
    found = listed()
    assert list(found) == list(ALGORITHMS)
    for name, entry in found.items():
        algorithm = ALGORITHMS[name]
        assert entry == {
            "name": name,
            "summary": algorithm.summary,
            "paper": algorithm.paper,
            "leaves": algorithm.leaves,
            "messages": 0 if name == "local" else 1,
            "gradients": GRADIENTS[name],
            "defaults": dict(algorithm.defaults),
            "options": list(algorithm.settings()),
        }


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        ((), {}),
        (("--body-epochs", 5), {}),
        (("--head-epochs", 1), {"fedrep": 6}),
        (("--head-epochs", 3), {"dfedmdc": 8, "dfedsmdc": 13, "fedrep": 8}),
        (("--sam", "both"), {"dfedsmdc": 12}),
        (("--sam", "head"), {"dfedsmdc": 7}),
        (("--preset", "paper-cifar"), {}),
        (("--preset", "paper-cifar-pathological"), {"dfedmdc": 10, "dfedsmdc": 15}),
        (("--preset", "paper-cifar-pathological", "--head-epochs", 1), {"fedrep": 6}),
    ],
)
def test_gradients_are_those_of_the_epochs_given(
    arguments: tuple[object, ...], changed: dict[str, int], listed: Command
) -> None:
    assert numbers(listed(*arguments)) == GRADIENTS | changed


def test_gradients_of_another_number_of_epochs(listed: Command) -> None:
    assert numbers(listed("--body-epochs", 2, "--head-epochs", 4, "--sam", "both")) == {
        "local": 2, "dfedavgm": 2, "dfedsam": 4, "dfedmdc": 6, "dfedsmdc": 12, "dis-pfl": 2, "fedavg": 2, "fedsam": 4,
        "fedper": 2, "fedrep": 6, "fedbabu": 2, "ditto": 4, "fedrod": 2, "scaffold": 2, "fedavg-ls": 2, "fedopt": 2,
        "fafed": 4, "fedlada": 2, "localadamw": 2, "fedadamw": 2,
    }  # fmt: skip


def test_the_table_says_the_same_and_with_which_epochs(dpeer: Command, listed: Command) -> None:
    ended = dpeer("algorithms")
    assert (ended.code, ended.err) == (0, "")
    rows = {row[0]: row[1:] for row in map(str.split, ended.out.partition("Gradients:")[0].splitlines()) if row}
    for name, entry in listed().items():
        assert rows[name][:2] == [str(GRADIENTS[name]), str(entry["messages"])]
    text = words(ended.out)
    assert "at body-epochs 5, head-epochs 1, sam body; fedrep's own: head-epochs 10." in text
    for name, algorithm in ALGORITHMS.items():
        assert f"{name} {algorithm.summary} {algorithm.paper}" in text
        assert algorithm.leaves in text
    for name, preset in PRESETS.items():
        assert f"{name} " in text
        assert preset.remark in text
        for key, value in preset.values.items():
            assert f"{key.replace('_', '-')} {0 if value is None else value}" in text

    text = words(dpeer("algorithms", "--body-epochs", 2, "--head-epochs", 3).out)
    assert "at body-epochs 2, head-epochs 3, sam body. " in text


@pytest.mark.parametrize("width", [80, 100, 140])
def test_no_line_is_wider_than_the_terminal_and_no_word_is_cut(
    width: int, dpeer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    ended = dpeer("algorithms")
    assert max(map(len, ended.out.splitlines())) <= width
    assert "…" not in ended.out


def test_a_file_in_the_folder_changes_nothing(dpeer: Command, listed: Command, tmp_path: Path) -> None:
    (tmp_path / "dpeer.toml").write_text("body_epochs = 2")
    assert numbers(listed()) == GRADIENTS
    (tmp_path / "dpeer.toml").write_text("not toml")
    assert dpeer("algorithms").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--body-epochs", 0), ("--body-epochs", "0", "greater than or equal to 1")),
        (("--body-epochs", "five"), ("--body-epochs", "five", "integer")),
        (("--head-epochs", -1), ("--head-epochs", "-1", "greater than or equal to 1")),
        (("--sam", "bdy"), ("--sam", "bdy", "body", "head", "both")),
        (("--preset", "paper-cifr"), ("unknown preset 'paper-cifr'", "did you mean 'paper-cifar'?")),
        (("--rho", 0.1), ("--rho",)),
        (("dfedavgm",), ("dfedavgm",)),
    ],
)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["table", "json"])
def test_a_wrong_option_is_one_line(
    form: tuple[str, ...], arguments: tuple[object, ...], message: tuple[str, ...], dpeer: Command
) -> None:
    ended = dpeer("algorithms", *form, *arguments)
    assert (ended.code, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert line.startswith("dpeer: ")
    for part in message:
        assert part in line


# -- what of an algorithm all peers must share -----------------------------------------------------------------------


def hello(rank: int, **values: Any) -> Hello:
    config = resolve(Settings(**values), 0)
    agreed = fingerprint(config.values(), config.algorithm, build_graph(config.graph), config.options)
    return Hello(rank=rank, next_round=0, fingerprint=agreed, manifest={}, digest="")


@pytest.mark.parametrize(
    ("name", "default", "other"),
    [
        ("algorithm", "dfedsmdc", "dfedmdc"),
        ("weight_decay", 0.0, 0.0005),
        ("grad_clip", 1.0, 10.0),
        ("optimizer", "not set", "adamw"),
        ("warmup", "not set", 3),
        ("sam", "body", "both"),
        ("ditto_lambda", 0.75, 1.0),
        ("sparsity", 0.5, 0.8),
        ("prune_rate", 0.5, 0.1),
        ("participation", 1.0, 0.5),
        ("quantize", None, 8),
        ("wire_dtype", "float32", "bfloat16"),
    ],
)
def test_peers_that_differ_in_it_refuse_each_other_and_name_it(name: str, default: object, other: object) -> None:
    uses = {"ditto_lambda": "ditto", "sparsity": "dis-pfl", "prune_rate": "dis-pfl"}
    both: dict[str, Any] = {"algorithm": uses[name]} if name in uses else {}
    if name == "optimizer":  # each has learning rates of its own
        both = {"body_lr": 0.05, "head_lr": 0.05}
    assert mismatch(hello(0, **both), hello(1, **both), 20) is None
    problem = mismatch(hello(0, **both), hello(1, **both, **{name: other}), 20)
    assert problem is not None
    for part in (name, f"{default!r} here", f"{other!r} at rank 1"):
        assert part in problem


def test_a_preset_is_what_it_stands_for_to_the_other_peers() -> None:
    values = dict(PRESETS["paper-dispfl"].values)
    assert mismatch(hello(0, preset="paper-dispfl"), hello(1, **values), 20) is None
