"""What peers compare, where an algorithm is a user's own."""

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.federation.build import build
from dpeer.federation.config import resolve
from dpeer.federation.fingerprint import fingerprint, named, of_model, own_names
from dpeer.federation.settings import Settings
from dpeer.peer.core.handshake import first_difference
from dpeer.training import Algorithm, Task
from dpeer.training.models import build_model, find_model


class Clash(Algorithm):
    shares = "body"

    @dataclass(frozen=True)
    class Options:
        momentum: float = 0.5
        seed: int = 3
        clip_norm: float = 2.0

    def train(self, peer: Any) -> None:
        pass


def fingerprint_of(settings: Settings) -> dict[str, Any]:
    return fingerprint(resolve(settings, 0))


def message(**values: Any) -> dict[str, Any]:
    settings = Settings(algorithm=Clash, **values)
    return fingerprint_of(settings)


def test_an_option_does_not_hide_a_setting_of_its_name() -> None:
    for changed in ({"momentum": 0.1}, {"seed": 5}, {"algorithm_options": {"clip_norm": 9.0}}):
        assert message() != message(**changed)
    assert message()["momentum"] == 0.9
    assert message()["option momentum"] == 0.5
    assert message()["option clip_norm"] == 2.0


def test_a_class_is_known_by_its_name_and_its_source(tmp_path: Path) -> None:
    assert message()["algorithm"] == "Clash"
    assert len(message()["algorithm's source"]) == 64
    plain = Settings()
    builtin = fingerprint_of(plain)
    assert builtin["algorithm"] == "dfedsmdc"
    assert "algorithm's source" not in builtin


def test_a_codec_is_known_by_its_name_and_its_source() -> None:
    assert fingerprint_of(Settings(compress="int8")).items() >= {("compress", "int8")}
    own = fingerprint_of(Settings(compress=f"{Path(__file__).parents[2] / 'examples' / 'own_codec.py'}:OneByte"))
    assert (own["compress"], len(own["codec's source"])) == ("OneByte", 64)


def test_peers_compare_their_tokenizers() -> None:
    def made(label: str) -> Task:
        model = nn.Linear(2, 2)
        data = TensorDataset(torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64))
        return Task(model=model, head=(), train=data, test=data, names={"tokenizer": (label,)})

    one, other = (named(made(label), "body")["tokenizer"] for label in ("bytes", "tokenizer.json with SHA-256 12ab"))
    assert one.keys() != other.keys()
    assert own_names(made("bytes"), "body")["tokenizer"] == dict.fromkeys(one, "bytes")
    assert named(made("bytes"), "nothing") == {}


def compared(out: Path, **values: Any) -> dict[str, Any]:
    return build(resolve(Settings(size=2, out=out, task="digits", **values), 0)).fingerprint


def test_options_of_the_model_that_are_not_its_defaults_are_compared() -> None:
    """Not all of them, such as the heads of attention, show in the shapes."""
    usual = find_model("mlp").options()
    for changed in ({}, {"width": usual["width"] + 1}):
        task: Any = SimpleNamespace(built={"model": "mlp", "options": usual | changed}, initial=None)
        assert of_model(task) == {f"model option {name}": value for name, value in changed.items()}


@pytest.mark.slow
def test_peers_compare_what_is_in_the_file_of_first_weights_and_not_where_it_lies(tmp_path: Path) -> None:
    def message(seed: int, name: str) -> Any:
        torch.manual_seed(seed)
        save_file(build_model("digits", (1, 8, 8), 10).state_dict(), tmp_path / name)
        return compared(tmp_path / "run", init_from=tmp_path / name).get("initial weights")

    assert message(0, "here.safetensors") == message(0, "there.safetensors") != message(1, "here.safetensors")
    assert "initial weights" not in compared(tmp_path / "run")


def test_peers_compare_what_each_rank_has_declared() -> None:
    def of(weights: str) -> dict[str, Any]:
        return fingerprint_of(Settings(size=3, weights=weights))

    one, other = of("declared:400,20,30"), of("declared:400,20,31")
    assert first_difference(one, other) == "weight of rank 2"
    assert (one["weights"], one["weight of rank 0"]) == ("declared", 400.0)
    assert first_difference(one, of("metropolis")) == "weights"
    assert not [name for name in of("metropolis") if name.startswith("weight of")]
