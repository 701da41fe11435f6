"""Keys of a relay that change while it runs."""

import asyncio
from itertools import zip_longest
from pathlib import Path

import pytest

from dpeer.cli import relay as command
from dpeer.federation.keys import listed_keys
from dpeer.peer.relay.server import Relay


async def test_keys_are_read_again_when_they_change_and_a_wrong_file_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_LOOK", 0.001)
    said: list[str] = []

    async def becomes(text: str, *lines: str) -> None:
        """Replace the file as a whole; wait until so many lines of the log begin like these."""
        new = tmp_path / "new"
        new.write_text(text)
        new.rename(files[0])
        async with asyncio.timeout(60):
            while not all(one.startswith(line) for one, line in zip_longest(said, lines, fillvalue="")):  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    files = [tmp_path / "keys.toml"]
    first, both = f'rank.0.key = "{"ab" * 32}"\n', f'rank.0.key = "{"ab" * 32}"\nrank.1.key = "{"cd" * 32}"\n'
    files[0].write_text(first)
    own = Relay(listed_keys(files), said.append)
    reading = asyncio.create_task(command._reread(own, files, said.append))
    read, wrong = (
        "keys were read again: ",
        f"WARNING: the keys stay as they were: --keys '{files[0]}': it lists no keys",
    )
    await becomes(both, read + "2 keys")
    await becomes("", read, wrong)
    await becomes(first, read, wrong, read + "1 key")
    assert [*own.listed] == [bytes.fromhex("ab" * 32)]
    reading.cancel()
