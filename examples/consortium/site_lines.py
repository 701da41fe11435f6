"""Emulated lines between sites and relay: network namespaces and `tc` where they can be had, else a proxy a site.

In namespaces a site sees nothing but the relay's host: ports of the bridge are isolated from each other, so it can only
dial out. `tc` limits the rate (tbf) and delays (netem). Where the kernel has no netem, each site's `shaper.py` delays.
Without root, or without `ip`, each site has a shaper on loopback, which limits the rate, too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

SHAPER = Path(__file__).with_name("shaper.py")
PORT = 7790
"""Of the relay, and of each site's shaper in its namespace."""

_NETWORK = "10.77.0"


class Lines(Protocol):
    """The sites' lines, once they are open.

    Attributes:
        kind: What they are made of, for the timeline.
    """

    kind: str

    def relay(self) -> tuple[list[str], str]:
        """What stands in front of the relay's command, and HOST:PORT at which it listens."""

    def site(self, site: int) -> tuple[list[str], str]:
        """What stands in front of a site's commands, and HOST:PORT at which it dials the relay."""

    def cut(self, site: int) -> None:
        """Let nothing through."""

    def heal(self, site: int) -> None:
        """Let everything through again."""

    def close(self) -> None:
        """Remove everything."""


def call(*words: object) -> None:
    """Run a command of the system.

    Raises:
        RuntimeError: it failed; has its message.
    """
    ended = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: {ended.stderr.strip() or ended.returncode}")


def why_no_namespaces() -> str | None:
    """What is missing for network namespaces; None if nothing is."""
    if sys.platform != "linux":
        return "no Linux"
    if os.geteuid():
        return "not root"
    if missing := [name for name in ("ip", "tc", "bridge") if shutil.which(name) is None]:
        return f"no {', '.join(missing)} (iproute2)"
    try:
        call("ip", "netns", "add", "dpeer-probe")
    except RuntimeError as error:
        return str(error)
    call("ip", "netns", "delete", "dpeer-probe")
    return None


class _Shapers:
    """The processes of shapers, by site."""

    def __init__(self) -> None:
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, site: int, before: Sequence[str], listen: str, to: str, delay: float, rate: float) -> None:
        words = (SHAPER, "--listen", listen, "--to", to, "--delay", delay, "--rate", rate)
        self._running[site] = subprocess.Popen([*before, sys.executable, *map(str, words)])

    def signal(self, site: int, number: signal.Signals) -> None:
        self._running[site].send_signal(number)

    def close(self) -> None:
        for one in self._running.values():
            one.kill()
            one.wait()


class Namespaces:
    """A namespace for the relay and its bridge, and one for each site.

    Args:
        sites: How many there may be.
        delay: Seconds each way.
        rate: Bits a second each way.
    """

    def __init__(self, sites: int, delay: float, rate: float) -> None:
        self._name = f"dpeer{os.getpid()}"
        self._made: list[str] = []
        self._shapers = _Shapers()
        self.kind = f"network namespaces, tbf {rate / 1e6:g} Mbit/s, "
        try:
            self._add("relay")
            self._in("relay", "ip", "link", "set", "lo", "up")
            self._in("relay", "ip", "link", "add", "wan", "type", "bridge")
            self._in("relay", "ip", "address", "add", f"{_NETWORK}.254/24", "dev", "wan")
            self._in("relay", "ip", "link", "set", "wan", "up")
            self._netem = False
            for site in range(sites):
                self._connect(site, delay, rate)
        except BaseException:
            self.close()
            raise
        self.kind += f"{'netem' if self._netem else 'user space'} {1000 * delay:g} ms each way"
        if not self._netem:
            for site in range(sites):
                to = f"{_NETWORK}.254:{PORT}"
                self._shapers.start(site, self._before(site), f"127.0.0.1:{PORT}", to, delay, 1e12)

    def _connect(self, site: int, delay: float, rate: float) -> None:
        self._add(str(site))
        port = f"site{site}"
        self._in("relay", "ip", "link", "add", port, "type", "veth", "peer", "name", "wan0", "netns", self._ns(site))
        self._in("relay", "ip", "link", "set", port, "master", "wan", "up")
        self._in("relay", "bridge", "link", "set", "dev", port, "isolated", "on")
        self._in(site, "ip", "link", "set", "lo", "up")
        self._in(site, "ip", "address", "add", f"{_NETWORK}.{site + 1}/24", "dev", "wan0")
        self._in(site, "ip", "link", "set", "wan0", "up")
        for where, device in ((site, "wan0"), ("relay", port)):
            shaping = ("rate", f"{rate:.0f}bit", "burst", "32kbit", "latency", "400ms")
            self._in(where, "tc", "qdisc", "add", "dev", device, "root", "handle", "1:", "tbf", *shaping)
            with contextlib.suppress(RuntimeError):
                late = ("netem", "delay", f"{1000 * delay:g}ms", "limit", "10000")
                self._in(where, "tc", "qdisc", "add", "dev", device, "parent", "1:1", *late)
                self._netem = True

    def _ns(self, where: object) -> str:
        return f"{self._name}-{where}"

    def _add(self, where: str) -> None:
        call("ip", "netns", "add", self._ns(where))
        self._made.append(self._ns(where))

    def _before(self, where: object) -> list[str]:
        return ["ip", "netns", "exec", self._ns(where)]

    def _in(self, where: object, *words: object) -> None:
        call(*self._before(where), *words)

    def relay(self) -> tuple[list[str], str]:
        """In its own namespace, at the bridge's address."""
        return self._before("relay"), f"{_NETWORK}.254:{PORT}"

    def site(self, site: int) -> tuple[list[str], str]:
        """In its own namespace; at its shaper, where the kernel does not delay."""
        return self._before(site), f"{_NETWORK}.254:{PORT}" if self._netem else f"127.0.0.1:{PORT}"

    def cut(self, site: int) -> None:
        """Take the bridge's port down."""
        self._in("relay", "ip", "link", "set", f"site{site}", "down")

    def heal(self, site: int) -> None:
        """Take it up."""
        self._in("relay", "ip", "link", "set", f"site{site}", "up")

    def close(self) -> None:
        """Delete the namespaces, and their devices with them."""
        self._shapers.close()
        for name in self._made:
            with contextlib.suppress(RuntimeError):
                call("ip", "netns", "delete", name)
        self._made.clear()


class UserSpace:
    """A shaper on loopback for each site.

    Args:
        sites: How many there may be.
        delay: Seconds each way.
        rate: Bits a second each way.
    """

    def __init__(self, sites: int, delay: float, rate: float) -> None:
        self.kind = f"loopback, user space {rate / 1e6:g} Mbit/s, {1000 * delay:g} ms each way"
        self._relay, *self._ports = _free_ports(sites + 1)
        self._shapers = _Shapers()
        for site, port in enumerate(self._ports):
            self._shapers.start(site, (), f"127.0.0.1:{port}", f"127.0.0.1:{self._relay}", delay, rate)

    def relay(self) -> tuple[list[str], str]:
        """On loopback."""
        return [], f"127.0.0.1:{self._relay}"

    def site(self, site: int) -> tuple[list[str], str]:
        """At its shaper."""
        return [], f"127.0.0.1:{self._ports[site]}"

    def cut(self, site: int) -> None:
        """Stop its shaper."""
        self._shapers.signal(site, signal.SIGSTOP)

    def heal(self, site: int) -> None:
        """Let it go on."""
        self._shapers.signal(site, signal.SIGCONT)

    def close(self) -> None:
        """End the shapers."""
        self._shapers.close()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def listening(before: Sequence[str], place: str, within: float) -> bool:
    """Whether something listens at HOST:PORT before so many seconds are over, seen through what stands in front."""
    host, _, port = place.rpartition(":")
    probe = f"import socket; socket.create_connection(('{host}', {port}), 1).close()"
    end = time.monotonic() + within
    while time.monotonic() < end:
        if subprocess.run([*before, sys.executable, "-c", probe], capture_output=True, check=False).returncode == 0:
            return True
        time.sleep(0.2)
    return False
