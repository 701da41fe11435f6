"""The task on text: GLUE's sentences."""

from __future__ import annotations

from typing import Any

from dpeer.training.data.glue import LAYOUTS, Glue
from dpeer.training.data.glue import glue as read_glue
from dpeer.training.data.text import LONGEST, SHORTEST
from dpeer.training.models import TEXT_TASKS
from dpeer.training.task import Task
from dpeer.training.tasks import Choices
from dpeer.training.tasks.data_cache import read
from dpeer.training.tasks.options import one_of, text, whole
from dpeer.training.tasks.pooled import pooled_task


def glue(
    rank: int, size: int, seed: int, *, choices: Choices, data: Any = None, name: Any = None, tokenizer: Any = None,
    length: Any = 128, malformed: Any = "refuse", train_samples: Any = None, test_samples: Any = None,
) -> Task:  # fmt: skip
    """A rank's sentences of one of GLUE's tasks; see `Glue` for the options."""
    asked = Glue(
        data=text("glue", "data", data, "DIR, GLUE's folder"),
        name=one_of("glue", "name", text("glue", "name", name, "sst2"), tuple(LAYOUTS)),
        tokenizer=None if tokenizer is None else text("glue", "tokenizer", tokenizer, "tokenizer.json"),
        length=whole("glue", "length", length, range(SHORTEST, LONGEST + 1), f"{SHORTEST} to {LONGEST} tokens"),
        skip=one_of("glue", "malformed", malformed, ("refuse", "skip")) == "skip",
    )
    pool = read(read_glue, asked, seed, train_samples, test_samples)
    return pooled_task(pool, rank, size, seed, choices, model=TEXT_TASKS["glue"])
