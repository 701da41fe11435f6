"""Error messages of tasks: what they are made of, how they are loaded, and what fails in training and evaluation."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

from dpeer.exceptions import ConfigurationError, PartitionError, TaskError, UnknownName
from dpeer.training import Choices, Hyperparameters, Task, build_learner, load_task
from dpeer.training.local_baseline import independent_copy
from dpeer.training.objective import check_broadcast
from dpeer.training.split import split
from dpeer.training.state.store import write_tensors
from dpeer.training.validation import with_validation
from tests.messages.message import Message, file
from tests.training.small import SmallNet, small_task

Cause = Callable[[Path], Any]


def task(**changes: Any) -> Cause:
    """A cause: a task of these parts."""
    return lambda _: small_task(**changes)


def trained(make: Callable[[], Task], algorithm: str = "dfedmdc", **h: Any) -> Cause:
    """A cause: a round's training."""
    return lambda _: build_learner(make(), algorithm, Hyperparameters(**h), rank=0, seed=0).train(0)


def training(**changes: Any) -> Cause:
    """A cause: a round's training of a task of these parts."""
    return trained(lambda: small_task(**changes))


def evaluated(**changes: Any) -> Cause:
    """A cause: the evaluation of a task of these parts."""
    return lambda _: build_learner(small_task(**changes), "local", rank=0, seed=0).evaluate()


class Stream(IterableDataset[Any]):
    """Has no length."""

    def __iter__(self) -> Iterator[Any]:
        return iter([])


class Broken:
    """Data that cannot be read."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        raise OSError("disk on fire")


class Gives(nn.Module):
    """A model of which something is made that it gives."""

    def __init__(self, made: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.body, self.fc, self.made = nn.Linear(6, 4), nn.Linear(4, 3), made

    def forward(self, x: Tensor) -> Any:
        return self.made(self.fc(self.body(x)))


class Net(nn.Module):
    """A body with something in it, a head `fc`, and one more tensor."""

    def __init__(self, extra: nn.Module | None = None, **tensors: Tensor) -> None:
        super().__init__()
        self.body, self.extra, self.fc = nn.Linear(6, 4), extra or nn.Identity(), nn.Linear(4, 3)
        for name, tensor in tensors.items():
            setattr(self, name, tensor) if isinstance(tensor, nn.Parameter) else self.register_buffer(name, tensor)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc(self.extra(self.body(x)))
        return out


class Normalised(Net):
    """No module normalises, but a function."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(functional.batch_norm(x, None, None, training=self.training))


def failing(*_: Any) -> Any:
    raise ValueError("no\ngood")


def tied(*, storage: bool) -> nn.Module:
    """Two layers with one weight, or two weights in one memory."""
    net = Net(nn.Linear(4, 4))
    net.other = nn.Linear(4, 4)
    net.other.weight = nn.Parameter(net.extra.weight.data) if storage else net.extra.weight
    return net


def inference() -> Tensor:
    with torch.inference_mode():
        return torch.ones(4)


def divided(model: Callable[[], nn.Module], head: tuple[str, ...] = ("fc",), shares: Any = "body") -> Cause:
    """A cause: a model divided into body and head."""
    return lambda _: split(model(), head, shares, "dfedmdc" if shares == "body" else "dfedavgm")


def rows(inputs: Any, targets: Any, **changes: Any) -> Cause:
    """A cause: training on such rows."""
    return training(train=TensorDataset(inputs, targets), **changes)


def loaded(text: str, **options: Any) -> Cause:
    """A cause: a task of a file of this text."""
    return file("mine.py", text, lambda path: load_task(f"{path}:task", 0, 4, 0, options))


def named(spec: str, choices: Choices | None = None, size: int = 4, **options: Any) -> Cause:
    """A cause: a task of this name."""
    return lambda _: load_task(spec, 0, size, 0, options, choices)


def absolute(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).abs().mean()


def augmented(augment: Any) -> Cause:
    """A cause: training on data that are changed so."""
    return training(augment=augment)


def copied(**changes: Any) -> Cause:
    """A cause: a task copied for the local baseline."""
    return lambda _: independent_copy(small_task(**changes))


def uncopied(_: Path) -> Any:
    model = SmallNet()
    model.cursed = (one for one in ())
    return independent_copy(small_task(model=model))


def of_its_model(_: Path) -> Any:
    model = SmallNet()
    return independent_copy(small_task(model=model, loss=partial(lambda model, o, t: o.mean(), model)))


def two_ranks(_: Path) -> Any:
    first = small_task()
    build_learner(first, "dfedmdc", rank=0, seed=0)
    return build_learner(small_task(1, model=nn.Sequential(first.model.body), head=()), "dfedmdc", rank=1, seed=0)


def drawing(_: Path) -> Any:
    return build_learner(small_task(dropout=0.5, draws=False), "dfedmdc", rank=0, seed=0).train(0)


def two_targets() -> TensorDataset:
    return TensorDataset(torch.zeros(4, 6), torch.zeros(4, 2))


def alike() -> Task:
    return small_task(train=TensorDataset(torch.zeros(30, 6), torch.arange(30) % 2))


MAKING = "from dpeer.training import Task, partition\n"
GROUPS: dict[str, Any] = {
    "too few": range(49), "a text": "p" * 50, "a number": 50, "a column": np.zeros((50, 1)), "mixed": [1, "1"] * 25,
    "ragged": [[1], [1, 2]] * 25, "nan": [0.0] * 7 + [float("nan")] * 43, "no exact number": [0.5] * 7 + [2.0**53] * 43,
}  # fmt: skip


def batch_norm(**settings: Any) -> Callable[[], nn.Module]:
    return lambda: Net(nn.BatchNorm1d(4, **settings))


# fmt: off
MESSAGES = {
    # What a task is made of.
    "a model's class": Message(task(model=nn.Linear), TaskError,
        "the task's model is the class Linear; it must be a torch.nn.Module instance"),
    "a head of no parameter": Message(task(head=("fc1",)), TaskError,
        "the task's head prefix 'fc1' matches no parameter of the model: did you mean 'fc'? the model's "
        "top-level names are: body, fc"),
    "a head of no names": Message(task(head=3), TaskError,
        "the task's head is 3; it must be a tuple of name prefixes, such as ('fc',)"),
    "a head of everything": Message(task(head=("",)), TaskError,
        "the task's head is ('',); it must be a tuple of name prefixes, such as ('fc',)"),
    "no training data": Message(task(train=TensorDataset(torch.zeros(0, 6), torch.zeros(0))), TaskError,
        "the task's train data is empty; every peer needs at least one sample of it"),
    "test data that are None": Message(task(test=None), TaskError,
        "the task's test data is None; it must be a map-style dataset, with a length and an item for each index"),
    "a stream": Message(task(train=Stream()), TaskError,
        "the task's train data is a Stream; it must be a map-style dataset, with a length and an item for each "
        "index"),
    "a DataLoader": Message(task(train=DataLoader(small_task().train)), TaskError,
        "the task's train data is a DataLoader; it must be a map-style dataset, with a length and an item for "
        "each index (pass the DataLoader's dataset)"),
    "a sample that is no pair": Message(task(train=TensorDataset(torch.zeros(3, 6))), TaskError,
        "the first item of the task's train data is a tuple of 1; it must be a pair (input, target), or the task "
        "must give a `collate` that makes such pairs"),
    "data that cannot be read": Message(task(train=Broken()), TaskError,
        "the task's train data cannot be read: OSError: disk on fire"),
    "a loss that is a text": Message(task(loss="mse"), TaskError, "the task's loss is a str; it must be a function"),
    "groups too few": Message(task(groups=GROUPS["too few"]), TaskError,
        "the task's groups are 49, its training examples 50; there must be a number or a string for each "
        "training example"),
    "groups in a text": Message(task(groups=GROUPS["a text"]), TaskError,
        "the task's groups are a str; there must be a number or a string for each training example, in a list or "
        "an array"),
    "groups in a column": Message(task(groups=GROUPS["a column"]), TaskError,
        "the task's groups have shape (50, 1) and type float64; there must be a number or a string for each "
        "training example, all alike"),
    "groups of two types": Message(task(groups=GROUPS["mixed"]), TaskError,
        "the task's groups have shape (50,) and type <U21; there must be a number or a string for each training "
        "example, all alike"),
    "groups that are ragged": Message(task(groups=GROUPS["ragged"]), TaskError,
        "the task's groups cannot be read: ValueError: … (there must be a number or a string for each training "
        "example)"),
    "a group that is NaN": Message(task(groups=GROUPS["nan"]), TaskError,
        "the task's groups have nan for training example 7; there must be a number or a string for each training "
        "example, and whole numbers of 2^53 or more look alike as floats: give them as int or str"),
    "a group that floats round": Message(task(groups=GROUPS["no exact number"]), TaskError,
        "the task's groups have 9007199254740992.0 for training example 7; there must be a number or a string "
        "for each training example, and whole numbers of 2^53 or more look alike as floats: give them as int or str"),
    "a sparse buffer": Message(lambda _: task(model=Net(more=torch.eye(6).to_sparse()))(_), TaskError,
        "buffer 'more' is a sparse coo tensor, and a model's tensors must be dense: call .to_dense(), and "
        ".to_sparse() in forward, or keep it as an attribute that is no buffer"),
    "a buffer of inference mode": Message(lambda _: task(model=Net(more=inference()))(_), TaskError,
        "buffer 'more' was made in inference mode, and cannot be trained with: build the model outside "
        "torch.inference_mode()"),
    "a compiled model": Message(lambda _: task(model=torch.compile(Net(), backend="eager"))(_), TaskError,
        "the task's model is torch.compile(Net), whose parameters have other names: give the Net itself, and "
        "compile it in place with model.compile()"),
    # How a model is divided.
    "batch norm in the body": Message(divided(batch_norm()), TaskError,
        "BatchNorm1d 'extra' cannot be shared (it is in the body): its running statistics belong to one peer's "
        "data; use torch.nn.GroupNorm instead (dpeer.training.replace_batch_norm(model) does), or keep it at "
        "home with 'extra' in the task's head"),
    "batch norm without parameters": Message(divided(batch_norm(affine=False)), TaskError,
        "BatchNorm1d 'extra' cannot be shared (it is in the body): its running statistics belong to one peer's "
        "data; use torch.nn.GroupNorm instead (dpeer.training.replace_batch_norm(model) does), or keep it at "
        "home with 'extra' in the task's head"),
    "instance norm with statistics": Message(
        divided(lambda: Net(nn.InstanceNorm1d(4, track_running_stats=True))), TaskError,
        "InstanceNorm1d 'extra' cannot be shared (it is in the body): its running statistics belong to one "
        "peer's data; use torch.nn.GroupNorm instead, or keep it at home with 'extra' in the task's head"),
    "batch norm where all is shared": Message(divided(batch_norm(), ("fc", "extra"), "model"), TaskError,
        "BatchNorm1d 'extra' cannot be shared (dfedavgm shares the whole model): its running statistics belong "
        "to one peer's data; use torch.nn.GroupNorm instead (dpeer.training.replace_batch_norm(model) does)"),
    "tied weights": Message(divided(partial(tied, storage=False)), TaskError,
        "parameters 'extra.weight' and 'other.weight' are one tied tensor in the body: untie them (give each its "
        "own copy; in transformers tie_word_embeddings=False), put both into the head, or freeze them, as --lora "
        "does"),
    "two weights in one memory": Message(divided(partial(tied, storage=True)), TaskError,
        "parameters 'extra.weight' and 'other.weight' are two over one tied tensor: assign one Parameter to "
        "both, or give each its own copy"),
    "a body of float64": Message(divided(lambda: Net(nn.Linear(4, 4).double())), TaskError,
        "parameter 'extra.weight' is float64; trainable parameters must be float32: call model.float(), or "
        "freeze it with requires_grad=False"),
    "a lazy layer": Message(divided(lambda: Net(nn.LazyLinear(4))), TaskError,
        "parameter 'extra.weight' is not initialised yet: run one batch through the model first"),
    "a head that covers everything": Message(divided(Net, ("fc", "body")), TaskError,
        "the task's head ('fc', 'body') covers every trainable parameter, so dfedmdc has no body to share: name "
        "fewer prefixes (the last layer is usual), or train with --algorithm local"),
    "a model that is frozen": Message(divided(lambda: Net().requires_grad_(False)), TaskError,
        "the task's model has no trainable parameters: all have requires_grad=False, or none exist"),
    "one model for two ranks": Message(two_ranks, TaskError,
        "the task's model is or has a part ('0') that another peer of this process trains already: build a new "
        "model in every call of the factory"),
    # Training.
    "a loss that fails": Message(training(loss=failing), TaskError,
        "the task's loss failed on a training batch: ValueError: no good"),
    "a loss for each sample": Message(training(loss=lambda o, t: o), TaskError,
        "the task's loss gave a tensor of shape (32, 3); it must give one number, the mean over the batch"),
    "a loss that follows from nothing": Message(training(loss=lambda o, t: torch.tensor(0.0)), TaskError,
        "the task's model cannot be differentiated: RuntimeError: … (the loss does not follow from the outputs: "
        "compute it with gradients enabled, and without .item(), .detach(), .argmax() or numpy)"),
    "a loss that is a float": Message(training(loss=lambda o, t: o.mean().item()), TaskError,
        "the task's loss gave a float; it must give a tensor, which training differentiates: leave out .item() "
        "and numpy"),
    "outputs by name": Message(training(model=Gives(lambda o: {"logits": o})), TaskError,
        "the task's loss failed on a training batch: TypeError: … (the model gives a dict of 'logits': have "
        "forward return one tensor, or the task's `loss` take the dict)"),
    "two outputs": Message(training(model=Gives(lambda o: (o, o))), TaskError,
        "the task's loss failed on a training batch: TypeError: … (the model gives a tuple of 2: have forward "
        "return one tensor, or the task's `loss` take the tuple)"),
    "no output": Message(training(model=Gives(lambda o: None)), TaskError,
        "the task's loss failed on a training batch: TypeError: … (the model gives nothing: have forward return "
        "a tensor)"),
    "sparse outputs": Message(training(model=Gives(Tensor.to_sparse)), TaskError,
        "the task's loss failed on a training batch: NotImplementedError: … (the model gives a sparse coo "
        "tensor: have forward return a dense one)"),
    "outputs without gradients": Message(training(model=Gives(Tensor.detach)), TaskError,
        "the task's model cannot be differentiated: RuntimeError: … (the loss follows from no parameter that is "
        "trained: leave torch.no_grad(), torch.set_grad_enabled(False) and .detach() out of the model's forward)"),
    "a collate that fails": Message(training(collate=failing), TaskError,
        "the task's train data cannot be read: ValueError: no good"),
    "a collate that gives no pair": Message(training(collate=lambda batch: 3), TaskError,
        "collating the task's train data must give a pair (inputs, targets)"),
    "inputs of another size": Message(rows(torch.zeros(4, 5), torch.zeros(4).long()), TaskError,
        "the task's model failed on a training batch: RuntimeError: …"),
    "inputs of float64": Message(rows(torch.randn(8, 6).double(), torch.zeros(8).long()), TaskError,
        "the task's model failed on a training batch: RuntimeError: … (the inputs are float64, the model "
        "float32: give inputs as .float())"),
    "classes from 1": Message(rows(torch.randn(8, 6), torch.arange(8) % 3 + 1), TaskError,
        "the task's loss failed on a training batch: IndexError: … (the targets run from 1 to 3, the model has 3 "
        "outputs: classes count from 0)"),
    "targets of int32": Message(rows(torch.randn(8, 6), torch.zeros(8, dtype=torch.int32)), TaskError,
        "the task's loss failed on a training batch: RuntimeError: … (the targets are int32: give class numbers "
        "as .long(), or the task a `loss` for others)"),
    "classes in the last dimension": Message(
        rows(torch.randn(8, 5, 6), torch.zeros(8, 5).long(), model=Gives(lambda o: o[..., :2])), TaskError,
        "the task's loss failed on a training batch: RuntimeError: … (the outputs have shape (8, 5, 2) and the "
        "targets (8, 5): classes go in dimension 1, and here are in the last: give outputs.movedim(-1, 1))"),
    "targets in a column": Message(rows(torch.randn(8, 6), torch.zeros(8, 1).long()), TaskError,
        "the task's loss failed on a training batch: RuntimeError: … (the outputs have shape (8, 3) and the "
        "targets (8, 1): give the targets as .squeeze(1); cross-entropy takes (rows, classes, ...) and (rows, ...))"),
    "targets in rows": Message(rows(torch.randn(8, 6), torch.zeros(8, 4).long()), TaskError,
        "the task's loss failed on a training batch: RuntimeError: … (the outputs have shape (8, 3) and the "
        "targets (8, 4): classes go in dimension 1; cross-entropy takes (rows, classes, ...) and (rows, ...))"),
    "targets of floats": Message(rows(torch.randn(8, 6), torch.rand(8)), TaskError,
        "the task's loss failed on a training batch: RuntimeError: … (the targets are float32: give class "
        "numbers as .long(), or the task a `loss` for others)"),
    "inputs that are text": Message(training(train=[("a", 0), ("b", 1)]), TaskError,
        "the task's model failed on a training batch: TypeError: SmallNet.forward() takes 2 positional arguments "
        "but 3 were given (the inputs are text: turn them into numbers in the dataset)"),
    "targets that are text": Message(training(train=[(torch.zeros(6), "cat")] * 2), TaskError,
        "the task's loss failed on a training batch: TypeError: … (the targets are text: give class numbers 0, "
        "1, ...)"),
    "an index beyond the data": Message(training(train=Subset(small_task().train, [0, 1, 5000])), TaskError,
        "the task's train data cannot be read: IndexError: …"),
    "a loss of all pairs": Message(lambda _: check_broadcast(absolute, torch.zeros(8, 1), torch.zeros(8)), TaskError,
        "the task's loss compares each output with all targets: the outputs have shape (8, 1) and the targets "
        "(8,), which torch broadcasts to one table: give targets as .unsqueeze(1)"),
    "a loss of all pairs, the targets a column": Message(
        lambda _: check_broadcast(functional.mse_loss, torch.zeros(8), torch.zeros(8, 1)), TaskError,
        "the task's loss compares each output with all targets: the outputs have shape (8,) and the targets (8, "
        "1), which torch broadcasts to one table: give targets as .squeeze(1)"),
    "one sample left over": Message(
        trained(lambda: small_task(samples=49, model=batch_norm()(), head=("extra", "fc")), batch_size=16), TaskError,
        "the task's model failed on a training batch: ValueError: … (BatchNorm1d 'extra' needs two samples a "
        "minibatch, and 49 training samples in minibatches of 16 leave one over: choose a --batch-size that does "
        "not, or use torch.nn.GroupNorm)"),
    "minibatches of one": Message(
        trained(lambda: small_task(model=batch_norm()(), head=("extra", "fc")), batch_size=1), TaskError,
        "the task's model failed on a training batch: ValueError: … (BatchNorm1d 'extra' needs two samples a "
        "minibatch: choose a larger --batch-size than 1, or use torch.nn.GroupNorm)"),
    "one sample left over, a function normalises": Message(
        trained(lambda: small_task(samples=49, model=Normalised()), batch_size=16), TaskError,
        "the task's model failed on a training batch: ValueError: … (Normalised needs two samples a minibatch, "
        "and 49 training samples in minibatches of 16 leave one over: choose a --batch-size that does not, or "
        "use torch.nn.GroupNorm)"),
    "a task that draws and denies it": Message(drawing, TaskError,
        "the task draws from the global generators of torch, numpy or random (dropout does), but says "
        "`draws=False`: leave that out"),
    "an augment that changes shapes": Message(augmented(lambda x, _: x[:, :4]), TaskError,
        "the task's augment turned inputs of (32, 6) float32 cpu into (32, 4) float32 cpu; shape, type and "
        "device must stay"),
    "an augment that gives nothing": Message(augmented(lambda x, _: None), TaskError,
        "the task's augment turned inputs of (32, 6) float32 cpu into NoneType; shape, type and device must stay"),
    "an augment that takes too little": Message(augmented(lambda x: x), TaskError,
        "the task's augment failed on a training batch: TypeError: <lambda>() takes 1 positional argument but 2 "
        "were given"),
    "class weights for another loss": Message(
        trained(lambda: small_task(loss=absolute), class_weights="balanced"), TaskError,
        "--class-weights balanced weights the classes of cross-entropy, and this task has another loss: leave it "
        "out (your own loss can weight classes itself; kind=regression has none)"),
    "class weights without classes": Message(
        trained(lambda: small_task(train=two_targets()), class_weights="balanced"), TaskError,
        "--class-weights balanced counts classes: the task's targets must be one class number (int64) per sample"),
    # Evaluation, and files.
    "test targets from 1": Message(evaluated(test=TensorDataset(torch.randn(8, 6), torch.arange(8) % 3 + 1)), TaskError,
        "the task's loss failed on its test data: IndexError: … (the targets run from 1 to 3, the model has 3 "
        "outputs: classes count from 0)"),
    "metrics that fail": Message(evaluated(metrics=failing), TaskError,
        "the task's metrics failed: ValueError: no good"),
    "metrics that are a number": Message(evaluated(metrics=lambda o, t: 0.5), TaskError,
        "the task's metrics gave a float; they must give a dict of name to number"),
    "a metric that is a text": Message(evaluated(metrics=lambda o, t: {"f1": "high"}), TaskError,
        "the task's metric 'f1' is not a number: ValueError: could not convert string to float: 'high'"),
    "--keep best without validation data": Message(
        lambda _: build_learner(small_task(), "local", rank=0, seed=0, keep="best"), TaskError,
        "--keep best needs validation data: hold some out with --validation 0.1 (your own task: give it "
        "`validation=`), or use --keep last"),
    "nothing to hold out": Message(lambda _: with_validation(alike(), 0.2, 0, 0, only_if_enough=False), TaskError,
        "--validation 0.2 would hold out 0 of the task's 30 training samples: give its Task(...) a data set "
        "`validation=`, or another share"),
    "a model that cannot be copied": Message(uncopied, TaskError,
        "the task's model cannot be copied: TypeError: cannot pickle 'generator' object"),
    "a loss that refers to the model": Message(of_its_model, TaskError,
        "the task's loss refers to its model, and cannot be used with a copy of it"),
    "a type that no file can hold": Message(
        lambda folder: write_tensors({"wave": torch.zeros(2, dtype=torch.complex128)}, folder / "file", {}), TaskError,
        "the model's 'wave' has type torch.complex128, which a safetensors file cannot hold"),
    # Loading.
    "an unknown task": Message(named("digit"), UnknownName,
        "unknown task 'digit': did you mean 'digits'? valid: digits, cifar10, cifar100, tiny-imagenet, mnist, "
        "emnist, femnist, har, glue, csv, image-folder"),
    "a file without a factory's name": Message(named("mine.py"), TaskError,
        "task 'mine.py' names no factory; write 'mine.py:task'"),
    "no such file": Message(named("nowhere/mine.py:task"), TaskError,
        "task 'nowhere/mine.py:task': no such file: 'nowhere/mine.py' (the current folder is {folder})"),
    "no such module": Message(named("dpeer_no_such_module:task"), TaskError,
        "task 'dpeer_no_such_module:task' cannot be imported: ModuleNotFoundError: No module named "
        "'dpeer_no_such_module'"),
    "no such factory": Message(file("mine.py", "def task(): ...", lambda p: load_task(f"{p}:tsk", 0, 4, 0)), TaskError,
        "task '{folder}/mine.py:tsk' has no 'tsk': did you mean 'task'? it has task"),
    "a factory that is a module": Message(
        file("mine.py", "import math", lambda p: load_task(f"{p}:math", 0, 4, 0)), TaskError,
        "task '{folder}/mine.py:math' is a module, not a function that returns a Task"),
    "a file with a slip": Message(loaded("def task(:"), TaskError,
        "task '{folder}/mine.py:task' cannot be imported: SyntaxError: invalid syntax (mine.py, line 1)"),
    "a file that exits": Message(loaded("raise SystemExit(3)"), TaskError,
        "task '{folder}/mine.py:task' cannot be imported: SystemExit: 3"),
    "a factory that fails": Message(loaded("def task(*_): raise FileNotFoundError('no\\nscans')"), TaskError,
        "task '{folder}/mine.py:task' failed: FileNotFoundError: no scans"),
    "a factory that gives nothing": Message(loaded("def task(*_): ..."), TaskError,
        "task '{folder}/mine.py:task' returned a NoneType; it must return a dpeer.training.Task"),
    "a factory's own mistake": Message(loaded("def task(rank, size, seed): return len(3)"), TaskError,
        "task '{folder}/mine.py:task' failed: TypeError: object of type 'int' has no len()"),
    "an error of dpeer's in a factory": Message(
        loaded(MAKING + "def task(*_): partition([0, 1], 4, 'iid', 0)"), PartitionError,
        "more peers than samples: 2 samples cannot be divided among 4 peers"),
    "an option that a factory does not take": Message(
        loaded("def task(rank, size, seed, *, classes=2): ...", colour=1), TaskError,
        "task '{folder}/mine.py:task' cannot be called as task(rank, size, seed, **options) with the options "
        "given (colour): got an unexpected keyword argument 'colour'; it takes (rank, size, seed, classes=2)"),
    "an option that is lacking": Message(loaded("def task(rank, size, seed, data): ..."), TaskError,
        "task '{folder}/mine.py:task' cannot be called as task(rank, size, seed, **options) with the options "
        "given (none): missing a required argument: 'data'; it takes (rank, size, seed, data)"),
    "an option that is an argument": Message(loaded("def task(rank, size, seed): ...", rank=1), TaskError,
        "task '{folder}/mine.py:task' cannot be called as task(rank, size, seed, **options) with the options "
        "given (rank): multiple values for argument 'rank'; it takes (rank, size, seed)"),
    "an option of a built-in task": Message(named("digits", colour=1), UnknownName,
        "unknown task option 'colour' in task 'digits': valid: (none)"),
    "an option that is a setting": Message(named("digits", partition="iid"), TaskError,
        "task 'digits': 'partition' is not a task option; use --partition"),
    "a setting of built-in tasks": Message(named("mine.py:task", Choices(partition="iid")), ConfigurationError,
        "--partition iid is for built-in tasks (digits, cifar10, cifar100, tiny-imagenet, mnist, emnist, "
        "femnist, har, glue, csv, image-folder): 'mine.py:task' brings its own data and model; pass it a "
        "--task-option, and use dpeer.training.partition and dpeer.training.build_model in the factory"),
    "a partition that cannot be read": Message(named("digits", Choices(partition="dirichlet:x")), PartitionError,
        "partition 'dirichlet:x': dirichlet takes a positive concentration, such as 'dirichlet:0.3'"),
    "more peers than samples": Message(named("digits", size=2000), PartitionError,
        "more peers than samples: 1438 training samples cannot be divided among 2000 peers"),
}
# fmt: on
