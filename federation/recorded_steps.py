"""Recorded steps (`--steps-from`): reads each round's local steps of an earlier run, whose bits a new run repeats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from dpeer.exceptions import ConfigurationError
from dpeer.results.files import METRICS, rank_folder
from dpeer.results.json_fields import wholes
from dpeer.results.reading import read_entries


def recorded_steps(
    run: Path, rank: int, rounds: int, takes_part: Callable[[int], bool]
) -> tuple[Mapping[int, tuple[int, ...]], list[str]]:
    """The steps that one peer of a run has recorded.

    Args:
        run: The run folder.
        rank: The peer.
        rounds: How many rounds are to be repeated.
        takes_part: Whether the peer trains in a round.

    Returns:
        By round, the steps of each phase of training; and a line for the user where the bits cannot all be the same.

    Raises:
        ConfigurationError: The peer has recorded none, or fewer rounds.
    """
    folder = rank_folder(run, rank)
    entries = {entry["round"]: entry for entry in read_entries(folder)}
    found = {number: wholes(entry.get("steps")) or () for number, entry in entries.items()}
    if not any(found.values()):
        raise ConfigurationError(
            f"--steps-from {run}: {str(folder / METRICS)!r} has no steps of rank {rank}: name the folder of a run "
            "that is there, with as many peers"
        )
    lacking = next((number for number in range(rounds) if number not in entries), None)
    if lacking is not None:
        raise ConfigurationError(
            f"--steps-from {run}: rank {rank} has not recorded round {lacking + 1}, and --rounds is {rounds}: give no "
            "more rounds than it has recorded"
        )
    other = [number for number in range(rounds) if entries[number].get("missed")]
    other += [number for number in range(rounds) if takes_part(number) and not found[number]]
    note = f"--steps-from {run}: in round {min(other, default=0) + 1} rank {rank} missed bodies or sat out, which is "
    notes = [note + "not repeated: from then on the bits are others"] if other else []
    return {number: steps for number, steps in found.items() if steps}, notes
