"""Serverless personalised learning: heads and data stay home, bodies are gossiped.

The names of this package are imported when they are used; `import dpeer` alone imports next to nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# A checkout that lost its links (a zip, some Windows clones) still finds the packages beside this folder.
if not (Path(__file__).parent / "peer").is_dir():
    __path__.append(str(Path(__file__).parent.parent))

# Threads of torch that wait for each other sleep. By default they spin for milliseconds, and where another program uses
# one of the cores a round takes ten times as long. libgomp (Linux) spins two thousand times all the same, some 50
# microseconds, which an idle host thanks. The libraries read this once, when torch is imported.
if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"} & os.environ.keys():
    os.environ |= {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "2000"}

from dpeer.lazy import lazily

if TYPE_CHECKING:
    from dpeer.api import Run, open_run, run
    from dpeer.federation.saved_models import load_model
    from dpeer.federation.settings import Settings
    from dpeer.training import Algorithm, Task

_PLACES = {
    "Algorithm": "dpeer.training",
    "Run": "dpeer.api",
    "Settings": "dpeer.federation.settings",
    "Task": "dpeer.training",
    "load_model": "dpeer.federation.saved_models",
    "open_run": "dpeer.api",
    "run": "dpeer.api",
}

__getattr__ = lazily(__name__, _PLACES)

__all__ = ["Algorithm", "Run", "Settings", "Task", "__version__", "load_model", "open_run", "run"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
