"""Graphs, mixing matrices and how fast they mix: networkx, numpy and scipy only, no training, no network.

>>> from dpeer.topology import analyse, build
>>> ring = build("ring", 8)
>>> ring.at(0, rank=3).in_neighbors
(2, 4)
>>> analyse(ring).rounds
32
"""

from dpeer.topology.fixed import TOPOLOGIES, WEIGHTS, Topology, build
from dpeer.topology.neighborhood import Graphs, Isolated, Neighborhood, Row
from dpeer.topology.papers import PaperFormula, paper_formula
from dpeer.topology.spectrum import DENSE_LIMIT, Analysis, analyse

__all__ = [
    "DENSE_LIMIT",
    "TOPOLOGIES",
    "WEIGHTS",
    "Analysis",
    "Graphs",
    "Isolated",
    "Neighborhood",
    "PaperFormula",
    "Row",
    "Topology",
    "analyse",
    "build",
    "paper_formula",
]
