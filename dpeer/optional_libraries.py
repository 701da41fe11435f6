"""Optional dependencies: which pip extra installs a library, and the error when one is missing."""

from __future__ import annotations

import importlib

from dpeer.exceptions import ConfigurationError


def check_libraries(what: str, extra: str, **libraries: str) -> None:
    """Check that what something needs is installed.

    Args:
        what: The name of what needs them, for the message.
        extra: The group of optional dependencies that has them.
        libraries: The libraries' names, by the module that is imported.

    Raises:
        ConfigurationError: A library is not installed; the message says how to install it.
    """
    try:
        for module in libraries:
            importlib.import_module(module)
    except ImportError as error:
        needed = " and ".join(libraries.values())
        raise ConfigurationError(f"{what} needs {needed}: pip install 'dpeer[{extra}]'") from error
