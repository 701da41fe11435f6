"""Error messages of training/data/partitions.py and of the division of pools in training/tasks/."""

from typing import Any

import numpy as np
import torch

from dpeer.exceptions import PartitionError, UnknownName
from dpeer.training import partition
from dpeer.training.data.partitions import check_spec
from dpeer.training.data.pool import Data, Pool
from dpeer.training.tasks.pooled import divide, keep
from tests.messages.message import Message
from tests.training.tasks.test_record_split import BASE, glue, har, own

LABELS = np.repeat(np.arange(10), 150)


def spec(text: str, expected: str, error: type[Exception] = PartitionError) -> Message:
    return Message(lambda folder: partition(LABELS, 4, text, 0), error, expected)


def dealt(count: int, size: int, text: str, expected: str) -> Message:
    return Message(lambda folder: partition(LABELS[:count], size, text, 0), PartitionError, expected)


def written(text: str, expected: str, error: type[Exception] = UnknownName) -> Message:
    return Message(lambda folder: check_spec(text), error, expected)


def divided(
    text: str, expected: str, *, groups: Any = None, group: str | None = None, split: Any = "disjoint"
) -> Message:
    numbers = torch.arange(100)
    data = Data(Pool(numbers.float().unsqueeze(1), numbers % 4, groups), None, 4, group)
    return Message(lambda folder: divide(data, 3, text, split, 0.0, 0), PartitionError, expected)


def few(expected: str, *, apart: bool) -> Message:
    data = Data(Pool(torch.arange(11.0).unsqueeze(1), torch.zeros(11, dtype=torch.int64)), None, 2)
    return Message(lambda folder: keep(data, 4, 0.0, 0, apart=apart), PartitionError, expected)


CONCENTRATION = "partition {!r}: {} takes a positive concentration, such as '{}:0.3'"
CLASSES = "partition {!r}: {} takes a whole number of classes a peer, 1 or more, such as '{}:2'"
WHY = "so one record more would change which others are trained on, and --privacy sample promises nothing about that"
STRETCHES = (
    "partition 'own': of these data whole stretches are held out, whose bounds or numbers depend on other records, "
    f"{WHY}: "
)
SCHEMES = "dirichlet:0.3, dirichlet-equal:0.3, pathological:2, pathological-sampled:2, iid"

MESSAGES = {
    **{
        f"{name}:{value}": spec(f"{name}:{value}", text.format(f"{name}:{value}", name, name))
        for name, values, text in (
            ("dirichlet", ("x", "-1", "nan", "inf"), CONCENTRATION), ("dirichlet-equal", ("0",), CONCENTRATION),
            ("pathological", ("0", "2.5"), CLASSES), ("pathological-sampled", ("0.3",), CLASSES),
        )
        for value in values
    },
    "no concentration": spec("dirichlet", CONCENTRATION.format("dirichlet", "dirichlet", "dirichlet")),
    "a number of 400 digits": spec(f"pathological:1{'0' * 400}",
        "partition …: pathological takes a whole number of classes …"),
    "more classes than there are": spec("pathological:11",
        "partition 'pathological:11': the data has only 10 classes, so C can be 1 to 10"),
    "more sampled classes than there are": spec("pathological-sampled:11",
        "partition 'pathological-sampled:11': the data has only 10 classes, so C can be 1 to 10"),
    "a number of iid": spec("iid:3", "partition 'iid:3': iid takes no number; write 'iid'"),
    "writers of labels": spec("writer",
        "partition 'writer' is for built-in tasks, whose data say whom a sample is from: labels alone are divided by "
        f"{SCHEMES}; for groups of your own use dpeer.training.data.partitions.deal_groups"),
    "a nearby scheme": spec("dirichle:0.3",
        f"unknown partition 'dirichle': did you mean 'dirichlet:0.3'? valid: {SCHEMES}", UnknownName),
    "a nearby scheme of the command line": written("writr",
        f"unknown partition 'writr': did you mean 'writer'? valid: {SCHEMES}, writer, subject, group, own"),
    "a nearby scheme with a number": written("pathological-sample:2",
        "unknown partition 'pathological-sample': did you mean 'pathological-sampled:2'? valid: …"),
    "a number of writers": written("writer:3", "partition 'writer:3': writer takes no number; write 'writer'",
        PartitionError),
    "more peers than samples": dealt(5, 6, "iid", "more peers than samples: 5 samples cannot be divided among 6 peers"),
    "too few samples": dealt(50, 6, "iid",
        "too few samples: 50 samples for 6 peers, each of which needs at least 10; at most 5 peers"),
    "an unlucky division": dealt(1500, 100, "dirichlet:0.01",
        "partition 'dirichlet:0.01' with size 100: in 100 draws some peer always got fewer than 10 of the 1500 "
        "samples; try a larger A, fewer peers, or 'iid'"),
    "labels in a table": Message(lambda folder: partition(np.zeros((3, 3)), 1, "iid", 0), PartitionError,
        "labels must be one per sample, shape (samples,); these have shape (3, 3)"),
    "no groups": divided("writer", "partition 'writer': the data do not say which writer a sample is from"),
    "other groups": divided("writer",
        "partition 'writer': the data do not say which writer a sample is from; these know each sample's subject",
        groups=np.arange(100) % 9, group="subject"),
    "too few groups": divided("writer",
        "partition 'writer': the data are from 2 writers, too few for 3 peers; at most --size 2", groups=np.arange(100)
        % 2, group="writer"),
    "a small group": divided("writer",
        "partition 'writer': rank 0 gets … training and … test samples; it needs at least 10 and 2: try fewer peers",
        groups=np.minimum(np.arange(100) // 8, 2), group="writer"),
    **{
        f"a shared test pool of {name}": divided(
            name,
            f"--test-split shared cannot be had with partition '{name}' of these data: each peer is tested on samples "
            "held "
            "out of its own; use --test-split disjoint", groups=np.arange(100) % 10, group="writer", split="shared",
        )
        for name in ("writer", "iid")
    },
    "few samples of ones own":
        few("partition 'own': rank 4 gets … training and … test samples; it needs at least 10 and 2: give it more data",
        apart=False),
    "few samples by chance":
        few("partition 'own': rank 4 gets … training and … test samples; it needs at least 10 and 2: give it more "
        "data (each sample is held out by a draw of its own where single records are protected)",
        apart=True),
    "a drawn part of ones own records": Message(lambda folder: glue(folder, BASE, 0.0, train_samples=100),
        PartitionError,
        f"task option train_samples = 100 with partition 'own': so many are drawn from all records together, {WHY}: "
        "leave train_samples out"),
    "windows that overlap": Message(lambda folder: own("har", har(folder, tested=False)), PartitionError, STRETCHES +
        "use a task of your own, which brings test data of its own, or to experiment --partition subject"),
    "windows for validation": Message(lambda folder: own("har", har(folder, tested=True), validation=0.3),
        PartitionError, STRETCHES + "leave --validation out"),
}  # fmt: skip
