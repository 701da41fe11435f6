"""Whether IPv6 can be tried here: a container may have the protocol and no address."""

import socket
from contextlib import suppress


def has_ipv6() -> bool:
    """Whether sockets can be of both protocols, and loopback has an address of IPv6."""
    with suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return socket.has_dualstack_ipv6()
    return False
