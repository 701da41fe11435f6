"""Checking that peers that read files of their own read different files, and others the same."""

from __future__ import annotations

from dpeer.federation.settings import Settings


def check_own_data(settings: Settings) -> None:
    """Refuse one file for several peers that should each have their own, or several for all, before anything is read.

    Raises:
        ConfigurationError: Names the ranks and what would be right.
    """
    if "path" not in settings.task_options and not settings.rank and settings.partition != "own":
        return
    from dpeer.training.tasks.own_data import check_own_data as check  # torch: only where it can matter

    own = [settings.of_rank(rank) for rank in range(settings.size)]
    check([(peer.task, peer.task_options) for peer in own], settings.partition)
