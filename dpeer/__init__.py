"""Serverless personalised learning: heads and data stay home, bodies are gossiped."""

from pathlib import Path

__version__ = "0.1.0"

# A checkout that lost its links (a zip, some Windows clones) still finds the packages beside this folder.
if not (Path(__file__).parent / "peer").is_dir():
    __path__.append(str(Path(__file__).parent.parent))
