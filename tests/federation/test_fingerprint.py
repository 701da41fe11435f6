"""What peers compare, where an algorithm is a user's own."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpeer.federation.config import load
from dpeer.federation.fingerprint import fingerprint
from dpeer.federation.graph import build_graph
from dpeer.federation.options import options_of
from dpeer.federation.settings import Settings
from dpeer.training import Algorithm


class Clash(Algorithm):
    shares = "body"

    @dataclass(frozen=True)
    class Options:
        momentum: float = 0.5
        seed: int = 3
        clip_norm: float = 2.0

    def train(self, peer: Any) -> None:
        pass


def said(**values: Any) -> dict[str, Any]:
    settings = Settings(algorithm=Clash, **values)
    return fingerprint(settings, build_graph(settings), options_of(settings))


def test_an_option_does_not_hide_a_setting_of_its_name() -> None:
    for changed in ({"momentum": 0.1}, {"seed": 5}, {"algorithm_options": {"clip_norm": 9.0}}):
        assert said() != said(**changed)
    assert said()["momentum"] == 0.9
    assert said()["option momentum"] == 0.5
    assert said()["option clip_norm"] == 2.0


def test_a_class_is_known_by_its_name_and_its_source(tmp_path: Path) -> None:
    assert said()["algorithm"] == "Clash"
    assert len(said()["algorithm's source"]) == 64
    plain = Settings()
    builtin = fingerprint(plain, build_graph(plain), options_of(plain))
    assert builtin["algorithm"] == "dfedsmdc"
    assert "algorithm's source" not in builtin


def test_options_of_file_and_flags_are_put_together(tmp_path: Path) -> None:
    (tmp_path / "both.toml").write_text("[algorithm_options]\nmu = 0.5\nk = 7\n[task_options]\na = 1\n")
    found = load(tmp_path / "both.toml", {"algorithm_options": {"mu": 0.9}, "task_options": {"b": 2}})
    assert found.algorithm_options == {"mu": 0.9, "k": 7}
    assert found.task_options == {"a": 1, "b": 2}


def test_an_option_that_earlier_versions_had_not_is_compared_where_it_is_not_its_default() -> None:
    def options(**given: Any) -> dict[str, Any]:
        settings = Settings(algorithm="fedrod", algorithm_options=given)
        found = fingerprint(settings, build_graph(settings), options_of(settings))
        return {name: value for name, value in found.items() if name.startswith("option ")}

    assert options() == options(personal="linear", hidden=32) == {}
    assert options(personal="hypernetwork") == {"option personal": "hypernetwork"}
    assert options(personal="hypernetwork", hidden=9) == {"option personal": "hypernetwork", "option hidden": 9}
