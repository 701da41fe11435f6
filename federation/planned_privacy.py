"""Planned privacy: what a private run will promise, of its federation file and one site's data, before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dpeer.exceptions import ConfigurationError
from dpeer.federation import config
from dpeer.federation.folders import refuse_faults
from dpeer.federation.starting import Starting
from dpeer.federation.trial_build import built_aside
from dpeer.privacy import Guarantee, SampleGuarantee


@dataclass(frozen=True)
class PlannedPrivacy:
    """The privacy of one rank's run.

    Attributes:
        guarantee: What protects, with the noise that follows from a budget.
        rounds: How many rounds release something; a budget may end before the run does.
        size: The number of peers.
        parameters: How many values get noise at once.
        promises: The lines of the start about privacy, the guarantee first.
    """

    guarantee: Guarantee | SampleGuarantee
    rounds: int
    size: int
    parameters: int
    promises: tuple[str, ...]


def planned_privacy(file: Path, rank: int) -> PlannedPrivacy:
    """Build a rank's peer as a start does, in a folder that is thrown away; nothing is trained, charged or written.

    Args:
        file: The federation file.
        rank: The rank whose data are here.

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
    noised = session.noised(about.shared_values, about.trained_together)
    return PlannedPrivacy(session.guarantee, session.rounds, own.size, noised, tuple(parts.promises))
