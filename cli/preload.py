"""Imported once by the fork server, so that every peer starts with torch in (shared) memory. Imports and runs nothing else."""

import dpeer.cli.child
import dpeer.training.tasks.digits  # noqa: F401
