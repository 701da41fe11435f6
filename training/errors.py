"""Turning what went wrong in a user's code into the one line that a user needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dpeer.exceptions import DpeerError, TaskError

_LONGEST = 400


def describe(error: BaseException) -> str:
    """The error's type and message on one line, cut to a readable length."""
    text = " ".join(str(error).split())
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + " ..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextmanager
def blame(what: str) -> Iterator[None]:
    """Report whatever a user's code raises as one TaskError; its traceback stays attached for ``--debug``.

    Args:
        what: The start of the message: whose code it was and what it was doing.

    Raises:
        TaskError: The block raised something that is not dpeer's own.
    """
    try:
        yield
    except DpeerError:
        raise
    except Exception as error:
        raise TaskError(f"{what}: {describe(error)}") from error
