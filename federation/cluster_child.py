"""A child process of `dpeer cluster`: one peer, as of `dpeer start`, with addresses from the launcher.

It tells the launcher what happens, a JSON object a line. From there it reads one line, once all peers listen, and the
end of the file, by which it is asked to stop, or the launcher is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpeer.exceptions import ConfigurationError, DpeerError
from dpeer.federation.settings import Settings
from dpeer.federation.stop_signals import STOP_SIGNALS, answering
from dpeer.results.files import rank_folder

if TYPE_CHECKING:
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
    places: Mapping[int, str],
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
        places: The addresses of all peers by rank, this one's included.
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
    raise SystemExit(asyncio.run(_run(settings, rank, resume, end, keyring, places)))


async def _run(
    settings: Settings,
    rank: int,
    resume: bool,
    end: socket.socket,
    keyring: Keyring | None,
    places: Mapping[int, str],
) -> int:
    from dpeer.federation.serving import Stopper, serve  # torch; the launcher, which imports this module, does without

    launcher, writer = await asyncio.open_unix_connection(sock=end)
    stopper, may_begin = Stopper(128 + signal.SIGTERM), asyncio.Event()

    def tell(message: Mapping[str, Any]) -> None:
        if not writer.is_closing():  # the launcher is gone
            writer.write(json.dumps(message).encode() + b"\n")

    async def hear() -> None:
        with contextlib.suppress(OSError):  # the launcher was killed
            await launcher.readline()
            may_begin.set()
            await launcher.read()
        may_begin.set()
        stopper.stop()

    async def meet(bound: str | None) -> Mapping[int, str] | None:
        tell({"kind": "listening"})
        await may_begin.wait()
        return None if stopper.requested.is_set() else places

    hearing = asyncio.create_task(hear())
    try:
        outcome = await serve(
            settings,
            rank,
            listen=places[rank],
            meet=meet,
            stopper=stopper,
            resume=resume,
            keyring=keyring,
            report=tell,
        )
        tell({"kind": "end", "status": outcome.status if outcome else "stopped"})
    except DpeerError as error:
        tell({"kind": "error", "message": str(error), "traceback": traceback.format_exc()})
        return error.exit_code
    except Exception as error:
        message = f"{type(error).__name__}: {error}; see log.jsonl"
        tell({"kind": "error", "message": message, "traceback": traceback.format_exc()})
        return 1
    finally:
        hearing.cancel()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()  # the launcher may have been stopped: it hears of the end when it goes on
    return 0


def _redirect_output(path: Path) -> None:
    """What the user's task prints goes to a file, not into the launcher's table."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
