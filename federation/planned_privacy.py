"""Planned privacy: what a private run will promise, of its federation file and one site's data, before it starts."""

from __future__ import annotations

from pathlib import Path

from dpeer.exceptions import ConfigurationError
from dpeer.federation import config
from dpeer.federation.folders import refuse_faults
from dpeer.federation.starting import Starting
from dpeer.federation.trial_build import built_aside
from dpeer.privacy import Session


def planned_privacy(file: Path, rank: int) -> tuple[Session, int, list[str]]:
    """Build a rank's peer as a start does, in a folder that is thrown away; nothing is trained, charged or written.

    Args:
        file: The federation file.
        rank: The rank whose data are here.

    Returns:
        The session, how many values get noise at once, and the lines of the start about privacy, the guarantee first.

    Raises:
        ConfigurationError: The peer cannot start, or its run is not private.
        TaskError: The task's model or data raised.
    """
    settings = config.load(file, {})
    own = Starting(settings, rank).own
    refuse_faults(settings, resume=False)
    if own.privacy == "none":
        raise ConfigurationError(
            f"--federation {str(file)!r}: privacy is none there, so nothing is promised: choose sample or client"
        )
    with built_aside(config.resolve(own, rank)) as (_, parts, _):
        pass
    session, about = parts.learner.session, parts.learner.about
    if session is None:
        raise ConfigurationError(
            f"--federation {str(file)!r}: with algorithm {own.algorithm} nothing is shared, so nothing is released"
        )
    return session, session.noised(about.shared_values, about.trained_together), parts.promises
