"""Graphs, mixing matrices and how fast they mix: networkx, numpy and scipy only, no training, no network.

>>> from dpeer.topology import analyse, build
>>> ring = build("ring", 8)
>>> ring.at(0, rank=3).in_neighbors
(2, 4)
>>> analyse(ring).rounds
32
"""

from dpeer.topology.building import TOPOLOGIES, WEIGHTS, build
from dpeer.topology.files import size_of
from dpeer.topology.neighborhood import Graphs, Isolated, Neighborhood, Row
from dpeer.topology.papers import PaperFormula, paper_formula
from dpeer.topology.participation import Participation
from dpeer.topology.schedules import CHANGING
from dpeer.topology.server import ServerSampling
from dpeer.topology.spectrum import Analysis, analyse, disagreement, spectral_gap, spectrum
from dpeer.topology.spreading import rounds_to_everybody
from dpeer.topology.static import Topology
from dpeer.topology.time_varying import ChangingTopology

AnyTopology = Topology | ChangingTopology
"""What `build` makes."""

__all__ = [
    "CHANGING",
    "TOPOLOGIES",
    "WEIGHTS",
    "Analysis",
    "AnyTopology",
    "ChangingTopology",
    "Graphs",
    "Isolated",
    "Neighborhood",
    "PaperFormula",
    "Participation",
    "Row",
    "ServerSampling",
    "Topology",
    "analyse",
    "build",
    "disagreement",
    "paper_formula",
    "rounds_to_everybody",
    "size_of",
    "spectral_gap",
    "spectrum",
]
