"""What others may ask of a peer at most: every bound on it, with its reason.

A bound is beyond what an honest peer comes to, and what is beyond it is dropped and counted, or not kept.
"""

from __future__ import annotations

from dataclasses import dataclass

# -- messages --------------------------------------------------------------------------------------------------------

HEADER_CONTAINERS = 2**16
"""Lists and tables in a header: two a parameter tensor in a hello's manifest, of which a header of 1 MiB has at most
23 thousand. Each takes up to 184 bytes of memory for one of the header's, so without this a header of 1 MiB takes a
second, and 80 MB."""

HEADER_DEPTH = 16
"""How many of them may be within each other: five in the manifest."""

HEADER_FIELDS = 32
"""Of a header: a hello has eleven, and later versions may add some. Each that is not known is reported by itself."""


@dataclass(frozen=True)
class Limits:
    """What is accepted of a message at most."""

    header_bytes: int = 2**20
    """A hello carries the manifest: about 60 bytes a parameter tensor."""
    small_header_bytes: int = 2**16
    """Every other header."""
    payload_bytes: int = 0
    """All buffers of a body together; known from the own model, since every peer has the same body."""
    buffers: int = 4096
    """Of a body. A body of dpeer's own has one or two; every further one costs calls, however short it is."""
