"""Settings from a federation file and from flags."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import ConfigurationError, UnknownName
from dpeer.federation.config import load, parse_option
from dpeer.federation.settings import Settings
from dpeer.topology.settings import build_graph

Write = Callable[..., Path]


@pytest.fixture
def write(in_tmp_path: Path) -> Write:
    def make(text: str, name: str = "federation.toml") -> Path:
        path = in_tmp_path / name
        path.write_text(text)
        return path

    return make


def complaint(file: Path | None, flags: dict[str, Any] | None = None) -> str:
    with pytest.raises(ConfigurationError) as raised:
        load(file, flags or {})
    assert raised.value.exit_code == 2
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "key", "nearest"),
    [
        ("topolgy = 'ring'", "topolgy", "topology"),
        ("body-lr = 0.1", "body-lr", "body_lr"),
        ("size = 4\n[ranks.3]\nbind = 'tcp://127.0.0.1:1'", "ranks", "rank"),
        ("[rank.3]\nadress = 'tcp://127.0.0.1:1'", "'adress' in [rank.3] of", "address"),
        ("[rank.3]\nbnd = 'tcp://127.0.0.1:1'", "'bnd' in [rank.3] of", "bind"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_name(text: str, key: str, nearest: str, write: Write) -> None:
    path = write(text)
    with pytest.raises(UnknownName) as raised:
        load(path, {})
    assert str(path) in str(raised.value)
    assert key in str(raised.value)
    assert f"did you mean {nearest!r}?" in str(raised.value)


def test_flags_win_over_the_file_and_over_what_it_says_of_a_rank(write: Write) -> None:
    path = write("size = 4\nrounds = 7\nbatch_size = 8\n[rank.1]\nbatch_size = 2\nbody_epochs = 3")
    settings = load(path, {"rounds": 9, "batch_size": 16, "seed": None})
    assert (settings.size, settings.rounds, settings.seed) == (4, 9, 0)
    assert [settings.of_rank(rank).batch_size for rank in range(4)] == [16] * 4
    assert [settings.of_rank(rank).body_epochs for rank in range(4)] == [5, 3, 5, 5]
    unchanged = load(path, {})
    assert [unchanged.of_rank(rank).batch_size for rank in range(4)] == [8, 2, 8, 8]
    assert unchanged.rounds == 7


def test_dpeer_toml_is_used_when_it_exists_and_no_file_is_named(write: Write) -> None:
    assert load(None, {}).size == 8
    write("size = 5", "dpeer.toml")
    other = write("size = 6")
    assert load(None, {}).size == 5
    assert load(other, {}).size == 6
    write("sze = 5", "dpeer.toml")
    assert "key 'sze' in dpeer.toml" in complaint(None)


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("n=3", "n", 3),
        ("x=0.5", "x", 0.5),
        ("on=true", "on", True),
        ("sites=[1, 2]", "sites", [1, 2]),
        ("name='a b'", "name", "a b"),
        ("data=/path/to/data", "data", "/path/to/data"),
        ("query=a=b", "query", "a=b"),
        ("empty=", "empty", ""),
        ("two=1\nthree=2", "two", "1\nthree=2"),
    ],
)
def test_task_options_are_toml_values_where_they_can_be_and_else_strings(text: str, key: str, value: object) -> None:
    assert parse_option(text) == (key, value)
    assert type(parse_option(text)[1]) is type(value)


def test_task_options_of_a_rank_go_over_the_common_ones_and_flags_over_both(write: Write) -> None:
    path = write(
        "[task_options]\ndata = 'everywhere'\nnoise = 1\n[rank.3.task_options]\ndata = 'here'\nextra = 2\n"
        "[rank.4]\nbatch_size = 4"
    )
    settings = load(path, {"task_options": {}})
    common = {"data": "everywhere", "noise": 1}
    assert settings.of_rank(0).task_options == settings.of_rank(4).task_options == common
    assert settings.of_rank(3).task_options == {"data": "here", "noise": 1, "extra": 2}

    settings = load(path, {"task_options": {"noise": 5, "data": "flag"}})
    assert settings.of_rank(0).task_options == {"data": "flag", "noise": 5}
    assert settings.of_rank(3).task_options == {"data": "flag", "noise": 5, "extra": 2}


def test_fresh_neighbors_name_the_topology_from_python_too() -> None:
    assert Settings(fresh_neighbors="3").topology == "fresh-neighbors"
    assert Settings(fresh_neighbors="directed:3").topology == "fresh-directed"
    assert Settings(**Settings(fresh_neighbors="3").model_dump(exclude_unset=True)).topology == "fresh-neighbors"
    assert build_graph(Settings(fresh_neighbors="3")).parameters == {"fresh_neighbors": 3, "graph_seed": 0}
    with pytest.raises(ConfigurationError):
        Settings(fresh_neighbors="3", topology="ring")


def test_the_size_is_that_of_a_graph_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "graph.txt").write_text("0 1\n1 2\n")
    topology = f"file:{tmp_path / 'graph.txt'}"
    assert Settings(topology=topology).size == 3
    assert Settings(topology=topology, size=4).size == 4
