"""Whom the rounds of a run are with, by `--participation` and `--participation-mode`; what does not go with it."""

from typing import Any

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
