"""Status client: peers of run folders on this host, and peers that are asked over HTTP where they `serve`."""

from __future__ import annotations

import http.client
import io
import json
import re
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast

from dpeer.exceptions import AddressError, ConfigurationError, DpeerError
from dpeer.federation.control_client import TIMEOUT, Place, look, ranks_of
from dpeer.federation.repeated_look import Look
from dpeer.federation.serve_address import ServeAddress
from dpeer.federation.status_document import Document, document, running_peer
from dpeer.ipv4 import check_host
from dpeer.results.files import finite

Target: TypeAlias = Path | ServeAddress
"""A run folder, a rank's folder, or where a peer serves its status."""

LONGEST = 2**23
"""Bytes of a status document with its head, at most."""

_MOST_PEERS, _MOST_NEIGHBORS = 2**9, 2**14
"""Of a status document, at most: peers, and neighbors of all of them."""

_AT_ONCE = 16
_ADDRESS = re.compile(r"(?:http://)?(?P<host>\[[0-9a-fA-F:.]+\]|[\w.-]+):(?P<port>[0-9]{1,5})/?")


def read_target(text: str) -> Target:
    """What an argument such as "dpeer-run" or "10.0.0.3:7780" names; a folder of that name counts first.

    Raises:
        AddressError: It is an address whose host is none.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match["port"]) < 65536 or Path(text).exists():
        return Path(text)
    try:
        check_host(match["host"])
    except ValueError as error:
        raise AddressError(f"{text!r}: {error}") from error
    return ServeAddress(match["host"].strip("[]"), int(match["port"]))


def asked_at(file: Path) -> dict[int, ServeAddress | str]:
    """By rank, where a federation file says that its status is served, or why it cannot be asked.

    A rank that serves at all addresses of its host (`*:PORT`) is asked at the host of its `address`.

    Raises:
        ConfigurationError: The file cannot be read, or no rank of it serves its status.
    """
    from dpeer.federation.addresses import host_of
    from dpeer.federation.config import load
    from dpeer.federation.serve_address import read_serve

    settings = load(file, {})
    found: dict[int, ServeAddress | str] = {}
    for rank in sorted({*range(settings.size), *settings.rank}):
        text = settings.of_rank(rank, joins=rank >= settings.size).serve
        if text is None:
            found[rank] = "cannot be asked: its `serve` is not in the federation file"
            continue
        at = read_serve(text)
        host = host_of(settings, rank) if at.everywhere else at.host
        if at.port == 0:
            found[rank] = f"cannot be asked: `serve` = {text!r} is a free port, which only its log names"
        elif host is None:
            found[rank] = f"cannot be asked: `serve` = {text!r} names no host, and its `address` none either"
        else:
            found[rank] = ServeAddress(host, at.port)
    if not any(isinstance(at, ServeAddress) for at in found.values()):
        raise ConfigurationError(
            f'no rank of {str(file)!r} serves its status where it can be asked: add serve = "HOST:PORT" to [rank.N] '
            "there, and start its peer with it"
        )
    return found


def look_at(targets: Iterable[Target], *, history: bool = False) -> list[Place]:
    """The peers in some folders and at some addresses, in this order.

    Args:
        targets: Folders and addresses.
        history: Whether answers have the peers' last rounds, as "history".

    Raises:
        ConfigurationError: A folder holds no run.
    """
    found = list(targets)
    with ThreadPoolExecutor(_AT_ONCE) as threads:  # one that hangs holds up no other
        return [one for places in threads.map(partial(_look, history=history), found) for one in places]


def look_in_file(file: Path, *, history: bool = False) -> list[Place]:
    """The peers of a federation, asked where its file says that they serve their status, by rank.

    Raises:
        ConfigurationError: As `asked_at`.
    """
    where = asked_at(file)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(partial(_rank, history=history), where.items()))


def looks_at(targets: Iterable[Target]) -> dict[str, Look]:
    """A look at each peer in some folders and at some addresses, with its last rounds, in this order.

    Raises:
        ConfigurationError: A folder holds no run.
    """
    found: dict[str, Look] = {}
    for target in targets:
        if isinstance(target, Path):
            found |= {str(folder): partial(look, folder, history=True) for folder in ranks_of(target)}
        else:
            found[str(target)] = partial(_ask, target, history=True)
    return found


def looks_in_file(file: Path) -> dict[str, Look]:
    """A look at each rank of a federation where its file says that it serves its status, with its last rounds.

    Raises:
        ConfigurationError: As `asked_at`.
    """

    def at(item: tuple[int, ServeAddress | str]) -> list[Place]:
        return [_rank(item, history=True)]

    return {f"rank-{item[0]}": partial(at, item) for item in asked_at(file).items()}


def as_document(places: Sequence[Place]) -> Document:
    """The status document of peers that were looked at, with histories where the answers have them."""
    return document(_peer(one) for one in places)


def _peer(place: Place) -> dict[str, Any]:
    if place.answer is None:
        return {**place.as_json(), "folder": place.name, "unready": place.state}
    answer = dict(place.answer)
    history, age = answer.pop("history", []), answer.pop("age_seconds", 0.0)
    return running_peer(place.name, answer, history, age=age)


def _look(target: Target, *, history: bool) -> list[Place]:
    return look(target, history=history) if isinstance(target, Path) else _ask(target, history=history)


def _rank(item: tuple[int, ServeAddress | str], *, history: bool) -> Place:
    rank, at = item
    name = Path(f"rank-{rank}")
    if isinstance(at, str):
        return Place(name, None, at)
    found = _ask(at, history=history)
    for one in found:
        if one.answer is not None and one.answer["rank"] == rank:
            return one
    answering = [one.answer["rank"] for one in found if one.answer is not None]
    state = f"does not answer at {at}: rank {answering[0]} does" if answering else found[0].state
    return Place(name, None, state, address=str(at))


def _ask(address: ServeAddress, *, history: bool) -> list[Place]:
    """The peers that an address answers for: one, or those of a dashboard; one without an answer where none does."""
    try:
        raw = _get(address)
    except (OSError, ValueError, http.client.InvalidURL) as error:
        why = "no answer in time" if isinstance(error, TimeoutError) else getattr(error, "strerror", None) or error
        return [Place(Path(str(address)), None, f"cannot be asked: {why}", address=str(address))]
    peers = raw.get("peers") if isinstance(raw, Mapping) else None
    try:
        if not isinstance(peers, list) or not peers:
            raise DpeerError("answers no status of a peer")
        if len(peers) > _MOST_PEERS:
            raise DpeerError(f"answers no status of a peer: {len(peers)} peers, and at most {_MOST_PEERS} are read")
        found = [_place(address, one, history=history) for one in peers]
        neighbors = sum(len(one.answer["neighbors"]) for one in found if one.answer is not None)
        if neighbors > _MOST_NEIGHBORS:
            raise DpeerError(
                f"answers no status of a peer: {neighbors} neighbors, and at most {_MOST_NEIGHBORS} are read"
            )
        return found
    except DpeerError as error:
        return [Place(Path(str(address)), None, str(error), address=str(address))]


def _place(address: ServeAddress, raw: Any, *, history: bool) -> Place:
    """A peer of a status document from another host, checked.

    Raises:
        DpeerError: It is none.
    """
    from dpeer.federation.status_check import check_peer  # pydantic: a look at folders does without

    peer = check_peer(raw, history=history)
    if "state" not in peer:
        return Place(Path(f"rank-{peer['rank']}"), peer, address=str(address))
    return Place(
        Path(peer["folder"]),
        None,
        peer["state"],
        peer["completed"],
        peer["rounds"],
        peer["checkpoint_seconds"],
        address=str(address),
    )


def _get(address: ServeAddress) -> Any:
    """The JSON value that an address answers; none of the answer's own words are in an error.

    Raises:
        OSError: It does not answer, or not in time.
        ValueError: It answers no HTTP, no JSON, or too much.
    """
    until = time.monotonic() + TIMEOUT
    connection = http.client.HTTPConnection(address.host, address.port, timeout=TIMEOUT)
    try:
        connection.connect()
        # By its number: a peer that listens everywhere need not know all names of its host.
        host = ServeAddress(connection.sock.getpeername()[0].partition("%")[0], address.port)
        connection.request("GET", "/status.json", headers={"Accept": "application/json", "Host": str(host)})
        content = _read(_Answer(connection.sock, until, LONGEST))
    except http.client.RemoteDisconnected:  # an OSError with words of its own
        raise
    except http.client.HTTPException as error:
        raise ValueError("the answer is no HTTP") from error
    finally:
        connection.close()
    try:
        return finite(json.loads(content))
    except (ValueError, RecursionError) as error:
        raise ValueError("the answer is no status of a peer") from error


def _read(stream: _Answer) -> bytes:
    """The content of an HTTP answer; a redirection is not followed."""
    answer = http.client.HTTPResponse(cast(socket.socket, stream), method="GET")
    with answer:
        answer.begin()
        if answer.status != 200:
            raise ValueError(f"HTTP {answer.status}, and no status of a peer")
        content = bytearray()
        while part := answer.read1(2**16):  # at once, what a false Content-Length claims is allocated
            content += part
        return bytes(content)


class _Answer(io.RawIOBase):
    """What comes on a connection, heads included, until a time and up to a number of bytes.

    A server that sends a byte now and then, or one head after the other, is given up as a silent one is.
    """

    def __init__(self, connection: socket.socket, until: float, most: int) -> None:
        self._connection, self._until, self._left = connection, until, most

    def makefile(self, mode: str) -> io.BufferedReader:
        """The file that `http.client` reads from a socket."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        seconds = self._until - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        self._connection.settimeout(seconds)
        count = self._connection.recv_into(buffer)
        self._left -= count
        if self._left < 0:
            raise ValueError("the answer is too long for a status")
        return count
