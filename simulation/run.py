"""`simulate`: a run of all peers in this process."""

from __future__ import annotations

from dpeer.exceptions import ConfigurationError
from dpeer.federation.config import RunConfig, resolve
from dpeer.federation.folders import working_folder_kept
from dpeer.federation.operators import new_operator
from dpeer.federation.planned_changes import highest_rank, with_operator, with_shares
from dpeer.federation.run import Drive, OpenView, Result, Runner, drive_by_signals, run_federation
from dpeer.federation.settings import Settings
from dpeer.federation.view import Silent, View
from dpeer.simulation.faults import check_faults


def simulate(
    settings: Settings,
    *,
    resume: bool = False,
    overwrite: bool = False,
    new_data: bool = False,
    open_view: OpenView = Silent,
    drive: Drive = drive_by_signals,
) -> Result:
    """Run all peers of a federation in this process, with the results of `dpeer.federation.run.cluster` to the bit.

    Arguments and errors are those of `run_federation`; where `settings.faults` is set, time and network are simulated.
    """
    changes = check_faults(settings, settings.size, settings.rounds, resume=resume)
    _check_clock(settings)
    secret = new_operator()
    if changes:
        settings = with_shares(settings, changes)
        settings = settings.model_copy(update=with_operator(settings, secret))

    def open_runner(view: View) -> Runner:
        # Both import torch, which a command with wrong settings does without.
        if settings.faults is not None:
            from dpeer.simulation.faulty_simulation import FaultySimulation

            return FaultySimulation(
                peer_configs(settings), view, new_data=new_data, secret=secret,
                joiners={rank: peer_config(settings, rank) for change in changes for rank in change.join},
            )  # fmt: skip
        from dpeer.simulation.simulation import Simulation

        return Simulation(peer_configs(settings), view, resume=resume, new_data=new_data)

    return run_federation(
        settings, open_runner, ranks=highest_rank(changes, settings.size) + 1,
        resume=resume, overwrite=overwrite, new_data=new_data, open_view=open_view, drive=drive,
    )  # fmt: skip


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
    return [peer_config(settings, rank) for rank in range(settings.size)]


def peer_config(settings: Settings, rank: int) -> RunConfig:
    """The configuration of one of these peers, or of one that joins them."""
    from dpeer.training.randomness import undisturbed  # torch

    own = settings.of_rank(rank, joins=rank >= settings.size)
    with working_folder_kept(), undisturbed():  # an algorithm of the user's own is imported
        return resolve(own.model_copy(update={"out": settings.out, "threads": 1}), rank)
