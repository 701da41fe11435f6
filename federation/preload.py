"""Imported once by the fork server, so that every peer starts with torch in (shared) memory; runs nothing else.

The garbage collector skips the objects that are imported here, so that their memory stays shared.
"""

import sklearn.datasets  # what the digits are read with
import sklearn.metrics  # noqa: F401 - what every peer measures its model with at the end

import dpeer.federation.child
import dpeer.federation.serving  # noqa: F401
from dpeer.federation.heap import freeze_heap

freeze_heap()
