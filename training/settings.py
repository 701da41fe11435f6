"""Settings of data and training; imports no torch, so that commands can list them at once."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict
from pydantic_core import to_jsonable_python

from dpeer.plugins import reference
from dpeer.sections import EXCHANGE, Mark, Section, setting
from dpeer.training.lora import check_lora
from dpeer.training.setting_texts import SCHEDULE, check_compress, check_finish, check_robust


def _plain(value: Any) -> Any:
    """Refuse an option that summary.json could not state."""
    try:
        to_jsonable_python(value)
    except ValueError as error:  # pydantic's PydanticSerializationError is one
        raise ValueError("expected a number, a text, True, False, None, or a list or dict of these") from error
    return value


PlainOptions = dict[str, Annotated[Any, AfterValidator(_plain)]]
"""Options by name, whose values can be written as JSON."""

Named = Annotated[str, BeforeValidator(reference)]
"""The name of something, or the very thing, which gets one."""

SamOn = Literal["body", "head", "both"]
"""Which phases of DFedSMDC take SAM steps."""

TestSplit = Literal["disjoint", "shared"]
"""Whether a test sample is one peer's alone, or several may draw it."""

ClassWeights = Literal["none", "balanced"]
"""How the classes of cross-entropy are weighted."""

CompressText = Annotated[Named, AfterValidator(check_compress)]
"""The name of a codec, or of a user's class."""

WireDtype = Literal["float32", "bfloat16", "float16"]
"""How a value travels. Halves have 8 (bfloat16) or 11 bits of precision; float16 ends at 65,504."""

Clip = Annotated[float | None, AfterValidator(lambda longest: longest or None)]
"""The longest gradient; None where any length will do, for which a user writes 0."""

RobustRule = Annotated[str, AfterValidator(check_robust)]
"""The text that `Robust.parse` reads."""

LoraText = Annotated[str, AfterValidator(check_lora)]
"""The text that `Lora.parse` reads."""

Optimizer = Literal["sgd", "adamw"]
"""The optimizer of local steps."""

FinishText = Annotated[str, AfterValidator(check_finish)]
"""What `--finish` asks for, as `Finish.parse` reads it."""

_DATA, _TRAINING = "Data and model", "Training"

_of_data = partial(setting, group=_DATA)
_shared = partial(setting, mark=Mark.SHARED, group=_TRAINING)
_own = partial(setting, mark=Mark.OWN, group=_TRAINING)


class TaskSettings(Section):
    """What is trained, and on which data."""

    task: Named = _of_data(
        "digits",
        "what to learn, such as csv: digits, csv, image-folder, mnist, emnist, femnist, cifar10, cifar100, "
        "tiny-imagenet, har, glue, or a function of your own that makes the task: FILE.py:FUNCTION or MODULE:FUNCTION",
        mark=Mark.OWN,
        first=True,
    )
    task_options: PlainOptions = _of_data(
        dict, "an option of the task, such as path=visits.csv; repeatable", mark=Mark.OWN, first=True
    )


with warnings.catch_warnings():
    # Users know it as `schema`; pydantic has an old method of this name, which nothing here calls.
    warnings.filterwarnings("ignore", message='Field name "schema"', category=UserWarning)

    class DataSettings(Section):
        """What a user may choose about a built-in task."""

        partition: str | None = _of_data(
            None,
            "how data are divided, such as dirichlet:0.3 or iid: dirichlet:0.3, dirichlet-equal:0.3, pathological:2 "
            "(classes a peer, each class to as many peers), pathological-sampled:2 (each peer's classes drawn at "
            "random), iid, writer, subject, group, own (default: the task's own)",
            mark=Mark.FOLLOWS,
            first=True,
        )
        test_split: TestSplit = _of_data(
            "disjoint",
            "whose a test sample is: disjoint (one peer's), or shared (several peers may have it, as in the papers' "
            "code)",
            mark=Mark.FOLLOWS,
        )
        validation: float | None = _of_data(
            None,
            "share of each peer's training samples to hold out for validation (default: 0.15 where --keep chooses by "
            "them, else 0)",
            mark=Mark.OWN,
            ge=0,
            lt=1,
        )
        model: str | None = _of_data(
            None,
            "what a built-in task trains, in place of its own model: bert, cnn, cnn1d, digits, dp-cnn, emnist-cnn, "
            "fedavg-cnn, mlp, resnet18-gn, roberta, roberta-tiny, small-body, swin-base, swin-tiny, "
            "vit-base, vit-tiny, or a class: FILE.py:CLASS",
            mark=Mark.FOLLOWS,
        )
        model_options: PlainOptions = _of_data(
            dict, "an option of the model, such as width=128; repeatable", mark=Mark.FOLLOWS
        )
        head: str | None = _of_data(
            None, "names of what stays at home, comma-separated (default: the last linear layer)", mark=Mark.FOLLOWS
        )
        init_from: Path | None = _of_data(
            None,
            "first weights: a safetensors file, or the .index.json of several; what it lacks, such as a head for other "
            "classes, begins at random",
            mark=Mark.FOLLOWS,
            strict=False,
        )
        lora: LoraText | None = _of_data(
            None,
            "train low-rank adapters and the head alone: r=16, r=16,alpha=32 or r=8,alpha=8,targets=query+value; the "
            "adapters are the body then",
            mark=Mark.SHARED,
        )
        augment: bool = _of_data(False, "crop and flip training images at random", mark=Mark.OWN)
        standardize: bool | None = _of_data(
            None,
            "scale inputs by the peer's own training mean and deviation (default: csv and image-folder do, unless they "
            "train with privacy)",
            mark=Mark.SHARED,
        )
        schema: Path | None = _of_data(  # type: ignore[assignment]
            None,
            "what the columns of --task csv are: a schema.toml, which `dpeer schema init` proposes",
            mark=Mark.FOLLOWS,
            strict=False,
        )


class MethodSettings(Section):
    """How peers train, and from which seeds."""

    algorithm: Named = _shared(
        "dfedsmdc", "how peers train: a name of `dpeer algorithms`, or FILE.py:CLASS, or MODULE:CLASS", first=True
    )
    algorithm_options: PlainOptions = setting(
        dict,
        "an option of the algorithm, such as hidden=64; `dpeer algorithms` lists them; repeatable",
        mark=Mark.FOLLOWS,
        group=_TRAINING,
    )
    preset: str | None = setting(
        None,
        "a paper's values where you give none; `dpeer algorithms` lists them",
        mark=Mark.FOLLOWS,
        group=_TRAINING,
        first=True,
    )
    seed: int = _shared(0, "seed of partition, initialisation and batch order", ge=0)
    participation: float = _shared(1.0, "share of the peers that take part in a round, drawn anew", gt=0, le=1)
    participation_mode: Literal["peers", "server"] = _shared(
        "peers",
        "what those do who are not drawn: peers (each keeps its body), or server (all take the mean of those drawn, as "
        "from a server, which needs topology full and weights uniform)",
    )


class StepSettings(Section):
    """What every algorithm's local steps are made with."""

    rounds: int = _shared(20, "how often all peers train and mix", first=True, ge=1)
    body_lr: float = _shared(
        0.05,
        "learning rate of the body; or of the whole model, where all of it is shared, in the first round",
        first=True,
        gt=0,
    )
    head_lr: float = _shared(
        0.05, "learning rate of the head; in the first round (dfedmdc, dfedsmdc, fedrep, fedrod)", first=True, gt=0
    )
    lr_decay: float = _shared(0.995, "both learning rates are multiplied by it every round (lr-schedule)", gt=0, le=1)
    lr_schedule: str = _shared(
        "exponential",
        "how learning rates change: exponential (times lr-decay every round), step:N (times lr-decay every N rounds), "
        "or cosine (to zero over the rounds); with +warmup:N they grow linearly to that over the first N rounds",
        pattern=SCHEDULE,
    )
    optimizer: Optimizer = _shared("sgd", "what takes the steps; with adamw both learning rates are 0.001 by default")
    momentum: float = _shared(
        0.9, "momentum of SGD, or AdamW's beta 1; zero again at the start of each phase", ge=0, lt=1
    )
    weight_decay: float = _shared(0.0, "weight decay (adamw: decoupled), off by default", ge=0)
    grad_clip: Clip = _shared(
        None,
        "longest gradient to step with, 0 for none (default: 1; the papers' presets and code have their own)",
        ge=0,
    )
    class_weights: ClassWeights = _own(
        "none", "weights of classes in cross-entropy: none, or balanced (rare or not, all of a peer's own count alike)"
    )
    body_epochs: int = _own(
        5, "epochs a round for the body; or for the whole model, where all of it is shared", first=True, ge=1
    )
    head_epochs: int = _own(
        1, "epochs a round for the head; of dfedmdc, dfedsmdc and fedrep, whose default is 10", ge=1
    )
    local_steps: int | None = _own(
        None, "minibatches in place of body-epochs, whatever the data's size; other epochs scale alike", ge=1
    )
    finish: FinishText = _own(
        "all:1",
        "what is trained on at home after the last mixing, which no neighbor hears of: none, head:E or all:E, for E "
        "epochs of the head or of the whole model, at a quarter of the last round's learning rate, or all:E,RATE",
    )
    batch_size: int = _own(32, "samples a minibatch", first=True, ge=1)
    rho: float = _shared(0.05, "radius of SAM (dfedsmdc, dfedsam, fedsam)", ge=0)
    sam: SamOn = _shared("body", "where dfedsmdc takes SAM steps")


class WireSettings(Section):
    """How bodies travel."""

    compress: CompressText = setting(
        "float32",
        "how bodies travel, such as int8: float32, bfloat16, float16, int16, int8, int4, or a class of your own: "
        "FILE.py:CLASS or MODULE:CLASS",
        mark=Mark.FOLLOWS,
        group=EXCHANGE,
        first=True,
    )


class MixingSettings(Section):
    """What a peer does about neighbors that may send anything."""

    # Shared: what a rule withstands, it withstands while all honest peers use it. One that mixes plainly is carried
    # off, and is one hostile peer more to the others.
    robust: RobustRule = setting(
        "none",
        "mix so that hostile neighbors cannot carry this peer off: clip, clip:TAU (how far one body may pull), "
        "trimmed-mean:F (withstands F of them), median",
        mark=Mark.SHARED,
        group=EXCHANGE,
    )
    # Own: whom to believe is each site's affair, and what is left out is no more than a body that did not come.
    max_norm: float | None = setting(
        None,
        "leave out a body whose difference from this peer's own is longer than this; any length by default",
        mark=Mark.OWN,
        group=EXCHANGE,
        gt=0,
    )


class DataPart(DataSettings, TaskSettings):
    """The task, its data and its model."""


class Hyperparameters(MixingSettings, StepSettings, WireSettings):
    """The settings of every algorithm's local steps, of how bodies travel, and of how they are mixed; frozen.

    The sections say each value's type, default, limits and meaning. `Algorithm.uses` names those
    that have an effect on some algorithms alone. The defaults suit small models; the papers' values are presets.

    Raises:
        pydantic.ValidationError: A value is of another type or beyond its limits.
    """

    model_config = ConfigDict(frozen=True)


class TrainingPart(Hyperparameters, MethodSettings):
    """How peers train and mix, and from which seeds."""
