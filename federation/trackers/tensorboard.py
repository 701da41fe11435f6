"""TensorBoard: event files in the rank's own folder, which `tensorboard --logdir RUN` shows."""

from __future__ import annotations

from collections.abc import Mapping

from dpeer.federation.trackers import TrackedRun, Tracker

FOLDER = "tensorboard"
"""In a rank's folder: its event files."""


class TensorBoard(Tracker):
    """Event files, written by torch's own writer."""

    extra = "tensorboard"
    libraries = {"tensorboard": "tensorboard"}  # noqa: RUF012 - stated by the interface
    stays_home = True

    def __init__(self, run: TrackedRun) -> None:
        from torch.utils.tensorboard import SummaryWriter  # a second to import

        self._writer = SummaryWriter(str(run.folder / FOLDER), purge_step=run.start if run.start else None)
        if run.known is None:
            rows = "\n".join(f"    {name}: {value}" for name, value in run.settings.items())
            self._writer.add_text("settings", rows)
            run.keep(FOLDER)

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """See `Tracker.log`."""
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """See `Tracker.close`."""
        self._writer.close()
