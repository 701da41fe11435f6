"""Repeated looks at many peers for a page: one that does not answer holds up no look at the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait

from dpeer.exceptions import DpeerError
from dpeer.federation.control_client import Place

Look = Callable[[], list[Place]]
"""Looks at one peer, or at those that one address answers for; ends within seconds, whatever they do."""

PATIENCE = 1.0
"""Seconds that a look waits for a peer that has been heard before."""

OLD = 5.0
"""Seconds since the last call after which what was heard then is not shown any more."""

_AT_ONCE = 32


class RepeatedLook:
    """Looks at peers each time that it is called, on one thread at a time.

    A peer that has been heard before and is late is shown as it was then. Its look goes on meanwhile, and ends with an
    answer or with why none came. After a pause of `OLD` seconds, as while no page is open, all are heard anew.

    Args:
        looks: Makes the looks by the names of their peers, in order; called each time, since folders come and go.
        patience: Seconds that a call waits for peers that have been heard before.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        looks: Callable[[], Mapping[str, Look]],
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._looks, self._patience, self._clock = looks, patience, clock
        self._ended = clock()
        self._threads = ThreadPoolExecutor(_AT_ONCE, "look")
        self._asked: dict[str, Future[list[Place]]] = {}
        self._found: dict[str, list[Place]] = {}

    def __call__(self) -> list[Place]:
        """The peers, in the order of the looks.

        Raises:
            ConfigurationError: A folder holds no run.
        """
        looks = self._looks()
        if self._clock() - self._ended > OLD:
            self._found.clear()
        for name, look in looks.items():
            if name not in self._asked:
                self._asked[name] = self._threads.submit(look)
        wait([asked for name, asked in self._asked.items() if name not in self._found])
        wait(self._asked.values(), self._patience)
        for name, asked in [*self._asked.items()]:
            if asked.done():
                del self._asked[name]
                try:
                    self._found[name] = asked.result()
                except DpeerError:  # its folder was removed meanwhile
                    self._found.pop(name, None)
        self._ended = self._clock()
        return [place for name in looks for place in self._found.get(name, ())]
