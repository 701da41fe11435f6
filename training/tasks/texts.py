"""Tasks on text: GLUE's sentences, and next tokens of the roles of plays."""

from __future__ import annotations

from typing import Any

from dpeer.training.data.glue import LAYOUTS, Glue
from dpeer.training.data.glue import glue as read_glue
from dpeer.training.data.roles import Roles
from dpeer.training.data.roles import roles as read_roles
from dpeer.training.data.text import LONGEST, SHORTEST
from dpeer.training.metrics import figures_of_windows, next_token_metrics
from dpeer.training.models import TEXT_TASKS, check_predicts
from dpeer.training.task import Task
from dpeer.training.tasks import Choices
from dpeer.training.tasks.data_cache import read
from dpeer.training.tasks.options import one_of, text, whole
from dpeer.training.tasks.pooled import pooled_task

_LENGTHS = range(SHORTEST, LONGEST + 1)


def glue(
    rank: int, size: int, seed: int, *, choices: Choices, data: Any = None, name: Any = None, tokenizer: Any = None,
    length: Any = 128, malformed: Any = "refuse", train_samples: Any = None, test_samples: Any = None,
) -> Task:  # fmt: skip
    """A rank's sentences of one of GLUE's tasks; see `Glue` for the options."""
    asked = Glue(
        data=text("glue", "data", data, "DIR, GLUE's folder"),
        name=one_of("glue", "name", text("glue", "name", name, "sst2"), tuple(LAYOUTS)),
        tokenizer=_tokenizer("glue", tokenizer),
        length=whole("glue", "length", length, _LENGTHS, f"{SHORTEST} to {LONGEST} tokens"),
        skip=one_of("glue", "malformed", malformed, ("refuse", "skip")) == "skip",
    )
    check_predicts(choices.model or TEXT_TASKS["glue"], "glue", next_token=False)
    pool = read(read_glue, asked, seed, train_samples, test_samples)
    return pooled_task(pool, rank, size, seed, choices, model=TEXT_TASKS["glue"])


def roles(
    rank: int, size: int, seed: int, *, choices: Choices, data: Any = None, tokenizer: Any = None, length: Any = 80,
    roles: Any = None,
) -> Task:  # fmt: skip
    """A rank's roles of plays, for next-token prediction; see `Roles` for the options."""
    asked = Roles(
        data=text("roles", "data", data, "PATH, LEAF's Shakespeare or a file .npz or .jsonl of speakers and texts"),
        tokenizer=_tokenizer("roles", tokenizer),
        length=whole("roles", "length", length, _LENGTHS, f"{SHORTEST} to {LONGEST} tokens"),
        roles=None if roles is None else whole("roles", "roles", roles, range(1, 2**31), "a number of roles"),
    )
    check_predicts(choices.model or TEXT_TASKS["roles"], "roles", next_token=True)
    task = pooled_task(read(read_roles, asked, seed), rank, size, seed, choices, model=TEXT_TASKS["roles"])
    task.metrics, task.by_row = next_token_metrics, figures_of_windows
    return task


def _tokenizer(task: str, value: Any) -> str | None:
    return None if value is None else text(task, "tokenizer", value, "tokenizer.json")
