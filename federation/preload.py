"""Imported once by the fork server, so that every peer starts with torch in (shared) memory; runs nothing else.

What is imported is left alone by the garbage collector, so that it stays shared.
"""

import sklearn.datasets  # noqa: F401 - what the digits are read with

import dpeer.federation.child
import dpeer.federation.serving  # noqa: F401
from dpeer.federation.heap import freeze_heap

freeze_heap()
