"""`dpeer relay`: runs a relay, which joins connections of peers that no other host can dial."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import click

from dpeer.cli.terminal import Terminal, ended_at_once
from dpeer.exceptions import ConfigurationError
from dpeer.federation.addresses import relay_listen_address
from dpeer.federation.keys import listed_keys
from dpeer.federation.stop_signals import stop_signals
from dpeer.peer.relay.server import CONNECTIONS, Listed, Relay
from dpeer.results.units import read_rate, size

_LOOK = 5.0
"""Seconds between two looks at the files of keys."""


@click.command(short_help="Join peers that can only dial out.")
@click.option(
    "--listen", required=True, metavar="ADDRESS", help="Where peers reach it: tcp://HOST:PORT, or tcp://*:PORT."
)
@click.option(
    "--keys", "files", required=True, multiple=True, type=click.Path(path_type=Path), metavar="FILE",
    help="A federation file, or one with its lines rank.N.key alone; once for each federation.",
)  # fmt: skip
@click.option("--rate", default="1Gbit", metavar="RATE", help="The most that one key may send.")
@click.option(
    "--connections", default=CONNECTIONS, metavar="N", type=click.IntRange(min=1),
    help="The most calls of one key at once: one for each neighbor behind this relay.",
)  # fmt: skip
def relay(listen: str, files: Sequence[Path], rate: str, connections: int) -> None:
    """Join the outgoing connections of listed keys, so that peers meet of which no one can be dialled.

    The ranks that are reached here have `address = "relay://HOST:PORT"` in every peer's federation file. The relay
    copies bytes that it cannot read: peers encrypt them for each other. It keeps nothing, and needs no secret. Files of
    keys are read again when they change. Ctrl-C ends it; peers try again until it is back.

    \b
    Examples:
      dpeer relay --listen tcp://*:7790 --keys dpeer.toml
      dpeer relay --listen tcp://*:443 --keys one.toml --keys other.toml --rate 100Mbit
    """  # noqa: D301 - \b is click's
    host, port = relay_listen_address(listen)
    bits = read_rate("--rate", rate)
    if bits < 80_000:
        raise ConfigurationError(f"--rate {rate!r}: a relay needs 80 kbit/s or more for each key")
    listed = listed_keys(files)
    with Terminal() as terminal, ended_at_once():
        asyncio.run(_serve(terminal, host, port, files, listed, bits / 8, connections))


async def _serve(
    terminal: Terminal, host: str, port: int, files: Sequence[Path], listed: dict[bytes, Listed], rate: float,
    connections: int,
) -> None:  # fmt: skip
    asked = asyncio.Event()
    for number in stop_signals():
        asyncio.get_running_loop().add_signal_handler(number, asked.set)

    def say(line: str) -> None:
        terminal.offer(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S%z} {line}")  # its only log

    own = Relay(listed, say, rate, connections)
    bound, port = own.listen(host, port)
    terminal.say(f"dpeer relay: listening at {bound}, port {port}, for {_count(len(listed), 'key')}; Ctrl-C ends it")
    serving = {asyncio.create_task(own.run()), asyncio.create_task(_reread(own, files, say))}
    stopping = asyncio.create_task(asked.wait())
    done, _ = await asyncio.wait({*serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    for task in {*serving, stopping}:
        task.cancel()
    await asyncio.gather(*serving, return_exceptions=True)
    for task in done - {stopping}:
        task.result()
    terminal.say(
        f"dpeer relay: ended after {_count(own.joined, 'joined connection')}, which carried {size(own.carried)}; "
        f"{own.refused} refused"
    )


async def _reread(own: Relay, files: Sequence[Path], say: Callable[[str], None]) -> None:
    wrong = ""
    while True:
        await asyncio.sleep(_LOOK)
        try:
            listed = await asyncio.to_thread(listed_keys, files)
        except ConfigurationError as error:
            if str(error) != wrong:  # it comes once
                say(f"WARNING: the keys stay as they were: {error}")
            wrong = str(error)
            continue
        wrong = ""
        if listed != own.listed:
            own.relist(listed)
            say(f"keys were read again: {_count(len(listed), 'key')}")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
