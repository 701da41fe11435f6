"""Error messages of peer/."""

import contextlib
import json
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from dpeer.exceptions import AddressError, CheckpointError, ProtocolError
from dpeer.peer import Limits, Network, PeerConfig, ZeroMQTransport, checkpoint, restored
from dpeer.peer.core import wire
from dpeer.peer.core.bodies import Outbox
from dpeer.peer.core.round_clock import RoundClock
from dpeer.peer.peer import dialled
from dpeer.peer.rank_folder import RankFolder
from dpeer.peer.transports import Keyring, TransportOptions, make_transport
from dpeer.peer.transports.curve import new_secret, public_of
from dpeer.peer.transports.hosts import split
from tests.messages.message import Message

OURS = {"size": 2, "rounds": 4, "body_lr": 0.1}


class Silent:
    """A learner that has nothing to save."""

    best_round = None

    def start_over(self) -> None: ...

    def copied(self) -> Callable[[Path], None]:
        return lambda directory: None

    def load(self, directory: Path) -> None: ...


def files(folder: Path, *, resume: bool = False, names: dict[str, Any] | None = None, **fingerprint: Any) -> RankFolder:
    config = PeerConfig(
        0, fingerprint.get("rounds", 4), None, OURS | fingerprint, out=folder, resume=resume, names=names or {}
    )
    return RankFolder(config, Silent(), Outbox(), {}, {})


def earlier(folder: Path, completed: int = 1, **fingerprint: Any) -> Path:
    """Complete some rounds of an earlier run; gives its checkpoint."""
    run = files(folder, **fingerprint)
    run.take_up()
    run.begin()
    for number in range(completed):
        run.complete({"round": number})
        run.save()
    run.save(now=True)
    found = checkpoint.latest(folder / "checkpoint")
    assert found is not None
    return found


def resumed(before: dict[str, Any], completed: int = 1, names: dict[str, Any] | None = None, **now: Any) -> Any:
    """A cause: a run of other settings is resumed."""

    def cause(folder: Path) -> None:
        earlier(folder, completed, **before)
        files(folder, resume=True, names=names, **now).take_up()

    return cause


def damaged(change: Callable[[Path], object]) -> Callable[[Path], None]:
    """A cause: a checkpoint is resumed after a change."""

    def cause(folder: Path) -> None:
        change(earlier(folder))
        files(folder, resume=True).take_up()

    return cause


def changed(found: Path) -> None:
    state = json.loads((found / "state.json").read_text())
    (found / "state.json").write_text(json.dumps(state | {"extra": {}}))


def with_a_damaged_note(folder: Path) -> None:
    (folder / "restored.json").write_text('{"completed": 3}')
    restored.read(folder)


def lost(found: Path) -> None:
    found.rename(found.parent.parent / "elsewhere")
    (found.parent.parent / "metrics.jsonl").write_text('{"round": 0}\n{"round": 1}\n')


@contextlib.contextmanager
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def listens(address: str, **options: Any) -> Callable[[Path], Awaitable[None]]:
    """A cause: a transport listens at an address, in which {taken} is a port in use."""

    async def cause(folder: Path) -> None:
        transport = ZeroMQTransport(Limits(), **options)
        try:
            with taken() as port:
                await transport.listen(address.replace("TAKEN", str(port)))
        finally:
            await transport.close(0)

    return cause


async def twice_in_process(folder: Path) -> None:
    network = Network()
    for _ in range(2):
        await network.transport().listen("inproc://here")


async def dials_a_stranger(folder: Path) -> None:
    transport = ZeroMQTransport(Limits(), keyring=ring())
    try:
        transport.dial("tcp://127.0.0.1:7700", 5)
    finally:
        await transport.close(0)


def ring() -> Keyring:
    secret = new_secret()
    return Keyring(secret, {0: (public_of(secret),)})


def table(rounds: bytes) -> Callable[[Path], object]:
    return lambda folder: RoundClock(0, 3, 9).merge(rounds)


OTHER_RUN = (
    "checkpoint '{folder}/checkpoint/round-00000000' is of another run: %s; use the same settings, or start over with "
    "--overwrite"
)
DAMAGED = "checkpoint '{folder}/checkpoint/round-00000000' is damaged: "

MESSAGES = {
    "an unknown scheme": Message(
        lambda folder: make_transport("owl://loft", TransportOptions(Limits())), AddressError,
        "address 'owl://loft': expected one of inproc://, ipc://, …tcp://",
    ),
    "no port": Message(
        lambda folder: split("tcp://host"), AddressError,
        "address 'tcp://host' cannot be dialled: expected tcp://HOST:PORT or ipc:///PATH",
    ),
    "a port beyond the last": Message(
        lambda folder: split("tcp://host:70000"), AddressError,
        "address 'tcp://host:70000' cannot be dialled: expected tcp://HOST:PORT or ipc:///PATH",
    ),
    "an address of another host": Message(
        listens("tcp://192.0.2.1:7700"), AddressError,  # kept for documentation, so no host's
        "address 'tcp://192.0.2.1:7700' is not one of this host's: start this rank on the host that has it; if others "
        "reach this host by it all the same, through a router, set `bind` to the address to listen at here, such as "
        "tcp://0.0.0.0:7700",
    ),
    "a port in use": Message(
        listens("tcp://127.0.0.1:TAKEN"), AddressError,
        "address 'tcp://127.0.0.1:…' is in use: stop what listens there or choose another port",
    ),
    "an address of the process in use": Message(
        twice_in_process, AddressError, "address 'inproc://here' is in use: give each peer its own"
    ),
    "a rank without a key": Message(
        dials_a_stranger, ValueError, "identity 5: with keys, only ranks whose key is listed can be dialled"
    ),
    "neighbors without addresses": Message(
        lambda folder: dialled(3, (1, 2), {1: "tcp://host:1"}), AddressError,
        "ranks 2 and 3 are neighbors and neither has an address: give one of them `address` in the federation file "
        "(relay://HOST:PORT where none can be dialled)",
    ),
    "another setting": Message(
        resumed({"body_lr": 0.2}), CheckpointError, OTHER_RUN % "body_lr is 0.2 there and 0.1 here"
    ),
    "a setting that the run lacks": Message(
        resumed({"algorithm's source": "abc"}), CheckpointError,
        OTHER_RUN % "algorithm's source is 'abc' there and not set here",
    ),
    "another schema": Message(
        resumed({"schema": {"h1": "x"}}, schema={"h1": "y"}, names={"schema": {"h1": "age"}}), CheckpointError,
        OTHER_RUN % "schema: 'age' is not defined alike here and at the checkpoint",
    ),
    "fewer rounds": Message(
        resumed({}, 3, rounds=2), CheckpointError,
        "checkpoint '{folder}/checkpoint/round-00000002' has completed 3 rounds, more than --rounds 2",
    ),
    "no checkpoint": Message(
        damaged(lost), CheckpointError,
        "'{folder}/metrics.jsonl' has completed rounds but no checkpoint exists: restore '{folder}/checkpoint', or "
        "start over with --overwrite",
    ),
    "a changed state": Message(
        damaged(changed), CheckpointError,
        DAMAGED + "state.json is not what was written; restore the folder, or start over with --overwrite",
    ),
    "a state that is no JSON": Message(
        damaged(lambda found: (found / "state.json").write_text("{")), CheckpointError,
        DAMAGED + "JSONDecodeError: …; restore the folder, or start over with --overwrite",
    ),
    "a damaged note of a restored folder": Message(
        with_a_damaged_note, CheckpointError,
        "'{folder}/restored.json' is damaged: what was released since the backup cannot be counted; restore the backup "
        "again",
    ),
    "a table of another size": Message(table(bytes(8)), ProtocolError, "malformed: presence of 8 bytes, expected 12"),
    "a table with more rounds": Message(
        table(b"\x0a\0\0\0" * 3), ProtocolError, "malformed: presence: 10 rounds of 9"
    ),
    "a chunk beyond the limits": Message(
        lambda folder: wire.decode(wire.chunk(b"t" * 8, 0, [b"x" * 9]), wire.Limits(payload_bytes=8)), ProtocolError,
        "oversized: a chunk of 9 bytes, at most 8",
    ),
}  # fmt: skip
