"""Memory that is freed stays in the process."""

import gc
import weakref

from dpeer.federation.memory_tuning import freeze_heap


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
