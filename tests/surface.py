"""Everything that users and programs rely on by name, a line each, as it stands in tests/surface.txt.

    python -m tests.surface        writes the file anew

Commands, flags, settings, keys of summary.json and metrics.jsonl, metrics, log events, statuses and exit codes.
A line leaves the file only in the commit that takes the name away on purpose, so a name cannot be lost in silence.
"""

from __future__ import annotations

import ast
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click

from dpeer import exceptions
from dpeer.cli.main import group
from dpeer.federation.settings import RankSettings, Settings
from dpeer.peer.core.membership import Status
from dpeer.peer.peer import Ending
from dpeer.peer.snapshot import Phase
from dpeer.results.files import METRICS, SUMMARY, rank_folder
from dpeer.simulation.run import simulate

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tests" / "surface.txt"
ROOMS = ("peer", "federation", "simulation")
"""The rooms that log events."""
LEVELS = ("debug", "info", "warning", "error")
PRIVATE = {"none": {}, "client": {"noise_multiplier": 2.0}, "sample": {"noise_multiplier": 1.0}}


def surface() -> list[str]:
    """All lines, in order."""
    found = {*commands(group, ()), *settings(), *files(), *metrics(), *events(), *statuses(), *exit_codes()}
    return sorted(found)


def commands(command: click.Command, path: tuple[str, ...]) -> Iterator[str]:
    if path:
        yield f"command {' '.join(path)}"
    for parameter in command.params:
        for name in (*parameter.opts, *parameter.secondary_opts) if isinstance(parameter, click.Option) else ():
            yield f"flag {' '.join(path) or 'dpeer'} {name}"
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            one = command.get_command(context, name)
            assert one is not None
            yield from commands(one, (*path, name))


def settings() -> Iterator[str]:
    for name in Settings.model_fields:
        yield f"setting {name}"
    for name in RankSettings.model_fields:
        yield f"setting rank.N.{name}"


def files() -> Iterator[str]:
    """Keys of what small runs leave, with and without privacy."""
    with tempfile.TemporaryDirectory() as folder:
        for mode, more in PRIVATE.items():
            out = Path(folder) / mode
            simulate(Settings.model_validate({
                "size": 2, "rounds": 1, "task": "digits", "local_steps": 1, "out": out, "alone": "never",
                "privacy": mode, **more,
            }))  # fmt: skip
            for which, path in (("summary", out / SUMMARY), ("peer summary", rank_folder(out, 0) / SUMMARY)):
                for key in json.loads(path.read_text()):
                    yield f"{which} {key}"
            for key in json.loads((rank_folder(out, 0) / METRICS).read_text()):
                yield f"metrics {key}"


def metrics() -> Iterator[str]:
    """Names of metrics that a page lists; a test of the metrics holds the list to what is exposed."""
    page = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
    for name in re.findall(r"\bdpeer_[a-z_]+\b", page):
        yield f"metric {name}"


def events() -> Iterator[str]:
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.Call):
                    continue
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                level = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
                stated: list[ast.expr] = []
                if called in LEVELS and any(one.arg == "message" for one in node.keywords):
                    stated = node.args[:1]
                elif level in LEVELS:
                    stated = node.args[1:2]
                for one in (part for argument in stated for part in ast.walk(argument)):
                    word = one.value if isinstance(one, ast.Constant) else None
                    if isinstance(word, str) and re.fullmatch(r"[a-z]+(-[a-z]+)*", word):
                        yield f"event {word}"


def statuses() -> Iterator[str]:
    for name in get_args(Ending):
        yield f"status {name}"
    for name in get_args(Phase):
        yield f"phase {name}"
    for one in Status:
        yield f"liveness {one.value}"


def exit_codes() -> Iterator[str]:
    for name, one in vars(exceptions).items():
        if isinstance(one, type) and issubclass(one, exceptions.DpeerError):
            yield f"exit {one.exit_code} {name}"


if __name__ == "__main__":
    FILE.write_text("".join(f"{line}\n" for line in surface()), encoding="utf-8")
