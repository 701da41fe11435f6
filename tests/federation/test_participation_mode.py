"""Whom the rounds of a run are with, by `--participation` and `--participation-mode`; what does not go with it."""

from typing import Any

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.federation.build import build
from dpeer.federation.config import resolve
from dpeer.federation.settings import Settings
from dpeer.topology import Graphs, Isolated, Participation, ServerSampling, take_part
from dpeer.topology.settings import build_graph

SERVER: dict[str, Any] = {"topology": "full", "participation": 0.5, "participation_mode": "server", "size": 4}


def graphs(**changes: Any) -> Graphs:
    settings = Settings(**SERVER | changes)
    return take_part(build_graph(settings), settings.participation, settings.participation_mode, settings.seed)


def test_the_mode_says_what_those_do_who_are_not_drawn() -> None:
    assert isinstance(graphs(), ServerSampling)
    peers = graphs(participation_mode="peers")
    assert isinstance(peers, Participation)
    assert not isinstance(peers, ServerSampling)


def test_where_nothing_is_shared_nobody_hears_anybody() -> None:
    drawn = take_part(Isolated(4), 0.5, "server", 0)
    assert all(drawn.at(number, rank).in_neighbors == () for number in range(5) for rank in range(4))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"topology": "ring"}, "--topology full --weights uniform"),
        ({"quantize": 8}, "--participation-mode server with --quantize 8"),
        ({"robust": "median"}, "--participation-mode server with --robust median"),
        ({"max_norm": 3.0}, "--participation-mode server with --max-norm 3.0"),
        ({"algorithm": "dis-pfl"}, "--participation-mode server: dis-pfl mixes in a way of its own"),
    ],
    ids=str,
)
def test_what_needs_an_own_body_of_each_round_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        build(resolve(Settings(**SERVER | changes), 0))
