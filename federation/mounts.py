"""The mount of a file, from Linux's mountinfo."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

MOUNTINFO = Path("/proc/self/mountinfo")


@dataclass(frozen=True)
class Mount:
    """A mount: where it is, of which type of file system, and whether it can be written."""

    place: Path
    kind: str
    read_only: bool


def mount_of(path: Path) -> Mount | None:
    """The mount that a file lies on, links followed; None where it cannot be told (not on Linux)."""
    try:
        lines = MOUNTINFO.read_text(errors="surrogateescape").split("\n")
    except OSError:
        return None
    file = path.resolve()
    found = None
    for mount in filter(None, map(_mount, lines)):
        # Of two at one place the later lies above the earlier.
        if file.is_relative_to(mount.place) and (found is None or mount.place.is_relative_to(found.place)):
            found = mount
    return found


def _mount(line: str) -> Mount | None:
    """The mount of a line: its fifth word is the place, the sixth its options; after ` - ` follow type and device."""
    here, dash, system = line.partition(" - ")
    words, kinds = here.split(" "), system.split(" ")
    if not dash or len(words) < 6 or not kinds:
        return None
    place = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), words[4])
    options = {*words[5].split(","), *(kinds[2].split(",") if len(kinds) > 2 else [])}
    return Mount(Path(place), kinds[0], "ro" in options)
