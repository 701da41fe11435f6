"""The `dpeer` command."""

from dpeer.cli.main import main

__all__ = ["main"]
