"""Error messages of checkpoints of a learner, and of training with privacy at sample level."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import TensorDataset

from dpeer.exceptions import AlgorithmError, CheckpointError, ConfigurationError, TaskError
from dpeer.privacy import ClientSession, Guarantee, Ledger
from dpeer.privacy.mechanism import ClippedSum
from dpeer.training import Algorithm, Hyperparameters, build_learner
from dpeer.training.device import Compute
from dpeer.training.dpsgd.gradient import PrivateGradient
from dpeer.training.models.scaling import standardize
from dpeer.training.state.file_names import saved_body
from tests.messages.message import Message
from tests.training.dp_learners import sample_session, sampled
from tests.training.small import Preprocessed, RunningMean, small_task

Cause = Callable[[Path], Any]


def learner(folder: Path, algorithm: str = "dfedmdc", *, rank: int = 0, **settings: Any) -> Any:
    """A learner of these settings: the task's, and those that `Hyperparameters` have; `rho` is an option."""
    of_task = {name: settings.pop(name) for name in ("head", "model") if name in settings}
    options = {name: settings.pop(name) for name in ("rho",) if name in settings}
    session = None
    if settings.pop("private", False):
        session = ClientSession(Guarantee(1.0, 1.0, 1e-5), Ledger(folder / "l", {}, resume=False))
    if settings.pop("sampled", False):
        return sampled(small_task(), folder / "s", algorithm)
    task = small_task(**of_task)
    if settings.pop("scaled", False):
        standardize(task.model, task.train.tensors[0])
    h = Hyperparameters(**settings)
    return build_learner(task, algorithm, h, rank=rank, seed=0, options=options, session=session)


def resumed(first: dict[str, Any], then: dict[str, Any], change: Callable[[Path], object] = lambda _: None) -> Cause:
    """A cause: a learner of other settings, or of a file that was changed, takes up a checkpoint."""

    def cause(folder: Path) -> None:
        (folder / "saved").mkdir()
        one = learner(folder, **first)
        one.train(0)
        one.release(0)
        if first.get("finish"):
            one.fine_tune(0)
        one.save(folder / "saved")
        change(folder / "saved")
        learner(folder / "other", **then).load(folder / "saved")

    return cause


def another(**then: Any) -> Cause:
    return resumed({}, then)


def rewritten(key: str, value: Any) -> Cause:
    """A cause: a checkpoint with another value in its JSON is taken up."""

    def change(folder: Path) -> None:
        path = folder / "learner.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))

    return resumed({}, {}, change)


def cut(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-9])


def private(algorithm: Any = "dfedmdc", *, train: bool = False, **changes: Any) -> Cause:
    """A cause: a learner with privacy at sample level, and maybe a round of it."""
    of_task = {name: changes.pop(name) for name in ("model", "loss", "collate", "train_data") if name in changes}
    if "train_data" in of_task:
        of_task["train"] = of_task["test"] = of_task.pop("train_data")

    def cause(folder: Path) -> None:
        made = {name: value() if name == "model" else value for name, value in of_task.items()}
        one = sampled(small_task(**made, **({"head": ()} if "model" in made else {})), folder, algorithm, **changes)
        if train:
            one.train(0)

    return cause


class Packed(nn.Module):
    """Of packed sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 3)

    def forward(self, x: Any) -> Tensor:
        out: Tensor = self.lstm(x)[1][0][0]
        return out


def before(change: Callable[[Tensor], Tensor]) -> Callable[[], nn.Module]:
    return lambda: Preprocessed(change, 6)


def with_layer(layer: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Linear(6, 3), layer())


def stacked(samples: list[Any]) -> tuple[Tensor, Tensor]:
    return torch.stack([x for x, _ in samples]), torch.stack([y for _, y in samples])


def packed(samples: list[Any]) -> Any:
    return pack_sequence([x[None] for x, _ in samples]), stacked(samples)[1]


def beside(samples: list[Any]) -> Any:
    return (stacked(samples)[0], "words"), stacked(samples)[1]


def transposed(samples: list[Any]) -> Any:
    return stacked(samples)[0].T, stacked(samples)[1]


class Peeking(Algorithm):
    """Computes a loss of its own."""

    shares = "body"

    def train(self, peer: Any) -> None:
        def rule(peer: Any, part: Any, batch: Any) -> Any:
            peer.objective(peer.outputs(batch), batch)
            return peer.gradient(part, batch)

        peer.fit(peer.body, epochs=1, lr=0.1, gradient=rule)


class Twice(Algorithm):
    """Takes two gradients where it has said one."""

    shares = "body"

    def train(self, peer: Any) -> None:
        def rule(peer: Any, part: Any, batch: Any) -> Any:
            peer.gradient(part, batch)
            return peer.gradient(part, batch)

        peer.fit(peer.body, epochs=1, lr=0.1, gradient=rule)


class Asking(Algorithm):
    """Asks for a figure of the data."""

    shares = "body"

    def train(self, peer: Any) -> None:
        peer.fit(peer.body, epochs=1, lr=0.1 / peer.num_samples)


def best(folder: Path, **more: Any) -> Any:
    task = small_task()
    task.validation = task.test
    return build_learner(task, "dfedmdc", rank=0, seed=0, session=sample_session(folder), **more)


def halves(folder: Path) -> Any:
    session = sample_session(folder)
    return build_learner(small_task(), "dfedmdc", rank=0, seed=0, session=session, compute=Compute(amp="bf16"))


LAST: dict[str, Any] = {"algorithm": "dfedavgm", "rounds": 1, "finish": "all:1"}
IGNORED = TensorDataset(torch.randn(8, 6), torch.tensor([0, -100] * 4))
RAGGED = [(torch.randn(2 + i, 6), torch.tensor(i % 3)) for i in range(6)]
SPARSE = TensorDataset(torch.randn(8, 6).to_sparse(), torch.arange(8) % 3)
# fmt: off
MESSAGES = {
    # Checkpoints of another run.
    "another algorithm": Message(another(algorithm="dfedsmdc"), CheckpointError,
        "the checkpoint in {folder}/saved is of another run: its algorithm is \"dfedmdc\", this run's is \"dfedsmdc\""),
    "another rank": Message(another(rank=1), CheckpointError,
        "the checkpoint in {folder}/saved is of another run: its rank is 0, this run's is 1"),
    "another body": Message(another(head=()), CheckpointError,
        "the checkpoint in {folder}/saved is of another run: its body is one of 56 parameters in 2 tensors, this "
        "run's is one of 83 parameters in 4 tensors"),
    "another option": Message(resumed({"algorithm": "dfedsam"}, {"algorithm": "dfedsam", "rho": 0.5}), CheckpointError,
        "the checkpoint in {folder}/saved is of another run: its option rho is 0.05, this run's is 0.5"),
    "another codec": Message(another(compress="int8"), CheckpointError,
        "the checkpoint in {folder}/saved is of another run: its quantize is null, this run's is 8; give the same "
        "--compress"),
    "another schedule": Message(another(lr_schedule="cosine"), CheckpointError,
        "the checkpoint in {folder}/saved is of another run: its lr_schedule is \"exponential\", this run's is "
        '"cosine"'),
    "a cosine of other rounds": Message(
        resumed({"lr_schedule": "cosine", "rounds": 4}, {"lr_schedule": "cosine", "rounds": 5}), CheckpointError,
        "the checkpoint in {folder}/saved is of another run: its number of rounds, with which the cosine "
        "schedule ends, is 4, this run's is 5"),
    "masks of other rounds": Message(
        resumed({"algorithm": "dis-pfl", "rounds": 4}, {"algorithm": "dis-pfl", "rounds": 5}), CheckpointError,
        "the checkpoint in {folder}/saved is of another run: its number of rounds, by which masks settle, is 4, "
        "this run's is 5"),
    "a buffer more": Message(resumed({"scaled": True}, {}), CheckpointError,
        "the checkpoint is of another model: it alone has the buffer 'input_mean' (--standardize, --model, "
        "--task-option?); use what the run began with, or start over with --overwrite"),
    "a buffer less": Message(another(scaled=True), CheckpointError,
        "the checkpoint is of another model: this one alone has the buffer 'input_mean' (--standardize, --model, "
        "--task-option?); use what the run began with, or start over with --overwrite"),
    "another end": Message(resumed(LAST, LAST | {"finish": "none"}), CheckpointError,
        "the checkpoint in {folder}/saved is of the last round, after which the model was finished with --finish "
        "all:1: give that, and not none, or more --rounds"),
    "privacy of messages": Message(resumed({"private": 1}, {}), CheckpointError,
        "the checkpoint in {folder}/saved is of a private run: go on with its --privacy client, or start over "
        "with --overwrite"),
    "a ledger with less": Message(resumed({"private": 1}, {"private": 1}), CheckpointError,
        "the checkpoint in {folder}/saved has 1 private releases, the ledger fewer: restore the ledger as it was "
        "last (an older copy will not do): what was released has to be counted"),
    "privacy of records": Message(another(sampled=True), CheckpointError,
        "the checkpoint in {folder}/saved is of a run without --privacy sample, this one is with: go on with the "
        "setting it began with, or start over with --overwrite"),
    # Damaged ones.
    "tensors that are cut off": Message(resumed({}, {}, cut("learner.safetensors")), CheckpointError,
        "the checkpoint in {folder}/saved cannot be read: SafetensorError: …"),
    "no tensors": Message(lambda folder: saved_body(folder), CheckpointError,
        "the checkpoint in {folder} cannot be read: No such file or directory: {folder}/learner.safetensors"),
    "JSON that is cut off": Message(resumed({}, {}, cut("learner.json")), CheckpointError,
        "the checkpoint in {folder}/saved cannot be read: JSONDecodeError: …"),
    "JSON without a round": Message(rewritten("round", None), CheckpointError,
        "the checkpoint in {folder}/saved is damaged: TypeError(…)"),
    "JSON of a lost state": Message(rewritten("states", ["lost"]), CheckpointError,
        "the checkpoint in {folder}/saved cannot be read: KeyError: 'lost/body'"),
    "JSON of another point": Message(rewritten("best_point", "later"), CheckpointError,
        "the checkpoint in {folder}/saved is damaged: ValueError(\"best_point is 'later'\")"),
    "no JSON": Message(resumed({}, {}, lambda folder: (folder / "learner.json").unlink()), CheckpointError,
        "the checkpoint in {folder}/saved cannot be read: FileNotFoundError: [Errno 2] No such file or "
        "directory: '{folder}/saved/learner.json'"),
    # Layers, losses and data that privacy at sample level cannot have.
    "batch norm": Message(private(model=with_layer(lambda: nn.BatchNorm1d(3)), algorithm="local"), TaskError,
        "1 (BatchNorm1d) computes each example from the others of its batch, so that no single one has a "
        "gradient: `model = dpeer.training.replace_batch_norm(model)` puts GroupNorm in its place"),
    "instance norm": Message(
        private(model=with_layer(lambda: nn.InstanceNorm1d(3, track_running_stats=True)), algorithm="local"), TaskError,
        "1 (InstanceNorm1d) keeps statistics of all examples in its buffers: make it with track_running_stats=False"),
    "dropout": Message(private(model=with_layer(lambda: nn.Dropout(0.5)), algorithm="local"), TaskError,
        "1 (Dropout) draws random numbers that follow from the public seed and from who is in the batch: set its "
        "p to 0, for the noise does what it is for"),
    "an embedding that writes": Message(
        private(model=lambda: nn.Embedding(3, 4, max_norm=1.0), algorithm="local"), TaskError,
        "the model (Embedding) writes to its weights while it computes, which no noise would cover: leave "
        "max_norm out"),
    "dropout by a function": Message(private(model=before(lambda x: dropout(x, 0.5))), TaskError,
        "the task's model, loss or data draws from the generators of torch, numpy or random, whose numbers "
        "follow from the public seed and from who is in the batch: privacy at sample level cannot have that (set "
        "dropout to 0: the noise does what it is for; change inputs at random in the task's `augment`)"),
    "numpy's numbers": Message(private(model=before(lambda x: x * float(np.random.rand()))), TaskError,
        "the task's model, loss or data draws from the generators of torch, numpy or random, whose numbers "
        "follow from the public seed and from who is in the batch: privacy at sample level cannot have that (set "
        "dropout to 0: the noise does what it is for; change inputs at random in the task's `augment`)"),
    "a buffer that follows the data": Message(private(model=lambda: RunningMean(6)), TaskError,
        "the model's forward changes 'mean' in training, which carries what it has seen of one example into the "
        "gradients of others, without noise: privacy at sample level needs a model that keeps its buffers"),
    "centering": Message(private(model=before(lambda x: x - x.mean(0)), algorithm="fedavg"), TaskError,
        "the task's loss of a batch is not the mean of its examples' losses: --privacy sample needs a mean …"),
    "a sum": Message(private(loss=lambda o, t: cross_entropy(o, t, reduction="sum")), TaskError,
        "the task's loss of a batch is not the mean of its examples' losses: --privacy sample needs a mean …"),
    "a loss of another shape": Message(private(loss=lambda o, t: o[:, :2]), TaskError,
        "the task's loss gave a tensor of shape (1, 2) for one example; it must give one number for each "
        "example, or their mean"),
    "a loss that is a float": Message(private(loss=lambda o, t: o.mean().item()), TaskError,
        "the task's loss gave a float; it must give a tensor, which training differentiates: leave out .item() "
        "and numpy"),
    "a target that is ignored": Message(private(train_data=IGNORED), TaskError,
        "the loss of one of 8 training examples is not finite: privacy at sample level needs the loss of each "
        "example alone (targets that a loss ignores have none)"),
    "sparse inputs": Message(private(train_data=SPARSE), TaskError,
        "the task's inputs are a sparse coo tensor: privacy at sample level needs dense ones"),
    "examples of two shapes": Message(private(train_data=RAGGED, model=before(lambda x: x.mean(1))), TaskError,
        "the task's training data give inputs float32[2, 6] for one example and float32[3, 6] for another, so "
        "that in a batch one would be changed because of the other: privacy at sample level needs all to have "
        "one shape and one type; pad to a fixed length, and convert all"),
    "packed sequences": Message(private(model=Packed, collate=packed), TaskError,
        "the task's inputs are a PackedSequence, which cannot be cut into examples: privacy at sample level "
        "needs tensors whose first dimension is the batch's; give padded ones and a mask"),
    "words beside tensors": Message(private(collate=beside), TaskError,
        "the task's inputs have a str beside tensors: privacy at sample level cuts batches into examples, so "
        "give tensors whose first dimension is the batch's"),
    "examples in the second place": Message(private(collate=transposed), TaskError,
        "the task's inputs have a tensor of shape (6, 1) in a batch of 1: privacy at sample level needs tensors "
        "whose first dimension is the batch's"),
    "an error of the task": Message(private(model=lambda: nn.Linear(5, 3)), TaskError,
        "the task's model failed on a training example: RuntimeError: …"),
    "groups of other data": Message(private(groups=np.zeros(49)), TaskError,
        "the task's groups are of 49 examples, its training data have 50; it must be one entry for each"),
    # Settings.
    "--amp": Message(halves, ConfigurationError,
        "--amp bf16: privacy at sample level computes in float32, because in bf16 an example's gradient depends "
        "too much on which others are computed beside it; leave --amp out"),
    "--class-weights": Message(private(hyper={"class_weights": "balanced"}), ConfigurationError,
        "--class-weights balanced: privacy at sample level cannot weight classes by how many examples each has, "
        "which is a fact about the data; leave it out"),
    "--keep best": Message(lambda folder: best(folder, keep="best"), ConfigurationError,
        "--keep best cannot be used with --privacy sample: which model is the best is read off data without "
        "noise; leave it out"),
    "--grad-clip with fedadamw": Message(private("fedadamw", hyper={"grad_clip": 1.0}), ConfigurationError,
        "--grad-clip 1: it would shorten a gradient together with its noise, whose variance fedadamw takes out "
        "of the second moments: leave it out, for --clip-norm clips each record's gradient; or give "
        "--algorithm-option correct=false"),
    "fedrod": Message(private("fedrod"), ConfigurationError,
        "--privacy sample cannot be used with fedrod, which computes how many examples each class has, by which "
        "it balances its loss, and a gradient of two heads at once: choose another --algorithm, such as dfedmdc, "
        "fedper or ditto"),
    "dis-pfl": Message(private("dis-pfl"), ConfigurationError,
        "--privacy sample cannot be used with dis-pfl, which computes a gradient without noise, from which its "
        "mask follows, and neighbors get the mask: choose another --algorithm, such as dfedmdc, fedper or ditto"),
    "fedbabu without --dp-head post": Message(private("fedbabu"), ConfigurationError,
        "--dp-head joint: fedbabu trains its model without noise after the last round: use --dp-head post"),
    "--dp-head frozen of no head": Message(private("dfedavgm", head="frozen"), ConfigurationError,
        "--dp-head frozen: dfedavgm keeps no head at home that it trains by itself; use --dp-head joint, or an "
        "algorithm that does, such as dfedmdc"),
    "--clip-norm 0": Message(lambda _: ClippedSum(0.0, 1.0, 0.5, 10), ConfigurationError,
        "--clip-norm 0: choose a length above 0, for example 1"),
    "--noise-multiplier below 0": Message(lambda _: ClippedSum(1.0, -1.0, 0.5, 10), ConfigurationError,
        "--noise-multiplier -1: choose a finite one, 0 or more"),
    "--sampling-rate 1.5": Message(lambda _: ClippedSum(1.0, 1.0, 1.5, 10), ConfigurationError,
        "--sampling-rate 1.5: choose one above 0 and at most 1, for example 0.05"),
    "no units": Message(lambda _: ClippedSum(1.0, 1.0, 0.5, 0), ConfigurationError,
        "nominal number of units 0: choose 1 or more"),
    "--microbatch 0": Message(lambda _: PrivateGradient(ClippedSum(1.0, 1.0, 0.5, 10), 0), ConfigurationError,
        "--microbatch 0: choose 1 or more"),
    "a sum that is not finite": Message(
        lambda _: ClippedSum(1.0, 1.0, 0.5, 10).released(np.array([0.0, np.nan])), TaskError,
        "the sum of clipped gradients is not finite, which no noise would hide"),
    "messages of dis-pfl": Message(lambda folder: learner(folder, "dis-pfl", private=1), ConfigurationError,
        "--privacy client cannot be used with dis-pfl (what is held of the model): not all that leaves the peer "
        "would carry noise"),
    "messages with --compress": Message(lambda folder: learner(folder, compress="int8", private=1), ConfigurationError,
        "--privacy client cannot be used with --compress int8: not all that leaves the peer would carry noise"),
    # Algorithms of one's own.
    "outputs of one's own": Message(private(Peeking, rate=1.0, train=True), AlgorithmError,
        "the algorithm computes outputs of its own from the data, which privacy at sample level cannot protect: "
        "have it train by Trainer.fit, or change what `peer.gradient` gives"),
    "a gradient that is not charged": Message(private(Twice, rate=1.0, train=True), AlgorithmError,
        "privacy at sample level charges each gradient of a batch before the batch is drawn, and this one is not "
        "charged: use each batch of Trainer.fit once, or give the gradient rule an attribute `looks` that says "
        "how many gradients it computes on a batch"),
    "a figure of the data": Message(private(Asking), AlgorithmError,
        "the algorithm asks for `peer.num_samples`, the number of training samples: a step that depends on it "
        "would tell others what privacy at sample level hides; leave it out (the peer's own files have it)"),
}
# fmt: on
