"""What does not go with what: one table of the settings, tasks and algorithms that a learner refuses together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from dpeer.exceptions import ConfigurationError
from dpeer.privacy import ClientSession, SampleTerms
from dpeer.training.algorithms import Algorithm
from dpeer.training.algorithms.dis_pfl import DisPFL
from dpeer.training.algorithms.fedadamw import FedAdamW
from dpeer.training.algorithms.fedper import LocalAdamW
from dpeer.training.algorithms.fedrod import FedRoD
from dpeer.training.codecs import Codec, Dense, Quantized
from dpeer.training.settings import Hyperparameters
from dpeer.training.split import is_under
from dpeer.training.task import Task


@dataclass(frozen=True)
class Combination:
    """What a learner is to be made of.

    Attributes:
        algorithm: The peer's algorithm.
        h: Its hyperparameters.
        task: The task.
        session: The peer's privacy; None trains and sends without noise and record.
        keep: Which model is kept.
        evaluate_on: Which of the task's data figures are of.
        amp: The precision of mixed-precision training; None for float32.
        codec: How bodies travel by ``--compress``; None where nothing is shared.
        extras: What the algorithm sends beside the body.
    """

    algorithm: Algorithm
    h: Hyperparameters
    task: Task
    session: ClientSession | SampleTerms | None
    keep: Literal["last", "best"]
    evaluate_on: Literal["test", "validation"]
    amp: str | None
    codec: Codec | None
    extras: tuple[str, ...]

    @property
    def sample(self) -> SampleTerms | None:
        """Privacy at sample level."""
        return self.session if isinstance(self.session, SampleTerms) else None

    @property
    def private(self) -> str | None:
        """The level of privacy; None without."""
        return "sample" if self.sample else "client" if isinstance(self.session, ClientSession) else None

    @property
    def heads(self) -> list[str]:
        """The parameters of the task's head that are trained."""
        return [n for n, p in self.task.model.named_parameters() if p.requires_grad and is_under(n, self.task.head)]

    def is_(self, *kinds: type[Algorithm]) -> bool:
        """Whether the algorithm is one of these."""
        return isinstance(self.algorithm, kinds)


Row = tuple[Callable[[Combination], object], str]
"""When a combination is refused, and the refusal: what was given, why not, and what would be right."""

_HIDES = "--privacy sample cannot be used with {name}, which "
_OTHER = ": choose another --algorithm, such as dfedmdc, fedper or ditto"
_VALIDATION = "needs validation data: hold some out with --validation 0.1 (your own task: `validation=`), or use "
_WEIGHTS = "--class-weights {h.class_weights}: "
_SENDS_MORE = "{name}, which sends more than a body ({beside}): "

ROWS: tuple[Row, ...] = (
    # The model that is kept.
    (lambda c: c.keep == "best" and c.task.validation is None, "--keep best " + _VALIDATION + "--keep last"),
    (
        lambda c: c.evaluate_on == "validation" and c.task.validation is None,
        "--evaluate-on validation " + _VALIDATION + "--evaluate-on test",
    ),
    (
        lambda c: c.h.finish.startswith("head") and not c.heads,
        "--finish {h.finish}: nothing of the task's head is trained; --finish all:1 trains the whole model",
    ),
    # Losses and steps.
    (
        lambda c: c.is_(FedRoD) and c.task.loss is not None,
        "--algorithm fedrod has a loss of its own, the balanced softmax of cross-entropy: give the task none",
    ),
    (
        lambda c: c.is_(FedRoD) and c.h.class_weights != "none",
        _WEIGHTS + "fedrod has a loss that balances classes itself: leave it out",
    ),
    (
        lambda c: c.h.class_weights != "none" and c.task.loss is not None,
        _WEIGHTS + "it weights the classes of cross-entropy, and this task has another loss: leave it out (your own "
        "loss can weight classes itself; kind=regression has none)",
    ),
    (
        lambda c: c.is_(LocalAdamW, FedAdamW) and c.h.optimizer != "adamw" and "optimizer" in c.h.model_fields_set,
        "--optimizer {h.optimizer}: {name} takes steps of adamw; leave it out",
    ),
    # Privacy of each record.
    (
        lambda c: c.sample and c.is_(DisPFL),
        _HIDES + "computes a gradient without noise, from which its mask follows" + _OTHER,
    ),
    (lambda c: c.sample and c.is_(FedRoD), _HIDES + "counts the examples of each class for its loss" + _OTHER),
    (
        lambda c: c.sample and c.sample.head == "post" and c.algorithm.shares != "body",
        "--dp-head post: {name} keeps no head at home that it trains by itself; use --dp-head joint, or an algorithm "
        "that does, such as dfedmdc",
    ),
    (
        lambda c: c.sample and c.keep == "best",
        "--keep best cannot be used with --privacy sample: which model is the best is read off data without noise; "
        "leave it out",
    ),
    (
        lambda c: c.sample and c.amp is not None,
        "--amp {amp}: privacy at sample level computes in float32, because in {amp} an example's gradient depends too "
        "much on which others are computed beside it; leave --amp out",
    ),
    (
        lambda c: c.sample and c.h.class_weights != "none",
        _WEIGHTS + "privacy at sample level cannot weight classes by how many examples each has, which is a fact about "
        "the data; leave it out",
    ),
    (
        lambda c: c.sample and c.is_(FedAdamW) and c.algorithm.options.correct and c.h.grad_clip is not None,
        "--grad-clip {h.grad_clip:g}: it would shorten a gradient together with its noise, whose variance {name} takes "
        "out of the second moments: leave it out, for --clip-norm clips each record's gradient; or give "
        "--algorithm-option correct=false",
    ),
    # Privacy at either level.
    (
        lambda c: c.private and has_mixed(c.algorithm) and type(c.algorithm).mixed_uses_data,
        "--privacy {private} cannot be used with {name}, whose `mixed` may look at data, which no noise would cover: "
        "have it use releases alone and state `mixed_uses_data = False`, or move that into `train`",
    ),
    (
        lambda c: c.private == "client" and c.is_(DisPFL),
        "--privacy client cannot be used with {name} ({algorithm.leaves}): not all that leaves the peer would carry "
        "noise; choose another --algorithm",
    ),
    (
        lambda c: c.private == "client" and c.codec is not None and not isinstance(c.codec, Dense),
        "--privacy client cannot be used with --compress {h.compress}: not all that leaves the peer would carry noise; "
        "use float32, bfloat16 or float16",
    ),
    # What travels, and how it is mixed.
    (
        lambda c: c.is_(DisPFL) and (c.h.compress != "float32" or c.h.robust != "none" or c.h.max_norm is not None),
        "--compress {h.compress}, --robust {h.robust}, --max-norm {h.max_norm}: {name} sends {algorithm.leaves}, and "
        "mixes in a way of its own: it takes float32, none and no --max-norm",
    ),
    (
        lambda c: c.h.robust != "none" and c.codec is not None and c.codec.error_feedback,
        "--robust {h.robust} cannot be used with --compress {h.compress}, whose sums must keep what was rounded away: "
        "leave one of them out; --compress bfloat16 halves the bytes and goes with it",
    ),
    (
        lambda c: c.h.robust != "none" and c.extras,
        "--robust {h.robust} cannot be used with " + _SENDS_MORE + "what it relies on of their sums holds for weighted "
        "means alone; leave it out",
    ),
    (
        lambda c: isinstance(c.codec, Quantized) and c.extras,
        "--compress {h.compress} cannot be used with " + _SENDS_MORE + "values of another size would share its scales; "
        "use bfloat16",
    ),
)


def has_mixed(algorithm: Algorithm) -> bool:
    """Whether the algorithm does something after mixing."""
    return type(algorithm).mixed is not Algorithm.mixed


def check(asked: Combination) -> None:
    """Refuse a combination of the table.

    Raises:
        ConfigurationError: Names the setting, its value, and what would be right.
    """
    for refused, words in ROWS:
        if refused(asked):
            said = {"name": asked.algorithm.name, "beside": ", ".join(asked.extras), "private": asked.private}
            raise ConfigurationError(words.format(algorithm=asked.algorithm, h=asked.h, amp=asked.amp, **said))
