"""What the help of the commands says, and which options there are."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import click
import pytest

from dpeer.cli.cluster import cluster
from dpeer.cli.options import option_of
from dpeer.cli.simulate import simulate
from dpeer.cli.start import start
from dpeer.exceptions import UnknownName
from dpeer.federation.settings import Settings, option_names
from dpeer.sections import in_short
from dpeer.topology import TOPOLOGIES
from dpeer.training import BUILTIN_TASKS
from dpeer.training.data.partitions import parse
from dpeer.training.models import MODELS
from dpeer.training.setting_texts import BUILT_IN

Command = Callable[..., Any]


def headings(text: str) -> dict[str, list[str]]:
    """The options that a help lists below each of its headings."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line and not line.startswith(" ") and line.endswith(":"):
            found[line[:-1]] = []
        elif line.startswith("  -") and found:
            found[[*found][-1]].append(line.split()[0].rstrip(","))
    return found


@pytest.mark.parametrize(
    ("setting", "before", "after", "names"),
    [
        ("model", ": ", ", or a class", MODELS),
        ("task", ": ", ", or a function", BUILTIN_TASKS),
        ("compress", ": ", ", or a class", BUILT_IN),
    ],
)
def test_the_help_names_every_one(setting: str, before: str, after: str, names: Iterable[str]) -> None:
    text = (Settings.model_fields[setting].description or "").partition(before)[2]
    assert sorted(text.partition(after or "\n")[0].split(", ")) == sorted(names)


def test_the_help_names_every_partition() -> None:
    text = Settings.model_fields["partition"].description or ""
    named = re.sub(r" \([^)]*\)", "", text).rpartition(": ")[2].split(", ")
    with pytest.raises(UnknownName) as found:
        parse("?")
    assert named == str(found.value).rpartition("valid: ")[2].split(", ")


def test_the_graphs_that_the_help_names_exist() -> None:
    text = Settings.model_fields["topology"].description or ""
    named = text.partition(": ")[2].partition(", ...")[0].split(", ")
    assert len(named) > 3
    assert {*named} <= {*TOPOLOGIES}


OWN_HOST = {"wait", "threads", "base_port", "insecure", "secret", "proxy", "serve"}
"""Settings of a peer that other hosts reach."""


@pytest.mark.parametrize(
    ("command", "lacks"),
    [
        (start, {"faults"}),
        (cluster, {"faults", *OWN_HOST}),
        (simulate, OWN_HOST - {"threads"}),
    ],
)
def test_every_setting_is_a_flag(command: click.Command, lacks: set[str]) -> None:
    flags = [one for parameter in command.params for one in parameter.opts]
    assert len(flags) == len({*flags})
    for name in option_names():
        assert (option_of(name) in flags) == (name not in lacks), name


@pytest.mark.parametrize("command", ["start", "cluster", "simulate", "compare", "check", "init"])
def test_a_help_is_one_page(command: str, dpeer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = dpeer(command, "--help").out
    listed = [one for options in headings(text).values() for one in options]
    assert len(listed) <= 25
    assert len(text.splitlines()) <= 45
    assert "`dpeer settings [WORD]`" in text.splitlines()[-1]


def test_what_a_help_has_of_a_setting_is_short() -> None:
    short = {name: in_short(Settings.model_fields[name]) for name in option_names()}
    assert {name: text for name, text in short.items() if not 2 <= len(text.split()) <= 20} == {}


def test_options_are_completed(dpeer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_DPEER_COMPLETE", "bash_complete")
    for words, number, expected in (("dpeer start --top", 2, "--topology"), ("dpeer start --keep ", 3, "best")):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(number))
        assert f"plain,{expected}" in dpeer().out.split()


def test_a_number_may_be_a_word() -> None:
    for text, value in (("auto", "auto"), ("20", 20.0)):
        assert start.make_context("start", ["--rank", "0", "--round-seconds", text]).params["round_seconds"] == value
