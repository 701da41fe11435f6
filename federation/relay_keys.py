"""Keys that a relay lets in, read from federation files; two keys are joined only if one file has both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dpeer.exceptions import ConfigurationError
from dpeer.federation.keys import keys_of
from dpeer.peer.relay.server import Listed
from dpeer.toml_text import read_toml


def listed_keys(files: Sequence[Path]) -> dict[bytes, Listed]:
    """The keys of all files, of which nothing but `rank.N.key` is read.

    Raises:
        ConfigurationError: a file cannot be read or lists no key, or two ranks have one key; names them.
    """
    found: dict[bytes, Listed] = {}
    for file in files:
        ranks = read_toml(file, "--keys").get("rank")
        tables = ranks.items() if isinstance(ranks, dict) else ()
        keys = {rank: own["key"] for rank, own in tables if isinstance(own, dict) and "key" in own}
        if not keys:
            raise ConfigurationError(
                f"--keys {str(file)!r}: it lists no keys: expected a federation file, or lines such as rank.0.key = "
                '"…", as `dpeer keygen` prints them'
            )
        for rank, given in keys.items():
            name = f"rank {rank}" if len(files) == 1 else f"{file.name} rank {rank}"
            for key in keys_of(rank, given):
                if key in found:
                    raise ConfigurationError(
                        f"--keys {str(file)!r}: rank.{rank}.key is {found[key].name}'s, too: each rank has keys of its "
                        "own (dpeer keygen)"
                    )
                found[key] = Listed(str(file), name)
    return found


class WatchedKeys:
    """Key files that are read again when they change.

    Args:
        files: The files.

    Attributes:
        listed: Their keys, as last read without an error.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._seen = self._look()
        self.listed = listed_keys(files)

    def changed(self) -> bool:
        """Read the files again if one has changed; returns whether `listed` is another.

        Raises:
            ConfigurationError: a changed file cannot be used; `listed` stays, and the error comes once.
        """
        seen = self._look()
        if seen == self._seen:
            return False
        self._seen = seen
        before, self.listed = self.listed, listed_keys(self._files)
        return self.listed != before

    def _look(self) -> list[tuple[int, int, int] | None]:
        found: list[tuple[int, int, int] | None] = []
        for file in self._files:
            try:
                stat = file.stat()
                found.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
            except OSError:
                found.append(None)
        return found
