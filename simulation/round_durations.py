"""How long training, mixing and saving of a round last in virtual time."""

from __future__ import annotations

from dpeer.peer.rank_folder import RankFolder
from dpeer.peer.rounds import mix_received, sit_out, train_and_release
from dpeer.simulation.virtual_time import Job

_TRAINING, _MIXING, _SAVING = 0.9, 0.1, 0.05


class RoundCosts:
    """Has training and mixing last a round together, while the round before is saved in a twentieth of one.

    All else takes no time: it is little beside training, and who asks what a fault costs wants to count in rounds. Nor
    does a round that the peer sits out.

    Args:
        seconds: How long a round lasts.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._trained = False

    def before(self, job: Job) -> float:
        """See `Costs`."""
        if job in (train_and_release, sit_out):
            self._trained = job is train_and_release
            return _TRAINING * self._seconds if self._trained else 0.0
        if job is mix_received and self._trained:
            return _MIXING * self._seconds
        saves = getattr(job, "__func__", None) is RankFolder.save
        return _SAVING * self._seconds if saves else 0.0

    def after(self, job: Job) -> float:
        """See `Costs`."""
        return 0.0
