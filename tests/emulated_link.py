"""The proxies of benchmarks/link_emulator.py for tests: programs there import each other by their plain names."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

_SPEC = importlib.util.spec_from_file_location(
    "emulated_link_of_benchmarks", Path(__file__).parents[1] / "benchmarks" / "link_emulator.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
_MODULE = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = _MODULE  # a dataclass looks its module up
_SPEC.loader.exec_module(_MODULE)

Line: Any = _MODULE.Line


def free_port() -> int:
    """A port of loopback at which no process listens."""
    (port,) = _MODULE.free_ports(1)
    return int(port)
