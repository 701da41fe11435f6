"""Options of a text model that follow from the tokenizer, and the check that a model suits a text task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpeer.exceptions import TaskError
from dpeer.training.data.text import Tokens
from dpeer.training.models import MODELS, find_model

_FOLLOW = ("padding", "separator")


def check_predicts(model: str, task: str, *, next_token: bool) -> None:
    """Refuse a model for text that predicts something else than the task is about; others are refused elsewhere.

    Args:
        model: The model's name.
        task: The task's, for the message.
        next_token: Whether the task is about the next token at each place, and not about the text as a whole.

    Raises:
        UnknownName: There is no such model.
        TaskError: It does not suit the task.
    """
    found = find_model(model)
    if found.takes != "text" or found.next_token == next_token:
        return
    what = ("classifies whole texts", "predicts every next token")
    others = ", ".join(one.name for one in MODELS.values() if one.takes == "text" and one.next_token == next_token)
    raise TaskError(
        f"--model {model} {what[found.next_token]}, and task {task!r} needs one that {what[next_token]}; try {others}"
    )


def with_tokens(model: str, tokens: Tokens | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a model, with those that follow from the tokenizer.

    Args:
        model: The model's name.
        tokens: Where its inputs come from; None where they are no token numbers.
        given: What the user has chosen. A vocabulary may be larger than the tokenizer's, as it is of some pretrained
            weights.

    Raises:
        UnknownName: There is no such model.
        TaskError: Something was chosen that does not suit the tokenizer.
    """
    if tokens is None or find_model(model).takes != "text":
        return dict(given)
    if chosen := next((name for name in _FOLLOW if name in given), None):
        raise TaskError(f"--model-option {chosen}={given[chosen]}: it follows from the tokenizer; leave it out")
    least = given.get("vocabulary", tokens.vocabulary)
    if isinstance(least, int) and least < tokens.vocabulary:
        raise TaskError(
            f"--model-option vocabulary={least}: the tokenizer ({tokens.label}) has {tokens.vocabulary} tokens: say as "
            "many or more, or leave it out"
        )
    follows = {"vocabulary": tokens.vocabulary, "padding": tokens.padding, "separator": tokens.separator}
    takes = find_model(model).options()
    return {name: value for name, value in follows.items() if name in takes} | dict(given)
