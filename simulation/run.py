"""`simulate`: a run of all peers in this process."""

from __future__ import annotations

from dpeer.exceptions import ConfigurationError
from dpeer.federation.config import RunConfig, resolve
from dpeer.federation.folders import working_folder_kept
from dpeer.federation.run import Drive, OpenView, Result, Runner, drive_by_signals, run_federation
from dpeer.federation.settings import Settings
from dpeer.federation.view import View
from dpeer.simulation.faults import check_faults


def simulate(
    settings: Settings,
    *,
    resume: bool = False,
    overwrite: bool = False,
    open_view: OpenView = View,
    drive: Drive = drive_by_signals,
) -> Result:
    """Run all peers of a federation in this process, with the results of `dpeer.federation.run.cluster` to the bit.

    Arguments and errors are those of `run_federation`; where `settings.faults` is set, time and network are simulated.
    """
    check_faults(settings, settings.size, settings.rounds, resume=resume)
    _check_clock(settings)

    def open_runner(view: View) -> Runner:
        # Both import torch, which a command with wrong settings does without.
        if settings.faults is not None:
            from dpeer.simulation.faulty_simulation import FaultySimulation

            return FaultySimulation(peer_configs(settings), view, threads=settings.threads)
        from dpeer.simulation.simulation import Simulation

        return Simulation(peer_configs(settings), view, resume=resume, threads=settings.threads)

    return run_federation(settings, open_runner, resume=resume, overwrite=overwrite, open_view=open_view, drive=drive)


def _check_clock(settings: Settings) -> None:
    """Refuse rounds as long as the neighbors' where no peer has a clock of its own.

    Raises:
        ConfigurationError: Names the setting.
    """
    asked = [settings, *(settings.of_rank(rank) for rank in settings.rank)]
    if settings.faults is None and any(one.round_seconds == "auto" for one in asked):
        raise ConfigurationError(
            "--round-seconds auto: the peers of a simulation train in turn, so none can see how long the others take: "
            "give seconds, or --faults with a file (which may be empty) for a clock of each, or use dpeer cluster"
        )


def peer_configs(settings: Settings) -> list[RunConfig]:
    """The configurations of all peers, by rank; they share one folder, and each computes on one thread."""
    from dpeer.training.randomness import undisturbed  # torch

    found = []
    for rank in range(settings.size):
        own = settings.of_rank(rank)
        with working_folder_kept(), undisturbed():  # an algorithm of the user's own is imported
            found.append(resolve(own.model_copy(update={"out": settings.out, "threads": 1}), rank))
    return found
