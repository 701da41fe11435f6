"""`dpeer settings`: every setting is listed and found, and a value says where it comes from."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.federation.settings import option_names
from tests.cli.command import parsed, words

Command = Callable[..., Any]

FILE = """\
size = 4
preset = "paper-cifar"
rounds = 3
[rank.3]
batch_size = 16
body_epochs = 2
"""


def test_every_setting_is_listed_with_what_it_is() -> None:
    listed = parsed("settings")
    assert sorted(one["name"] for one in listed) == sorted(option_names())
    assert all(one["type"] and one["text"].endswith(".") for one in listed)
    (lr,) = (one for one in listed if one["name"] == "body_lr")
    assert (lr["flag"], lr["heading"], lr["type"], lr["default"]) == ("--body-lr", "Training", "number", 0.05)
    assert (lr["agree"], lr["rank"]) == ("all peers", False)
    (size,) = (one for one in listed if one["name"] == "batch_size")
    assert (size["agree"], size["rank"]) == ("this site", True)


def test_headings_come_once(dpeer: Command) -> None:
    headings = [one["heading"] for one in parsed("settings")]
    assert headings == sorted(headings, key=list(dict.fromkeys(headings)).index)
    printed = words("settings")
    assert all(f"{heading} " in printed for heading in headings)


@pytest.mark.parametrize(
    ("asked", "flag"),
    [
        ("learning rate", "--body-lr"),
        ("epsilon", "--target-epsilon"),
        ("topology", "--topology"),
        ("graph", "--topology"),
        ("clip_norm", "--clip-norm"),
        ("clip-norm", "--clip-norm"),
        ("WAIT", "--wait"),
    ],
)
def test_a_word_finds_settings(asked: str, flag: str) -> None:
    assert flag in [one["flag"] for one in parsed("settings", *asked.split())]
    assert flag in words("settings", *asked.split())


def test_an_unknown_word_gets_the_nearest(dpeer: Command) -> None:
    ended = dpeer("settings", "clip-nrom")
    (line,) = ended.complaints
    assert ended.code == 2
    assert line.startswith("dpeer: no setting has 'clip-nrom': did you mean 'clip-norm'? ")


def test_a_short_word_is_looked_for_as_a_word(dpeer: Command) -> None:
    flags = re.findall(r"^--[\w-]+", dpeer("settings", "dp").out, flags=re.MULTILINE)
    assert {"--dp-head", "--privacy"} <= {*flags}
    assert "--operators" not in flags, "dpeer is no dp"
    assert "--deadline" in dpeer("settings", "wait").out, "a round that waits"


def test_the_name_of_an_earlier_version_says_what_to_do_instead(dpeer: Command) -> None:
    (line,) = dpeer("settings", "fresh-neighbors").complaints
    assert line.startswith("dpeer: fresh_neighbors has been removed: a graph's parameters stand in its name")


def test_a_value_says_where_it_comes_from(in_tmp_path: Path) -> None:
    Path("fed.toml").write_text(FILE)
    given = ("--of", "fed.toml", "--rank", "3", "--body-epochs", "7", "--momentum", "0.5")
    found = parsed("settings", *given)
    assert found["body_epochs"] == {"value": 7, "from": "flag"}
    assert found["momentum"] == {"value": 0.5, "from": "flag"}
    assert found["batch_size"] == {"value": 16, "from": "[rank.3] of fed.toml"}
    assert found["rounds"] == {"value": 3, "from": "fed.toml"}
    assert found["head_lr"] == {"value": 0.001, "from": "preset paper-cifar"}
    assert "seed" not in found
    assert parsed("settings", "--all", *given)["seed"] == {"value": 0, "from": "default"}
    assert parsed("settings", "seed", *given)["seed"] == {"value": 0, "from": "default"}
    assert "batch_size 16 [rank.3] of fed.toml" in words("settings", *given)
    fedrep = parsed("settings", *given[:4], "--algorithm", "fedrep", "--preset", "paper-fedrep")
    assert fedrep["algorithm"] == {"value": "fedrep", "from": "flag"}
    assert fedrep["head_epochs"] == {"value": 10, "from": "algorithm fedrep"}


def test_a_rank_alone_says_nothing(dpeer: Command) -> None:
    for given in (("--rank", "3"), ("--all",), ("--rounds", "3")):
        (line,) = dpeer("settings", *given).complaints
        assert line.endswith("give --of FILE")
