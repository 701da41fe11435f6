"""A run of all peers in this process, as `dpeer simulate` and `dpeer compare` make it."""

from __future__ import annotations

from dpeer.federation.running import Drive, OpenView, Result, Runner, drive_by_signals, run_federation
from dpeer.federation.settings import Settings
from dpeer.federation.view import Silent, View
from dpeer.simulation.faults import check_faults


def simulate(
    settings: Settings,
    *,
    resume: bool = False,
    overwrite: bool = False,
    new_data: bool = False,
    open_view: OpenView = lambda settings: Silent(),
    drive: Drive = drive_by_signals,
) -> Result:
    """Run all peers of a federation in this process, with the results of `dpeer.federation.running.cluster` to the bit.

    Arguments and errors are those of `run_federation`; where `settings.faults` is set, time and network are simulated.
    """
    check_faults(settings, resume=resume)
    return run_federation(
        settings, _open, resume=resume, overwrite=overwrite, new_data=new_data, open_view=open_view, drive=drive
    )


def _open(settings: Settings, view: View, *, resume: bool, new_data: bool) -> Runner:
    # Both import torch, which a command that finds its settings wrong does without.
    if settings.faults is not None:
        from dpeer.simulation.faulty_simulation import FaultySimulation

        return FaultySimulation(settings, view, new_data=new_data)
    from dpeer.simulation.simulation import Simulation

    return Simulation(settings, view, resume=resume, new_data=new_data)
