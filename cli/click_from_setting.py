"""A click option from one setting's field: flag, type, choices, default and help."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import click
from pydantic import BaseModel

from dpeer.sections import in_words

F = TypeVar("F", bound=Callable[..., Any])

_UNIONS = (Union, types.UnionType)


class Time(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A duration, as a text that the setting itself reads."""

    name = "TIME"


class NumberOr(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A number, or one of some words."""

    def __init__(self, words: Sequence[str], number: type = float) -> None:
        self._words = words
        self._number = number
        self.name = f"NUMBER|{'|'.join(words)}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number or the word of a text."""
        if value in self._words or isinstance(value, self._number):
            return value
        try:
            return self._number(value)
        except ValueError:
            whole = "whole " if self._number is int else ""
            self.fail(f"{value!r} is not a {whole}number, nor one of {', '.join(self._words)}", param, ctx)


def stated(section: type[BaseModel], *names: str, **more: Any) -> Callable[[F], F]:
    """Options for settings of commands that read no federation file: a setting's own default is the option's.

    `more` are further arguments of `click.option`, such as a `type` that reads another notation.
    """

    def decorate(command: F) -> F:
        for name in reversed(names):
            field = section.model_fields[name]
            kind = click_type(without_none(field.annotation))
            given = {"type": kind, "default": field.default, "help": in_words(field)} | more
            command = click.option(flag(name), name, **given)(command)
        return command

    return decorate


def flag(name: str) -> str:
    """An option as it is typed, from the setting's name."""
    return f"--{name.replace('_', '-')}"


def click_type(kind: Any) -> Any:
    """The click type of a setting's type; ranges and patterns are checked by the setting itself."""
    if get_origin(kind) in _UNIONS:
        words = next(get_args(part) for part in get_args(kind) if get_origin(part) is Literal)
        return NumberOr(words, next(without_none(part) for part in get_args(kind) if get_origin(part) is Annotated))
    if get_origin(kind) is Literal and all(isinstance(value, str) for value in get_args(kind)):
        return click.Choice(get_args(kind))
    if kind is Path:
        return click.Path(path_type=Path)
    return int if get_origin(kind) is Literal else kind if kind in (int, float) else str


def without_none(annotation: Any) -> Any:
    """The type of a setting, without `None` and without its limits."""
    if get_origin(annotation) in _UNIONS:
        first, *others = (part for part in get_args(annotation) if part is not type(None))
        if others:  # a number, or one of some words
            return annotation
        annotation = first
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
