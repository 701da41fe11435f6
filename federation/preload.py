"""Preload module of the fork server: imports torch once, so that all peers share its memory; runs nothing else.

The garbage collector skips the objects that are imported here, so that their memory stays shared.
"""

import dpeer.federation.cluster_child
import dpeer.federation.serving  # noqa: F401
from dpeer.federation.process_tuning import freeze_heap

freeze_heap()
