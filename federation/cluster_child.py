"""A child process of `dpeer cluster`: one peer, as of `dpeer start`, with addresses from the launcher."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpeer.exceptions import ConfigurationError, DpeerError
from dpeer.federation.child_messages import Channel
from dpeer.federation.settings import Settings
from dpeer.federation.stop_signals import STOP_SIGNALS, answering
from dpeer.results.files import rank_folder

if TYPE_CHECKING:
    from dpeer.federation.serving import Stopper
    from dpeer.peer.transports import Keyring


_is_peer = False
"""Whether this process is a peer that a launcher has started."""


def check_not_a_peer() -> None:
    """Refuse to start a federation in a process of another: it would start peers without end.

    Raises:
        ConfigurationError: This process is a peer.
    """
    if _is_peer:
        raise ConfigurationError(
            "dpeer.run was called while a peer imported the script that starts it: put the call below "
            "`if __name__ == '__main__':`"
        )


def main(
    values: dict[str, Any],
    rank: int,
    resume: bool,
    end: socket.socket,
    environment: Mapping[str, str],
    home: str,
    keyring: Keyring | None,
    listen: str,
) -> None:
    """Run one rank; exits with the code that `dpeer start` would.

    Args:
        values: The fields of `Settings` that were set, as this rank uses them.
        rank: Which peer.
        resume: Continue from the checkpoint.
        end: Of the pair of sockets whose other end the launcher has.
        environment: The launcher's environment variables, as they are now.
        home: The launcher's current folder.
        keyring: As that of `serve`.
        listen: As that of `serve`.
    """
    global _is_peer
    _is_peer = True
    answering()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(home)
    # Ctrl-C goes to the whole terminal, and a service manager's SIGTERM to the whole group; only the launcher answers
    # them, and tells its peers, so that all stop in the same round.
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    settings = Settings.model_validate(values)
    _redirect_output(rank_folder(settings.out, rank) / "output.txt")
    raise SystemExit(asyncio.run(_run(settings, rank, resume, end, keyring, listen)))


async def _run(
    settings: Settings,
    rank: int,
    resume: bool,
    end: socket.socket,
    keyring: Keyring | None,
    listen: str,
) -> int:
    from dpeer.federation.serving import Stopper, serve  # torch; the launcher, which imports this module, does without

    channel = Channel(end)
    stopper = Stopper(128 + signal.SIGTERM)
    met: asyncio.Future[Mapping[int, str]] = asyncio.get_running_loop().create_future()
    listening = asyncio.create_task(_listen(channel, met, stopper))

    async def meet(bound: str | None) -> Mapping[int, str]:
        channel.send({"kind": "listening", "address": bound})
        return await met

    try:
        outcome = await serve(
            settings,
            rank,
            listen=listen,
            meet=meet,
            stopper=stopper,
            resume=resume,
            keyring=keyring,
            report=channel.send,
        )
        channel.send({"kind": "end", "status": outcome.status if outcome else "stopped"})
    except DpeerError as error:
        channel.send({"kind": "error", "message": str(error), "traceback": traceback.format_exc()})
        return error.exit_code
    except Exception as error:
        message = f"{type(error).__name__}: {error}; see log.jsonl"
        channel.send({"kind": "error", "message": message, "traceback": traceback.format_exc()})
        return 1
    finally:
        await channel.sent()  # the launcher may have been stopped: it hears of the end when it goes on
        listening.cancel()
        channel.close()
    return 0


async def _listen(channel: Channel, met: asyncio.Future[Mapping[int, str]], stopper: Stopper) -> None:
    while (message := await channel.receive()) is not None and message["kind"] != "stop":
        if not met.done():
            met.set_result({int(rank): address for rank, address in message["addresses"].items()})
    stopper.stop()  # asked to, or the launcher is gone


def _redirect_output(path: Path) -> None:
    """What the user's task prints goes to a file, not into the launcher's table."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
