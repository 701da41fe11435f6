"""Graphs, mixing matrices and how fast they mix: networkx, numpy and scipy only, no training, no network.

>>> from dpeer.topology import analyse, build
>>> ring = build("ring", 8)
>>> ring.at(0, rank=3).in_neighbors
(2, 4)
>>> analyse(ring).rounds
32
"""

from dpeer.topology.graphs import TIME_VARYING, TOPOLOGIES, split_names
from dpeer.topology.neighborhood import Graphs, Isolated, Neighborhood, Row
from dpeer.topology.participation import Participation, ServerSampling, take_part
from dpeer.topology.spectrum import Analysis, analyse, paper_formula, spectral_gap, temporal_diameter
from dpeer.topology.topologies import WEIGHTS, Topology, build
from dpeer.topology.user_graphs import function_source, is_function, shared_name, size_of

__all__ = [
    "TIME_VARYING",
    "TOPOLOGIES",
    "WEIGHTS",
    "Analysis",
    "Graphs",
    "Isolated",
    "Neighborhood",
    "Participation",
    "Row",
    "ServerSampling",
    "Topology",
    "analyse",
    "build",
    "function_source",
    "is_function",
    "paper_formula",
    "shared_name",
    "size_of",
    "spectral_gap",
    "split_names",
    "take_part",
    "temporal_diameter",
]
