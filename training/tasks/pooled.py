"""Builds a rank's task from a data set in memory: division, held-out samples, model, scales and augmentation."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import mse_loss, pad
from torch.utils.data import TensorDataset

from dpeer.exceptions import PartitionError, TaskError
from dpeer.training.data import holdout, partitions
from dpeer.training.data.holdout import Indices
from dpeer.training.data.partitions import MINIMUM_TEST, MINIMUM_TRAIN, NATURAL, OWN
from dpeer.training.data.pool import Data, Pool
from dpeer.training.data.tables.inputs import TableInputs
from dpeer.training.data.tables.prepare import fit
from dpeer.training.models import build_model, drops, find_model, last_linear, model_options, with_tokens
from dpeer.training.models.scaling import ScaledLoss, scale_outputs, standardize, target_scale
from dpeer.training.objective import regression_metrics
from dpeer.training.randomness import Purpose, stream
from dpeer.training.settings import TestSplit
from dpeer.training.task import Augment, Recipe, Task
from dpeer.training.tasks import Choices

HELD_OUT = 0.2
"""Share of a peer's samples that are for testing where the data set has no test pool of its own for them."""


class HoldOut(NamedTuple):
    """How samples are held out: the share for validation, what decides which, and what `Choices` says of the same."""

    validation: float
    seed: int
    apart: bool = False
    only_if_enough: bool = False


class Part(NamedTuple):
    """The samples of one rank, as indices: `train` and `validation` into one pool, `test` into another."""

    train: Indices
    validation: Indices
    test: Indices


class Division(NamedTuple):
    """A divided data set: the pool of training and validation samples, that of test samples, and each rank's part."""

    train: Pool
    test: Pool
    parts: list[Part]
    digest: str | None = None
    """SHA-256 (hex) of who may train and who is tested on what; None where every peer has data of its own."""


def pooled_task(data: Data, rank: int, size: int, seed: int, choices: Choices, *, model: str) -> Task:
    """Build the model, `model` where the user chose none, then take this rank's samples, as the seed divides them.

    Raises:
        PartitionError: The data cannot be divided so.
    """
    assert choices.partition is not None, "load_task puts in the task's own"
    held = HoldOut(choices.validation or 0.0, seed, choices.apart, choices.only_if_enough)
    if choices.partition == OWN:
        division, owner = keep(data, rank, held), 0
    else:
        held = held._replace(apart=False)
        division, owner = divide(data, size, choices.partition, choices.test_split, held), rank % size
    part = division.parts[owner]
    index = {
        "train": (division.train, part.train),
        "validation": (division.train, part.validation),
        "test": (division.test, part.test),
    }
    name, tokens = choices.model or model, data.tokens is not None
    options = model_options(name, with_tokens(name, data.tokens, choices.model_options))
    net = build_model(name, data.shape, data.classes or 1, options, tokens=tokens)
    rows = {of: pool.rows(places) for of, (pool, places) in index.items()}
    inputs, targets = rows["train"]
    preparation = None if data.schema is None else fit(data.schema, inputs.numpy(), own=bool(choices.standardize))

    def prepared(of: str) -> TensorDataset:
        given, wanted = rows[of]
        return TensorDataset(given if preparation is None else TableInputs(preparation)(given), wanted)

    if choices.standardize and tokens:
        raise TaskError("--standardize scales numbers, and the task's inputs are token numbers: leave it out")
    scales = choices.standardize and (data.schema is None or data.schema.plain)
    if scales:
        standardize(net, inputs)
    ends = None if data.schema is None else data.schema.target.range
    scaled = None if data.classes else target_scale(targets, ends, own=bool(choices.standardize))
    if scaled is not None:
        scale_outputs(net, *scaled)
    equal = _about_equal(data, {of: pool.digests(places) for of, (pool, places) in index.items()})
    validates = len(part.validation) > 0
    return Task(
        model=net,
        head=(last_linear(net),) if choices.head_prefixes is None else choices.head_prefixes,
        train=prepared("train"),
        test=prepared("test"),
        validation=prepared("validation") if validates else None,
        groups=None if division.train.groups is None else division.train.groups[part.train],
        loss=None if data.classes else mse_loss if scaled is None else ScaledLoss(scaled[1]),
        metrics=None if data.classes else regression_metrics,
        augment=augment_images(data) if choices.augment else None,
        names=data.names,
        found=data.found,
        indices={of: pool.places(places) for of, (pool, places) in index.items()},
        division=division.digest,
        held_out=np.searchsorted(np.union1d(part.train, part.validation), part.validation) if validates else None,
        remarks=(*data.remarks, *equal, *_about_joiner(rank, size, choices)),
        preparation=preparation,
        draws=None if find_model(name).own else drops(net),
        built=Recipe(
            net,
            {
                "model": name,
                "options": options,
                "tokens": tokens,
                "tokenizer": None if data.tokens is None else data.tokens.label,
                **({} if data.texts is None else {"texts": data.texts._asdict()}),
                "shape": list(data.shape),
                "outputs": data.classes or 1,
                "standardize": scales,
                "scales_outputs": scaled is not None,
                "pixels": data.pixels,
            },
        ),
    )


def _about_joiner(rank: int, size: int, choices: Choices) -> list[str]:
    """A line on the data of a rank for which a common pool has no part of its own, because it was added later."""
    if rank < size or choices.partition == OWN:
        return []
    return [
        f"WARNING: the common pool is divided among the first {size} ranks: rank {rank} has the samples of rank "
        f"{rank % size}, which tries how members come; a real member has data of its own"
    ]


def keep(data: Data, rank: int, held: HoldOut) -> Division:
    """Give one peer the whole of a data set that is its own.

    Raises:
        PartitionError: They are too few; or with `apart` who is trained on would depend on other samples.
    """
    if held.apart:
        _check_apart(data, held.validation)
    everything = np.arange(len(data.train), dtype=np.int64)
    if data.test is not None:
        train, test = everything, np.arange(len(data.test), dtype=np.int64)
    else:
        train, test = _halves(data.train, everything, held, rank)
    part = _with_validation(data.train, train, test, held, rank)
    chance = " (each sample is held out by a draw of its own where single records are protected)" if held.apart else ""
    _check_size(part, held, OWN, rank, f"give it more data{chance}")
    return Division(data.train, data.test or data.train, [part])


@lru_cache(maxsize=2)
def divide(data: Data, size: int, spec: str, test_split: TestSplit, held: HoldOut) -> Division:
    """Divide a data set among peers; one division serves all peers of a process.

    Raises:
        PartitionError, UnknownName: It cannot be divided so.
    """
    pools, halves = _divided(data, size, spec, test_split, held)
    parts = []
    for rank, (train, test) in enumerate(halves):
        parts.append(_with_validation(pools[0], train, test, held, rank))
        _check_size(parts[-1], held, spec, rank, "try fewer peers")
    # What is held out for validation is a peer's own affair.
    owned = [(np.union1d(part.train, part.validation), part.test) for part in parts]
    digest = hashlib.sha256()
    for indices in owned:
        for pool, index in zip(pools, indices, strict=True):
            digest.update(pool.places(index).tobytes() + b"|")
    return Division(*pools, parts, digest.hexdigest())


Halves = tuple[tuple[Pool, Pool], list[tuple[Indices, Indices]]]
"""The pools that are trained on and tested on, and by rank the samples of each."""


def _divided(data: Data, size: int, spec: str, test_split: TestSplit, held: HoldOut) -> Halves:
    partitions.parse(spec)
    if test_split == "shared" and (spec in NATURAL or data.test is None):
        raise PartitionError(
            f"--test-split shared cannot be had with partition {spec!r} of these data: each peer is tested on samples "
            "held out of its own; use --test-split disjoint"
        )
    if spec in NATURAL:
        return _natural(data, size, spec, held)
    if data.test is not None:
        found = partitions.partition_pools(
            data.train.labels(), data.test.labels(), size, spec, held.seed, test_split=test_split
        )
        return (data.train, data.test), list(zip(*found, strict=True))
    if data.train.stretches is not None:
        raise PartitionError(
            f"partition {spec!r} would divide one {data.group or 'group'}'s samples among peers: "
            f"use --partition {data.group or 'group'}"
        )
    whole = partitions.partition(data.train.labels(), size, spec, held.seed)
    return (data.train, data.train), [_halves(data.train, rows, held, rank) for rank, rows in enumerate(whole)]


def _natural(data: Data, size: int, spec: str, held: HoldOut) -> Halves:
    """Whole groups for each peer, with the test samples that the data have of them, or else some held out."""
    groups = data.groups
    if groups is None or spec != data.group:
        known = f"; these know each sample's {data.group}" if data.group else ""
        hint = " (--task csv: name the column that does with group=)" if spec == "group" else ""
        raise PartitionError(f"partition {spec!r}: the data do not say which {spec} a sample is from{known}{hint}")
    whole = partitions.deal_groups(groups, size, spec, held.seed)
    if data.test is not None and data.same_groups:
        count = len(data.train)
        return (data.train, data.test), [(rows[rows < count], rows[rows >= count] - count) for rows in whole]
    pool = data.together
    return (pool, pool), [_halves(pool, rows, held, rank) for rank, rows in enumerate(whole)]


def _halves(pool: Pool, rows: Indices, held: HoldOut, rank: int) -> tuple[Indices, Indices]:
    out = _held_out(pool, rows, HELD_OUT, stream(held.seed, Purpose.HOLD_OUT, rank, 0), apart=held.apart)
    return np.delete(rows, out), rows[out]


def _with_validation(pool: Pool, train: Indices, test: Indices, held: HoldOut, rank: int) -> Part:
    out, share = np.empty(0, np.int64), held.validation
    if share:
        rng = stream(held.seed, Purpose.HOLD_OUT, rank, 1)
        out = train[_held_out(pool, train, share, rng, apart=held.apart)]
    if held.only_if_enough and not holdout.enough(len(out), len(train), share):
        out = out[:0]
    return Part(np.setdiff1d(train, out), out, test)


def _held_out(pool: Pool, rows: Indices, share: float, rng: np.random.Generator, *, apart: bool) -> Indices:
    """Positions in `rows` to hold out: of every class, and of every writer or person; or each by itself.

    Samples with equal inputs are held out together, but for those of different groups, where the fate of each group
    must be its own, and of overlapping windows.
    """
    if apart:
        return holdout.hold_out_apart(pool.names(rows), share, rng.bytes(16))
    stretches, strata, whole = None if pool.stretches is None else pool.stretches[rows], pool.labels()[rows], True
    if pool.groups is not None:
        whole = stretches is None or len(np.unique(stretches)) <= len(np.unique(pool.groups[rows]))
        if stretches is None or not whole:
            group = np.unique(pool.groups[rows], return_inverse=True)[1]
            strata = group * (int(pool.labels().max()) + 1) + strata
    if not whole:
        return holdout.hold_out(strata, stretches, share, rng)
    return holdout.hold_out_alike(strata, stretches, holdout.numbered(pool.digests(rows)), share, rng)


def _about_equal(data: Data, contents: Mapping[str, Sequence[bytes]]) -> list[str]:
    """A line on samples of a peer with equal inputs, and on those that are trained on and tested on all the same."""
    trained, tested = contents["train"], contents["test"]
    found = [*trained, *contents["validation"], *tested]
    if not (count := holdout.count_equal(found)):
        return []
    what = "row" if data.schema is not None else "image" if data.pixels else "sample"
    equal, known = holdout.in_words(count, len(found), what), {*trained}
    if crossing := sum(one in known for one in tested):
        return [
            f"WARNING: {equal}: {crossing:,} of {len(tested):,} test {what}s equal one that is trained on, so the "
            f"accuracy may be too high; remove {what}s that are copies"
        ]
    return [f"{equal}: equal ones are all trained on, or all held out"]


def _check_apart(data: Data, validation: float) -> None:
    """Refuse what would let one sample more decide whether others are trained on.

    A drawn part of the test pool is let pass: nothing that is computed from it leaves the peer.
    """
    why = "one record more would change which others are trained on, and --privacy sample promises nothing about that"
    if data.train.whole is not None:
        raise PartitionError(
            f"task option train_samples = {len(data.train)} with partition {OWN!r}: so many are drawn from all records "
            f"together, so {why}: leave train_samples out"
        )
    if data.train.stretches is None or data.whole_groups or (data.test is not None and not validation):
        return
    advice = f"use a task of your own, which brings test data of its own, or to experiment --partition {data.group}"
    if data.test is not None:
        advice = "leave --validation out"
    raise PartitionError(
        f"partition {OWN!r}: of these data whole stretches are held out, whose bounds or numbers depend on other "
        f"records, so {why}: {advice}"
    )


def _check_size(part: Part, held: HoldOut, spec: str, rank: int, hint: str) -> None:
    counts = f"rank {rank} gets {len(part.train)} training and {len(part.test)} test samples"
    if len(part.train) < MINIMUM_TRAIN or len(part.test) < MINIMUM_TEST:
        raise PartitionError(
            f"partition {spec!r}: {counts}; it needs at least {MINIMUM_TRAIN} and {MINIMUM_TEST}: {hint}"
        )
    if held.validation and not held.only_if_enough and not len(part.validation):
        raise PartitionError(
            f"partition {spec!r}: {counts}, those for training from one group: --validation has none to hold out; "
            f"{hint}"
        )


_MARGIN = 4
_LARGE = 16  # from here on images are padded by that margin


def augment_images(data: Data) -> Augment:
    """What ``--augment`` does to these data: `crop_and_flip`, where a mirrored image still is one of its class.

    Raises:
        TaskError: They are no images.
    """
    if len(data.shape) != 3:
        raise TaskError(
            f"--augment crops and flips images (channels, height, width), the task's inputs have shape {data.shape}: "
            "leave it out"
        )
    return partial(crop_and_flip, fill=data.background, mirror=data.mirrored)


def crop_and_flip(inputs: Tensor, generator: np.random.Generator, *, fill: float = -1.0, mirror: bool = True) -> Tensor:
    """Shift each image by up to four pixels in each direction, and mirror half of them, at random.

    As papers do on CIFAR (He et al., CVPR 2016, section 4.2): padded by four pixels, cropped back to its size, flipped
    with probability 1/2. Images under 16 pixels are padded by an eighth of their size, at least by one.

    Args:
        inputs: Shape (batch, channels, height, width), on any device; not changed.
        generator: Where all chance comes from, so that crops are the same on every device.
        fill: What is beyond the border. Papers pad with black, before they normalise: -1 here (see `Pool.rows`), since
            ``--standardize`` scales inside the model, after this.
        mirror: Whether to flip.
    """
    count, channels, height, width = inputs.shape
    margin = _MARGIN if min(height, width) >= _LARGE else max(1, min(height, width) // 8)
    corners = generator.integers(0, 2 * margin + 1, size=(2, count, 1))
    rows, columns = corners[0] + np.arange(height), corners[1] + np.arange(width)
    if mirror:
        mirrored = generator.integers(0, 2, size=(count, 1)) == 1
        columns = np.where(mirrored, columns[:, ::-1], columns)
    # One gather over flattened pixels: ten times as fast as indexing by image, channel, row and column.
    pixels = rows[:, :, None] * (width + 2 * margin) + columns[:, None, :]
    index = torch.from_numpy(pixels.reshape(count, 1, -1)).to(inputs.device).expand(-1, channels, -1)
    return pad(inputs, (margin,) * 4, value=fill).flatten(2).gather(2, index).view(inputs.shape)
