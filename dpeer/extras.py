"""Libraries that not everybody has."""

from __future__ import annotations

import importlib

from dpeer.exceptions import ConfigurationError


def check_libraries(what: str, extra: str, **libraries: str) -> None:
    """Check that what something needs is installed.

    Args:
        what: What needs it, for the message.
        extra: The optional dependencies that bring it.
        libraries: What it is called, by the module that is imported.

    Raises:
        ConfigurationError: It is not, and how to install it.
    """
    try:
        for module in libraries:
            importlib.import_module(module)
    except ImportError as error:
        needed = " and ".join(libraries.values())
        raise ConfigurationError(f"{what} needs {needed}: pip install 'dpeer[{extra}]'") from error
