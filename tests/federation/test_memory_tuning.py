"""Memory that is freed stays in the process."""

import gc
import subprocess
import sys
import weakref

import pytest

from dpeer.federation.memory_tuning import freeze_heap

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


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_a_frozen_heap_is_collected_first_and_searched_no_more() -> None:
    gc.disable()
    try:
        lost, kept = weakref.ref(Cycle()), Cycle()
        assert lost() is not None
        freeze_heap()
        assert lost() is None
        assert gc.get_freeze_count() > 1000
        assert not any(one is kept for one in gc.get_objects())
        later = weakref.ref(Cycle())
        gc.collect()
        assert later() is None
    finally:
        gc.enable()
