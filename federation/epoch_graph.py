"""Graph of an epoch: its description in the epoch's document, and the topology that is built from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from dpeer.exceptions import TopologyError, UnknownName
from dpeer.peer.core.epoch import Edge, EpochGraph
from dpeer.topology import TOPOLOGIES, TimeVaryingTopology, Topology, build_listed, is_function
from dpeer.topology.settings import GraphSettings, build_graph

LISTED, FUNCTION = "file", "function"
"""In place of a topology's name: a graph by its edges, and one that only the hosts of its peers can make."""


def first_graph(settings: GraphSettings, graph: Topology | TimeVaryingTopology) -> EpochGraph:
    """The graph of a federation's start as its first epoch has it."""
    values = {name: getattr(settings, name) for name in GraphSettings.model_fields if name != "size"}
    if is_function(settings.topology):
        return EpochGraph(settings=values | {"topology": FUNCTION}, edges=graph.digest)
    if settings.topology.startswith("file:") and isinstance(graph, Topology):
        values = {"topology": LISTED, "weights": settings.weights}
        edges = tuple((one, other) for one, other in graph.edges)
        return EpochGraph(settings=values, edges=graph.digest, listed=edges)
    return EpochGraph(settings=values, edges=graph.digest)


def epoch_graph(settings: Mapping[str, Any], ranks: Sequence[int], edges: Iterable[Edge] = ()) -> EpochGraph:
    """The graph of an epoch of these members.

    Args:
        settings: By name, as an epoch has them.
        ranks: The members, sorted.
        edges: By rank, for a graph by its edges.

    Raises:
        ConfigurationError: It does not exist for these members.
    """
    listed = tuple(sorted({(min(edge), max(edge)) for edge in edges}))
    made = EpochGraph(settings=dict(settings), edges="0" * 16, listed=listed)
    return made.model_copy(update={"edges": built_graph(made, ranks).digest})


def built_graph(graph: EpochGraph, ranks: Sequence[int]) -> Topology | TimeVaryingTopology:
    """The graph of an epoch over the places of its members, in the order of ranks; its digest is not compared.

    Raises:
        ConfigurationError: It does not exist for these members, or only the hosts of its peers can make it.
    """
    name = graph.settings.get("topology")
    if name == FUNCTION:
        raise TopologyError(
            "the graph is made by a function of the peers, which does not follow a change of members: name another one "
            "with --topology"
        )
    if name == LISTED:
        places = {rank: place for place, rank in enumerate(ranks)}
        edges = [(places[one], places[other]) for one, other in graph.listed]
        return build_listed(edges, len(ranks), weights=str(graph.settings.get("weights", "metropolis")))
    if name not in TOPOLOGIES:  # a document must not name a file of this host
        raise UnknownName("topology", str(name), TOPOLOGIES, "an epoch")
    try:
        return build_graph(GraphSettings.model_validate({**graph.settings, "size": len(ranks)}))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise TopologyError(f"the graph of an epoch, {where}: {first['msg']}") from error
