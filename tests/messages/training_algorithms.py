"""Error messages of algorithms, of their options and codecs, and of settings that do not go together."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from dpeer.exceptions import AlgorithmError, ConfigurationError, TaskError, UnknownName
from dpeer.plugins import check_source
from dpeer.training import Algorithm, Hyperparameters, build_learner, find_algorithm, make_options, option
from dpeer.training.algorithms.fedadamw import FedAdamW
from dpeer.training.blocks import blocks_of
from dpeer.training.codecs import new_codec
from dpeer.training.device import find_device
from dpeer.training.flat import Extras
from dpeer.training.gradients import looks
from tests.messages.message import Message, file
from tests.training.small import SmallNet, small_task

Cause = Callable[[Path], Any]
MINE = """
from dataclasses import dataclass
from dpeer.training import Algorithm

class Mine(Algorithm):
    shares = "body"
    def train(self, peer): peer.fit(peer.body, epochs=1, lr=0.1)

class Abstract(Algorithm):
    shares = "body"

class Nowhere(Algorithm):
    def train(self, peer): ...

class Everything(Nowhere):
    shares = "all"

class Thawed(Mine):
    @dataclass
    class Options:
        k: int = 3

class Odd(Mine):
    @dataclass(frozen=True)
    class Options:
        k: "NoSuchType" = 3

class Uses(Mine):
    uses = ("head_lr", "rho")

number = 3
"""
CODEC = "from dpeer.training import Codec\nclass Mine(Codec):\n"
CODEC_FAILS = CODEC + "  payload_bytes = encode = decode = 0\n  def __init__(self): ..."


def found(name: str, text: str = MINE) -> Cause:
    """A cause: an algorithm of a file."""
    return file("mine.py", text, lambda path: find_algorithm(f"{path}:{name}"))


def codec(text: str) -> Cause:
    """A cause: a codec of a file."""
    return file("mine.py", text, lambda path: new_codec(f"{path}:Mine", torch.zeros(3), 0, steady=True))


class Plain(Algorithm):
    """Trains the body."""

    shares = "body"

    def train(self, peer: Any) -> None:
        peer.fit(peer.body, epochs=1, lr=0.1)


def own(**attributes: Any) -> Cause:
    """A cause: a round of an algorithm of one's own with such attributes, and its checkpoint."""
    kind = type("Own", (Plain,), attributes)

    def cause(folder: Path) -> None:
        task = small_task()
        task.model.fixed = nn.Parameter(torch.ones(2), requires_grad=False)
        one = build_learner(task, kind, Hyperparameters(body_epochs=1), rank=0, seed=0)
        one.train(0)
        one.save(folder)

    return cause


def fail(*_: Any) -> Any:
    raise ZeroDivisionError("oh")


class Registry(Plain):
    """Forgets to call its base."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        cls.name = cls.__name__


class Registered(Registry):
    pass


class Optional(Plain):
    """Has options."""

    @dataclass(frozen=True)
    class Options:
        mu: float = option(0.1, "a pull", ge=0, lt=10)
        k: int = 3
        kind: Literal["near", "far"] = "near"
        on: bool = False

        def __post_init__(self) -> None:
            if self.k == 13:
                raise ValueError("k must not be 13")


class Needy(Plain):
    """Needs one."""

    @dataclass(frozen=True)
    class Options:
        gamma: float


class Strange(Plain):
    """Has an option that cannot be compared."""

    @dataclass(frozen=True)
    class Options:
        thing: Any = field(default_factory=lambda: re.compile("a"))


def options(of: type[Algorithm] = Optional, **values: Any) -> Cause:
    return lambda _: make_options(of, values)


def learner(algorithm: Any, *, given: Any = None, changes: Any = None, **h: Any) -> Cause:
    """A cause: a learner, and a round of it."""

    def cause(_: Path) -> Any:
        task = small_task(**(changes() if callable(changes) else changes or {}))
        return build_learner(task, algorithm, Hyperparameters(**h), rank=0, seed=0, options=given).train(0)

    return cause


def recorded(*steps: int) -> Cause:
    """A cause: a round with steps that were recorded of another one; it has 8 steps of the head, then 2 of the body."""

    def cause(_: Path) -> Any:
        h = Hyperparameters(body_epochs=1, head_epochs=4)
        return build_learner(small_task(), "dfedmdc", h, rank=0, seed=0).train(0, recorded=steps)

    return cause


class Scaled(SmallNet):
    """Does something to what the head gives."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def deep() -> dict[str, Any]:
    return {"model": nn.Sequential(nn.Linear(6, 5), nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 3))), "head": ("1",)}


def frozen() -> dict[str, Any]:
    model = SmallNet()
    model.fc.bias.requires_grad_(False)
    return {"model": model}


def beyond() -> dict[str, Any]:
    return {"train": TensorDataset(torch.zeros(4, 6), torch.arange(4) + 4)}


def device(text: str, count: int) -> Cause:
    """A cause: a device on a machine that has so many."""

    def cause(_: Path) -> Any:
        has = torch.cuda.is_available, torch.cuda.device_count
        torch.cuda.is_available, torch.cuda.device_count = (lambda: count > 0), (lambda: count)
        try:
            return find_device(text, 0)
        finally:
            torch.cuda.is_available, torch.cuda.device_count = has

    return cause


def longer(_: Path) -> None:
    Extras({"moment": 1}, torch.zeros(1))["moment"] = torch.zeros(2)


def elsewhere(_: Path) -> Any:
    kind = type("Typed", (Plain,), {"__module__": "nowhere"})
    return check_source("algorithm Typed", kind, AlgorithmError)


def twice(_: Path) -> Any:
    return looks(SimpleNamespace(looks=0.5))


HYPERNETWORK = {"personal": "hypernetwork"}
# fmt: off
MESSAGES = {
    # Finding one.
    "an unknown algorithm": Message(lambda _: find_algorithm("dfedsmcd"), UnknownName,
        "unknown algorithm 'dfedsmcd': did you mean 'dfedsmdc'? valid: local, dfedavgm, dfedsam, dfedmdc, "
        "dfedsmdc, dis-pfl, fedavg, fedsam, fedper, fedrep, fedbabu, ditto, fedrod, localadamw, fedadamw, "
        "scaffold, fedavg-ls, fedopt, fafed, fedlada"),
    "no such file": Message(lambda _: find_algorithm("no/such.py:Mine"), AlgorithmError,
        "algorithm 'no/such.py:Mine': no such file: 'no/such.py' (the current folder is {folder})"),
    "no such module": Message(lambda _: find_algorithm("no_such_module:Mine"), AlgorithmError,
        "algorithm 'no_such_module:Mine' cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
    "a file without a class": Message(lambda _: find_algorithm("mine.py"), AlgorithmError,
        "algorithm 'mine.py' names no class; write 'mine.py:CLASS'"),
    "a file with a slip": Message(found("Mine", "def broken(:\n"), AlgorithmError,
        "algorithm '{folder}/mine.py:Mine' cannot be imported: SyntaxError: invalid syntax (mine.py, line 1)"),
    "no such class": Message(found("Mien"), AlgorithmError,
        "algorithm '{folder}/mine.py:Mien' has no 'Mien': did you mean 'Mine'? it has Mine, Abstract, Nowhere, "
        "Everything, Thawed, Odd, Uses"),
    "the base class": Message(found("Algorithm"), AlgorithmError,
        "algorithm '{folder}/mine.py:Algorithm' is the class Algorithm; it must be a subclass of "
        "dpeer.training.Algorithm"),
    "a number": Message(found("number"), AlgorithmError,
        "algorithm '{folder}/mine.py:number' is a int; it must be a subclass of dpeer.training.Algorithm"),
    "a class of another kind": Message(lambda _: find_algorithm(int), AlgorithmError,
        "algorithm 'int' is the class int; it must be a subclass of dpeer.training.Algorithm"),
    "a class without train": Message(found("Abstract"), AlgorithmError,
        "algorithm '{folder}/mine.py:Abstract': Abstract does not define train(self, peer)"),
    "a class that shares nowhere": Message(found("Nowhere"), AlgorithmError,
        "algorithm Nowhere: its shares is missing; it must be one of 'model', 'body', 'nothing'"),
    "a class that shares all": Message(found("Everything"), AlgorithmError,
        "algorithm Everything: its shares is 'all'; it must be one of 'model', 'body', 'nothing'"),
    "options that can change": Message(found("Thawed"), AlgorithmError,
        "algorithm Thawed: its Options must be a frozen dataclass: put @dataclass(frozen=True) above it"),
    "options of no type": Message(found("Odd"), AlgorithmError,
        "algorithm Odd: its Options cannot be checked: NameError: name 'NoSuchType' is not defined"),
    "a use of no hyperparameter": Message(found("Uses"), AlgorithmError,
        "algorithm '{folder}/mine.py:Uses': its uses name 'rho', which is no hyperparameter"),
    "a class of no file": Message(elsewhere, AlgorithmError,
        "algorithm Typed: no file is known that it, or a class that it derives from, is written in, so that "
        "peers could not tell whether theirs is the same: write it into a file, or run all peers in one process "
        "with dpeer simulate"),
    # What one does.
    "an __init__ of its own": Message(own(__init__=lambda self, options=None: None), AlgorithmError,
        "algorithm Own: its __init__ must call super().__init__(options)"),
    "an __init__ without options": Message(own(__init__=lambda self: None), AlgorithmError,
        "algorithm Own cannot be made with its options: TypeError: <lambda>() takes 1 positional argument but 2 "
        "were given"),
    "an __init_subclass__": Message(learner(Registered), AlgorithmError,
        "algorithm Registered: a class that it derives from has an __init_subclass__ that must call "
        "super().__init_subclass__(**arguments)"),
    "a fact that is None": Message(own(mixed_uses_data=None), AlgorithmError,
        "algorithm Own: its mixed_uses_data is None; it must be True or False"),
    "defaults beyond limits": Message(own(defaults={"body_epochs": -3}), AlgorithmError,
        "algorithm 'Own': its defaults: body_epochs = -3: input should be greater than or equal to 1"),
    "defaults of no algorithm": Message(own(defaults={"rounds": 1}), AlgorithmError,
        "algorithm 'Own': its defaults name 'rounds', which all algorithms are given alike"),
    "a train that fails": Message(own(train=fail), AlgorithmError,
        "algorithm Own failed in 'train': ZeroDivisionError: oh"),
    "a plan that fails": Message(own(plan=fail), AlgorithmError,
        "algorithm Own failed in 'plan': ZeroDivisionError: oh"),
    "a plan of taken keys": Message(own(plan=lambda self, peer: {"seed": 0}), AlgorithmError,
        "algorithm Own failed in 'plan': ValueError: the key 'seed' is dpeer's own: give it another name"),
    "a state of numbers": Message(own(state=lambda self: {0: torch.zeros(2)}), AlgorithmError,
        "algorithm Own failed in 'state': TypeError: the name 0 of a tensor is no text"),
    "a state of floats": Message(own(state=lambda self: {"k": 3.0}), AlgorithmError,
        "algorithm Own failed in 'state': TypeError: 'k' is a float; it must be a dense tensor: "
        "torch.tensor(...) makes one of a number"),
    "a state of sparse tensors": Message(own(state=lambda self: {"k": torch.eye(3).to_sparse()}), AlgorithmError,
        "algorithm Own failed in 'state': TypeError: 'k' is a torch.sparse_coo; it must be a dense tensor: "
        "torch.tensor(...) makes one of a number"),
    "a state of nothing": Message(own(state=lambda self: None), AlgorithmError,
        "algorithm Own failed in 'state': TypeError: 'NoneType' object is not iterable"),
    "extras that go nowhere": Message(own(shares="nothing", extras=lambda self, split: {"c": 3}), AlgorithmError,
        "algorithm Own shares nothing, so that its extras (c) go nowhere"),
    "extras of half a value": Message(own(extras=lambda self, split: {"c": 0.5}), AlgorithmError,
        "algorithm Own: its extras are {'c': 0.5}; they must be numbers of values, each 1 or more, by name"),
    "extras of another length": Message(longer, AlgorithmError,
        "extras 'moment' have shape (1,), and values of shape (2,) were given"),
    "a gradient rule of half a look": Message(twice, AlgorithmError,
        "a gradient rule states looks = 0.5 gradients on a batch; it must be 1 or more"),
    # Options.
    "an option below its limit": Message(options(mu=-1), AlgorithmError,
        "--algorithm-option mu=-1: input should be greater than or equal to 0 (Optional)"),
    "an option that is NaN": Message(options(mu=float("nan")), AlgorithmError,
        "--algorithm-option mu=nan: input should be a finite number (Optional)"),
    "an option that is a text": Message(options(mu="0.5"), AlgorithmError,
        "--algorithm-option mu=0.5: input should be a valid number (Optional)"),
    "an option that is no whole number": Message(options(k=2.0), AlgorithmError,
        "--algorithm-option k=2.0: input should be a valid integer (Optional)"),
    "an option that is no truth": Message(options(on=1), AlgorithmError,
        "--algorithm-option on=1: input should be a valid boolean (Optional)"),
    "an option of two": Message(options(kind="nearer"), AlgorithmError,
        "--algorithm-option kind=nearer: input should be 'near' or 'far' (Optional)"),
    "an option that the class refuses": Message(options(k=13), AlgorithmError,
        "--algorithm-option: Optional refuses its options: ValueError: k must not be 13"),
    "an unknown option": Message(lambda _: make_options(Optional, {"kid": 1}, "--x"), UnknownName,
        "unknown option of Optional 'kid' in --x: did you mean 'kind'? valid: mu, k, kind, on"),
    "an option of an algorithm without": Message(options(find_algorithm("dfedavgm"), k=1), UnknownName,
        "unknown option of dfedavgm 'k' in --algorithm-option: valid: (none)"),
    "an option without a default": Message(options(Needy), AlgorithmError,
        "Needy needs --algorithm-option gamma=VALUE: it has no default"),
    "an option that cannot be compared": Message(options(Strange), AlgorithmError,
        "algorithm Strange: an option that all peers share must be numbers, texts, lists or tables of such, "
        "which can be compared (TypeError: a Pattern); or say option(..., shared=False)"),
    "an option without effect": Message(options(FedAdamW, aggregate="full", blocks="residual"), AlgorithmError,
        "--algorithm-option: fedadamw refuses its options: ValueError: blocks=residual has no effect with "
        "aggregate=full: leave it out"),
    "hidden units of no hypernetwork": Message(learner("fedrod", given={"hidden": 8}), AlgorithmError,
        "--algorithm-option: fedrod refuses its options: ValueError: hidden=8 is of the hypernetwork, and "
        "personal=linear has none: leave it out, or add personal=hypernetwork"),
    "a head of another kind": Message(learner("fedrod", given={"personal": "mlp"}), AlgorithmError,
        "--algorithm-option personal=mlp: input should be 'linear' or 'hypernetwork' (fedrod)"),
    # Tasks and settings that do not suit one.
    "fedrod: two heads": Message(learner("fedrod", changes={"head": ("body", "fc")}), TaskError,
        "fedrod needs a head that is one torch.nn.Linear module, all of it trained; the task's head is 'body', "
        "'fc': name the last layer alone"),
    "fedrod: no head": Message(learner("fedrod", given=HYPERNETWORK, changes={"head": ()}), TaskError,
        "fedrod needs a head that is one torch.nn.Linear module, all of it trained; the task's head is empty: "
        "name the last layer alone"),
    "fedrod: a part of a head": Message(learner("fedrod", changes={"head": ("fc.weight",)}), TaskError,
        "fedrod needs a head that is one torch.nn.Linear module, all of it trained; the task's head is "
        "'fc.weight': name the last layer alone"),
    "fedrod: a deep head": Message(learner("fedrod", given=HYPERNETWORK, changes=deep), TaskError,
        "fedrod needs a head that is one torch.nn.Linear module, all of it trained; the task's head is '1', a "
        "Sequential: name the last layer alone"),
    "fedrod: a frozen head": Message(learner("fedrod", changes=frozen), TaskError,
        "fedrod needs a head that is one torch.nn.Linear module, all of it trained; the task's head is 'fc', a "
        "Linear: name the last layer alone"),
    "fedrod: another loss": Message(learner("fedrod", changes={"loss": lambda o, t: cross_entropy(o, t)}), TaskError,
        "--algorithm fedrod has a loss of its own, …"),
    "fedrod: classes beyond": Message(learner("fedrod", changes=beyond), TaskError,
        "class 7 is among the targets, the model has 3 outputs: they count from 0"),
    "fedrod: scaled outputs": Message(learner("fedrod", changes=lambda: {"model": Scaled()}), TaskError,
        "fedrod needs a model that returns what its head 'fc' gives, once a batch"),
    "fedrod: class weights": Message(learner("fedrod", class_weights="balanced"), TaskError,
        "fedrod has a loss that balances classes itself: leave out --class-weights balanced"),
    "dis-pfl: nothing left": Message(learner("dis-pfl", given={"sparsity": 0.95}), TaskError,
        "--sparsity 0.95 leaves nothing of 'body.0.bias': small layers are kept whole first; choose less"),
    "fedadamw: sgd": Message(learner("fedadamw", optimizer="sgd"), ConfigurationError,
        "--optimizer sgd: fedadamw takes steps of adamw; leave it out"),
    "blocks: no residual ones": Message(lambda _: blocks_of(nn.Linear(2, 2), [], "residual"), TaskError,
        "--algorithm-option blocks=residual: the model has no residual blocks, which are elements of an "
        "nn.Sequential or nn.ModuleList with layers of their own: use blocks=layer"),
    "--finish of no head": Message(learner("dfedavgm", changes={"head": ()}, finish="head:2"), ConfigurationError,
        "--finish head:2: nothing of the task's head is trained; --finish all:2 trains the whole model"),
    "--compress int8 with dis-pfl": Message(learner("dis-pfl", compress="int8"), ConfigurationError,
        "--compress int8 cannot be used with dis-pfl, which sends what is held of the model"),
    "--compress int8 with extras": Message(learner("fedrod", given=HYPERNETWORK, compress="int8"), ConfigurationError,
        "--compress int8 cannot be used with fedrod, which sends more than a body (hypernetwork): values of another "
        "size would share its scales"),
    "--compress bfloat16 with dis-pfl": Message(learner("dis-pfl", compress="bfloat16"), ConfigurationError,
        "--compress bfloat16 cannot be used with dis-pfl, which sends what is held of the model"),
    "--robust with --compress int8": Message(learner("dfedmdc", robust="clip", compress="int8"), ConfigurationError,
        "--robust clip cannot be used with --compress int8, whose sums must keep what was rounded away: leave one "
        "of them out; --compress bfloat16 halves the bytes and goes with it"),
    "--robust with dis-pfl": Message(learner("dis-pfl", robust="median"), ConfigurationError,
        "--robust median cannot be used with dis-pfl, which sends what is held of the model: bodies that are not "
        "all values of the model are not compared"),
    "--robust with extras": Message(learner("fedrod", given=HYPERNETWORK, robust="clip"), ConfigurationError,
        "--robust clip cannot be used with fedrod, which sends more than a body (hypernetwork): what it relies "
        "on of their sums holds for weighted means alone"),
    "--max-norm with dis-pfl": Message(learner("dis-pfl", max_norm=2.0), ConfigurationError,
        "--max-norm 2 cannot be used with dis-pfl, which sends what is held of the model: bodies that are not "
        "all values of the model are not compared"),
    **{f"overlap with {what}": Message(learner(name, overlap=1, **values), ConfigurationError,
        f"--overlap 1 with {what}: {reason}") for name, values, what, reason in (
        ("dfedmdc", {"robust": "clip"}, "--robust clip",
         "what is mixed a round late are differences of bodies, and its bounds hold for bodies: leave one of the two "
         "out"),
        ("dfedmdc", {"max_norm": 2.0}, "--max-norm 2",
         "what is mixed a round late are differences of bodies, and its bounds hold for bodies: leave one of the two "
         "out"),
        ("dis-pfl", {}, "dis-pfl, which sends what is held of the model", "it mixes in a way of its own; leave it out"),
        ("scaffold", {}, "scaffold, which sends variates",
         "they have to be those of the round that trains; leave it out"),
        ("fedavg-ls", {}, "fedavg-ls, which changes the mix of the round that it has trained", "leave it out"),
    )},
    **{f"outer with {what}": Message(learner(name, outer="nesterov:0.7:0.9", **values), ConfigurationError,
        f"--outer nesterov:0.7:0.9 with {what}: {reason}") for name, values, what, reason in (
        ("dfedmdc", {"robust": "clip"}, "--robust clip",
         "its bounds hold for one round, and momentum carries what a hostile body has moved on for many: leave one of "
         "the two out"),
        ("dis-pfl", {}, "dis-pfl, which sends what is held of the model", "it mixes in a way of its own; leave it out"),
        ("scaffold", {}, "scaffold, which sends variates", "momentum is for bodies alone; leave it out"),
        ("fedavg-ls", {}, "fedavg-ls, which changes the mix by a step of its own", "leave it out"),
    )},
    # Codecs and devices.
    "an unknown codec": Message(lambda _: new_codec("int9", torch.zeros(3), 0, steady=True), UnknownName,
        "unknown codec 'int9': did you mean 'int8'? valid: float32, bfloat16, float16, int16, int8, int4"),
    "a codec that is a number": Message(codec("Mine = 3"), ConfigurationError,
        "codec '{folder}/mine.py:Mine' must be a subclass of dpeer.training.Codec"),
    "a codec without methods": Message(codec(CODEC + "  ..."), ConfigurationError,
        "codec '{folder}/mine.py:Mine': Mine does not define decode, encode, payload_bytes"),
    "a codec that cannot be made": Message(codec(CODEC_FAILS), ConfigurationError,
        "codec '{folder}/mine.py:Mine' cannot be made: TypeError: Mine.__init__() takes 1 positional argument "
        "but 3 were given"),
    "no device": Message(device("cuda:1", 0), ConfigurationError,
        "--device cuda:1: this torch (…) sees no CUDA device; use --device cpu or auto"),
    "one device": Message(device("cuda:1", 1), ConfigurationError,
        "--device cuda:1: this machine has cuda:0 alone; choose one, or --device auto"),
    "four devices": Message(device("cuda:7", 4), ConfigurationError,
        "--device cuda:7: this machine has cuda:0 to cuda:3; choose one, or --device auto"),
}
# fmt: on
