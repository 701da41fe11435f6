"""Algorithms, options and codecs of a user's own that cannot be used, and why."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from dpeer.exceptions import AlgorithmError, ConfigurationError, DpeerError
from dpeer.training import Hyperparameters, build_learner, find_algorithm, make_options
from dpeer.training.algorithms.fedadamw import FedAdamW
from dpeer.training.algorithms.fedrod import FedRoD
from dpeer.training.codecs import new_codec
from dpeer.training.flat import Extras
from dpeer.training.gradients import looks
from tests.error_texts import refused
from tests.training.small import BodyOnly, small_task

MINE = """
from dataclasses import dataclass
from dpeer.training import Algorithm

class Mine(Algorithm):
    shares = "body"
    def train(self, peer): ...

class Abstract(Algorithm):
    shares = "body"

class Nowhere(Algorithm):
    def train(self, peer): ...

class Thawed(Mine):
    @dataclass
    class Options:
        k: int = 3

class Odd(Mine):
    @dataclass(frozen=True)
    class Options:
        k: "NoSuchType" = 3

class Uses(Mine):
    uses = ("head_lr", "mu")

number = 3
"""


@pytest.mark.parametrize(
    ("name", "fragment"),
    [
        ("Algorithm", "mine.py:Algorithm' is the class Algorithm"),
        ("number", "mine.py:number' is a int"),
        ("Abstract", "mine.py:Abstract': Abstract does not define train(self, peer)"),
        ("Nowhere", "Nowhere': its shares is None; it must be one of 'model'"),
        ("Thawed", "algorithm Thawed: its Options must be a frozen dataclass"),
        ("Odd", "algorithm Odd: its Options cannot be checked: NameError"),
        ("Uses", "mine.py:Uses': its uses name 'mu'"),
    ],
)
def test_what_is_no_algorithm_is_refused(name: str, fragment: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    with refused(AlgorithmError, fragment):
        find_algorithm(f"{tmp_path}/mine.py:{name}")


class Registry(BodyOnly):
    """Forgets to call its base."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        cls.name = cls.__name__


@pytest.mark.parametrize(
    ("attributes", "fragment"),
    [
        ({"__init__": lambda self, options=None: None}, "algorithm Own: its __init__ must call super()"),
        ({"mixed_uses_data": None}, "algorithm 'Own': its mixed_uses_data is None"),
        ({"defaults": {"body_epochs": -3}}, "algorithm 'Own': its defaults: body_epochs = -3"),
        ({"defaults": {"body_epoch": 3}}, "unknown key 'body_epoch' in its defaults: did you mean 'body_epochs'?"),
        ({"defaults": {"rounds": 1}}, "algorithm 'Own': its defaults name 'rounds'"),
        (
            {"start": lambda self, peer: self.state.update({0: torch.zeros(2)})},
            "algorithm Own: its state has 0, a torch.strided",
        ),
        ({"start": lambda self, peer: self.state.update(k=3.0)}, "algorithm Own: its state has 'k', a float"),
        (
            {"start": lambda self, peer: self.state.update(k=torch.eye(3).to_sparse())},
            "its state has 'k', a torch.sparse_coo",
        ),
        ({"shares": "nothing", "extras": lambda self, split: {"c": 3}}, "its extras (c) go nowhere"),
        ({"extras": lambda self, split: {"c": 0.5}}, "algorithm Own: its extras are {'c': 0.5}"),
        (
            {"predictor": lambda self, peer: peer.body.data},
            "algorithm Own: its predictor gave shape (56,); it must give None, or one vector of shape (83,), body then",
        ),
        ({"predictor": lambda self, peer: {"values": peer.body.data}}, "algorithm Own: its predictor gave a dict"),
        (
            {"train": lambda self, peer: peer.fit(peer.body, epochs=1, lr=0.1, gradient=lambda *of: None)},
            "algorithm Own failed in 'train': TypeError: the gradient function gave a NoneType; it must return",
        ),
    ],
)
def test_what_an_algorithm_must_not_state(attributes: dict[str, Any], fragment: str, tmp_path: Path) -> None:
    task = small_task()
    task.model.fixed = nn.Parameter(torch.ones(2), requires_grad=False)
    with refused(AlgorithmError, "algorithm ", fragment):
        one = build_learner(task, type("Own", (BodyOnly,), attributes), Hyperparameters(body_epochs=1), rank=0, seed=0)
        one.train(0)
        one.evaluate()
        one.save(tmp_path)


class Needy(BodyOnly):
    """Needs an option, and refuses one value of another."""

    @dataclass(frozen=True)
    class Options:
        gamma: float
        k: int = 3

        def __post_init__(self) -> None:
            if self.k == 13:
                raise ValueError("k must not be 13")


NO_EFFECT = {"aggregate": "full", "blocks": "residual"}


@pytest.mark.parametrize(
    ("call", "fragment"),
    [
        (lambda: make_options(Needy, {}), "Needy refuses its options: TypeError: "),
        (
            lambda: make_options(Needy, {"gamma": 1, "k": 13}),
            "--algorithm-option: Needy refuses its options: ValueError",
        ),
        (lambda: make_options(Needy, {"kk": 1}, "--x"), "unknown option of Needy 'kk' in --x: did you mean 'k'?"),
        (lambda: make_options(FedAdamW, NO_EFFECT), "blocks=residual has no effect with aggregate=full"),
        (lambda: make_options(FedRoD, {"hidden": 8}), "hidden=8 is of the hypernetwork"),
        (lambda: find_algorithm(int), "algorithm 'int' is the class int"),
        (lambda: build_learner(small_task(), type("R", (Registry,), {}), rank=0, seed=0), "has an __init_subclass__"),
        (lambda: looks(SimpleNamespace(looks=0.5)), "a gradient rule states looks = 0.5"),
        (lambda: Extras({"m": 1}, torch.zeros(1)).__setitem__("m", torch.zeros(2)), "extras 'm' have shape (1,)"),
    ],
)
def test_what_is_given_to_an_algorithm_in_vain(call: Callable[[], object], fragment: str) -> None:
    with refused(ConfigurationError, fragment):
        call()


@pytest.mark.parametrize(
    ("code", "fragment"),
    [
        ("Mine = 3", "mine.py:Mine' must be a subclass of dpeer.training.Codec"),
        ("class Mine(Codec): ...", "mine.py:Mine': Mine does not define decode, encode, payload_bytes"),
    ],
)
def test_what_is_no_codec_is_refused(code: str, fragment: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"from dpeer.training import Codec\n{code}\n")
    with refused(ConfigurationError, f"codec '{tmp_path}/mine.py:Mine'", fragment):
        new_codec(f"{tmp_path}/mine.py:Mine", torch.zeros(3), 0)
    with refused(ConfigurationError, "unknown codec 'int9'"):
        new_codec("int9", torch.zeros(3), 0)


CODEC = """
from dpeer.training import Codec, Undecodable

class Mine(Codec):
    @property
    def payload_bytes(self): return 4 * self.count
    def encode(self, values, number): return [values.numpy().tobytes()]
    def decode(self, payload): return [self.start]
    def __init__(self, start, rank):
        super().__init__(start, rank)
        self.start = start
"""


@pytest.mark.parametrize(
    ("old", "new", "fragment"),
    [
        ("(self, start, rank):", "(self):", "codec Mine cannot encode and decode the common start: TypeError"),
        ("    @property\n", "", "codec Mine: its payload_bytes must be a property"),
        ("return 4 * self.count", "return 200", "codec Mine encoded 224 bytes, and its payload_bytes is 200"),
        ("[values.numpy()", "[oops", "the common start: NameError: name 'oops' is not defined (mine.py line 7)"),
        ("[values.numpy().tobytes()]", "values.numpy().tobytes()", "its encode gave a bytes; it must give a list"),
        ("[values.numpy().tobytes()]", "[values]", "TypeError: memoryview: a bytes-like object is required"),
        ("[self.start]", "self.start", "its decode gave a Tensor; it must give a list"),
        ("[self.start]", "[self.start[:9]]", "its decode gave 9 values, must be 56"),
        ("return [self.start]", "raise Undecodable('odd')", "the codec's 'decode' refuses what its 'encode' gave: odd"),
    ],
)
def test_whatever_a_codec_does_wrong_is_said_before_anything_is_sent(
    old: str, new: str, fragment: str, tmp_path: Path
) -> None:
    assert old in CODEC
    (tmp_path / "mine.py").write_text(CODEC.replace(old, new))
    h = Hyperparameters(compress=f"{tmp_path}/mine.py:Mine")
    with refused(DpeerError, fragment):
        build_learner(small_task(), "fedper", h, rank=0, seed=0)


@pytest.mark.parametrize(
    ("line", "fragment"),
    [
        ("return [oops]", "codec Mine failed in round 3: NameError: name 'oops' is not defined (mine.py line 8)"),
        ("return [bytes(225)]", "codec Mine encoded 225 bytes, and its payload_bytes is 224"),
    ],
)
def test_what_a_codec_does_wrong_later_is_said_before_that_round_is_sent(
    line: str, fragment: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(CODEC.replace("number): ", f"number):\n        if number: {line}\n        "))
    h = Hyperparameters(compress=f"{tmp_path}/mine.py:Mine")
    learner = build_learner(small_task(), "fedper", h, rank=0, seed=0)
    with refused(ConfigurationError, fragment):
        learner.release(3)
