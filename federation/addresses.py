"""The addresses at which peers listen and dial, from the federation file or the base port."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from contextlib import suppress
from pathlib import Path

from dpeer.exceptions import AddressError, AddressUnavailable, not_bound
from dpeer.federation.run_settings import NetworkPart
from dpeer.ipv4 import check_host
from dpeer.peer.transport import RELAY

_IPC = re.compile(r"ipc://(?P<path>/[^\x00\n]+)")
LONGEST_PATH = 103
"""The longest path of a Unix socket in bytes: macOS's limit (Linux has 107)."""
_LOCALHOST = re.compile(
    r"(localhost[46]?|localhost[46]?\.localdomain[46]?|ip6-localhost|ip6-loopback|.+\.localhost)\.?", re.IGNORECASE
)
"""Names that stand for loopback by convention, as Debian and Red Hat list them, and below RFC 6761's `localhost`."""
_PLACE = r"(?P<host>\[[0-9a-fA-F:.]+(?:%[\w.-]+)?\]|[^:/\s\[\]]+):(?P<port>\d{1,5})"
_TCP, _RELAY = re.compile(f"tcp://{_PLACE}"), re.compile(f"relay://{_PLACE}")


def addresses(network: NetworkPart, size: int) -> dict[int, str]:
    """Address by rank: from the federation file, or this host's ports when it names none.

    Raises:
        AddressError: an address is not tcp://HOST:PORT, relay://HOST:PORT or ipc:///PATH; names the rank.
    """
    if not from_file(network):
        if network.base_port + size - 1 > 65535:
            raise AddressError(
                f"--base-port {network.base_port}: {size} peers need ports up to "
                f"{network.base_port + size - 1}, the highest is 65535"
            )
        return {rank: f"tcp://127.0.0.1:{network.base_port + rank}" for rank in range(size)}
    given = {rank: own.address for rank, own in network.rank.items() if own.address is not None}
    owners: dict[str, int] = {}
    for rank, address in list(given.items()):
        if is_relay(address):
            _check_relay(network, rank, address)
            continue
        if not is_ipc(address, f"rank.{rank}.address"):
            host, port = _parse(address, f"rank.{rank}.address")
            address = given[rank] = f"tcp://{_unmapped(host)}:{port}" if _unmapped(host) != host else address
        if owners.setdefault(address, rank) != rank:
            raise AddressError(f"rank.{owners[address]} and rank.{rank} have the same address {address!r}")
    return given


def is_relay(address: str) -> bool:
    """Whether a rank with this address is reached through a relay."""
    return address.startswith(RELAY)


def _as_tcp(address: str) -> str:
    """The address, with that of a relay as a TCP address."""
    return address.replace(RELAY, "tcp://", 1) if is_relay(address) else address


def _check_relay(network: NetworkPart, rank: int, address: str) -> None:
    """Refuse a relay's address that is none, or that could not be used."""
    key, own = f"rank.{rank}.address", network.rank[rank]
    check_address(address, key)
    if all(one.key is None for one in network.rank.values()):
        raise AddressError(
            f"{key} = {address!r}: a relay joins those alone who prove a listed key: list the key of every rank in the "
            "federation file (dpeer keygen)"
        )
    if own.bind is not None:
        raise AddressError(
            f"rank.{rank}.bind = {own.bind!r}: a rank that is reached through a relay listens nowhere: leave `bind` out"
        )


def relay_listen_address(text: str) -> tuple[str, int]:
    """Host and port at which a relay listens; the host is an IP address of this host, or "*" for all."""
    match = _TCP.fullmatch(text if "://" in text else f"tcp://{text}")
    if not match or int(match["port"]) > 65535:
        raise AddressError(f"--listen {text!r}: expected tcp://HOST:PORT, for example tcp://*:7790")
    _check_host(match["host"], text, "--listen")
    return _bindable(_unmapped(match["host"]), "--listen", int(match["port"])).strip("[]"), int(match["port"])


def from_file(network: NetworkPart) -> bool:
    """Whether the federation file has the address of any rank."""
    return any(own.address is not None or own.bind is not None for own in network.rank.values())


def all_on_this_host(network: NetworkPart, size: int) -> bool:
    """Whether every address is a loopback one, so that all peers share this machine's cores."""
    return all(
        is_ipc(address, f"rank.{rank}") or _is_loopback(_parse(_as_tcp(address), f"rank.{rank}")[0])
        for rank, address in addresses(network, size).items()
    )


def unresolvable(address: str) -> str | None:
    """The address's host if no name server knows it (yet); None if it can be dialled."""
    if is_ipc(address, "address"):
        return None
    host, _ = _parse(_as_tcp(address), "address")
    try:
        socket.getaddrinfo(host.strip("[]"), None)
    except OSError:
        return host
    return None


def listen_address(network: NetworkPart, size: int, rank: int, *, encrypted: bool = False) -> str | None:
    """The address at which this rank listens; None if it only dials out.

    Raises:
        AddressError: the address cannot be used, or must not be without encryption.
    """
    own = network.rank.get(rank)
    address = own.bind if own and own.bind is not None else addresses(network, size).get(rank)
    if address is None:
        return None
    key = f"rank.{rank}.{'bind' if own and own.bind is not None else 'address'}"
    if is_relay(address) and key.endswith("address"):
        return address
    if is_ipc(address, key):
        _check_free(address, key)
        return address
    host, port = _parse(address, key)
    if not (encrypted or _is_loopback(host) or network.insecure):
        raise AddressError(
            f"rank {rank} would listen at {address!r} without encryption, open to every host that reaches it: list "
            "the key of every rank in the federation file (dpeer keygen), or use a loopback address (behind a VPN or "
            "SSH tunnel), or --insecure on a network you trust"
        )
    return f"tcp://{_bindable(_unmapped(host), key, port)}:{port}"


def is_ipc(address: str, key: str) -> bool:
    """Whether an address is a path on this host; one that is too long for a socket is refused."""
    match = _IPC.fullmatch(address)
    if match and len(os.fsencode(match["path"])) > LONGEST_PATH:
        raise AddressError(f"{key} = {address!r}: the path of a socket has at most {LONGEST_PATH} bytes")
    return match is not None


def check_address(address: str, key: str, *, keyed: bool = True) -> None:
    """Refuse an address that no peer could be dialled at; `key` names it, and a relay needs a keyed federation."""
    if is_relay(address):
        if not keyed:
            raise AddressError(f"{key} {address!r}: a relay needs the key of every rank")
        if not (match := _RELAY.fullmatch(address)) or not 1 <= int(match["port"]) <= 65535:
            example = "for example relay://relay.example:7790"
            raise AddressError(f"{key} = {address!r}: expected relay://HOST:PORT, {example}")
        _check_host(match["host"], address, key)
    elif not is_ipc(address, key):
        host, port = _parse(address, key)
        if host == "*" or port == 0:
            raise AddressError(f"{key} = {address!r}: expected a host and port to dial, such as tcp://10.0.0.3:7700")


def _check_free(address: str, key: str) -> None:
    """Refuse a path that exists, because binding would take it over from another peer or from a file of the user's."""
    path = Path(address.removeprefix("ipc://"))
    if not path.parent.is_dir():
        raise AddressError(f"{key} = {address!r}: no folder {str(path.parent)!r} exists; make it, for its peers alone")
    if not path.exists():
        return
    if not path.is_socket():
        raise AddressError(f"{key} = {address!r}: a file of that name exists; choose another one, or remove it")
    with socket.socket(socket.AF_UNIX) as knock, suppress(OSError):
        knock.connect(str(path))
        raise AddressUnavailable(f"{key} = {address!r} is in use: stop what listens there or choose another path")


def _parse(address: str, key: str) -> tuple[str, int]:
    match = _TCP.fullmatch(address)
    if not match or int(match["port"]) > 65535:
        raise AddressError(
            f"{key} = {address!r}: expected tcp://HOST:PORT, for example tcp://10.0.0.3:7700, or, where all its "
            "neighbors are on its host, ipc:///PATH"
        )
    _check_host(match["host"], address, key)
    return match["host"], int(match["port"])


def _check_host(host: str, address: str, key: str) -> None:
    """Refuse an address whose host the system would take for another one."""
    try:
        check_host(host)
    except ValueError as error:
        raise AddressError(f"{key} = {address!r}: {error}") from error


def _is_loopback(host: str) -> bool:
    if _LOCALHOST.fullmatch(host):
        return True
    try:
        found = ipaddress.ip_address(_unmapped(host).strip("[]"))
    except ValueError:
        return False
    return found.is_loopback


def _unmapped(host: str) -> str:
    """The IPv4 address for one written as IPv6 (::ffff:10.0.0.3), else the host as it is."""
    with suppress(ValueError):
        found = ipaddress.ip_address(host.strip("[]"))
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
    return host


def _bindable(host: str, key: str, port: int) -> str:
    """The host's IP address, IPv4 before IPv6: ZeroMQ binds addresses of interfaces, not names."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        if host == "*":
            return host
    else:
        return host
    try:
        found = [str(info[4][0]) for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError) as error:
        raise not_bound(f"host {host!r} cannot be resolved: {error}; use its IP address", error) from error
    local = _LOCALHOST.fullmatch(host) is not None
    usable = [one for one in found if _is_loopback(one) == local]
    if not usable and local:
        raise AddressError(f"{key}: host {host!r} is {found[0]} on this host, and no loopback address: use 127.0.0.1")
    if not usable:
        rank_key = key.rpartition(".")[0]
        raise AddressError(
            f"{key}: host {host!r} is {found[0]} on this host, where no other host reaches it: set "
            f'{rank_key}.bind = "tcp://*:{port}", or use the IP address of an interface'
        )
    first = min(usable, key=lambda one: ":" in one)
    return f"[{first}]" if ":" in first else first
