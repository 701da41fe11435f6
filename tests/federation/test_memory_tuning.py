"""Memory that is freed stays in the process."""

import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
import torch
from dpeer.federation.memory_tuning import keep_heap

if sys.argv[1] == "kept":
    assert keep_heap()
blocks = lambda: [torch.ones(1 << 20) for _ in range(16)]  # 64 MB, in blocks of 4
blocks()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    blocks()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    return int(subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True).stdout)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's")
def test_what_is_freed_needs_no_new_pages() -> None:
    # Ten times 64 MB are 164,000 pages where none is kept; glibc by itself keeps some or none, as it comes.
    assert faults("kept") < 20_000


SETTLED = """
import gc, weakref
from dpeer.federation.memory_tuning import freeze_heap

class Knot:
    def __init__(self):
        self.itself = self

gc.disable()
lost, kept = weakref.ref(Knot()), Knot()
assert lost() is not None and gc.get_freeze_count() == 0
freeze_heap()
assert lost() is None, "what is lost is collected first"
assert gc.get_freeze_count() > 1000
assert not any(one is kept for one in gc.get_objects()), "what is there is not looked at any more"
later = weakref.ref(Knot())
gc.collect()
assert later() is None, "what comes later is"
"""


def test_settled_the_garbage_collector_looks_at_what_comes_later_alone() -> None:
    subprocess.run([sys.executable, "-c", SETTLED], check=True)
