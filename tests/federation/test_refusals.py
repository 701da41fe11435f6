"""Settings that do not go together, and values that a federation cannot have."""

import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import AddressError, ConfigurationError
from dpeer.federation.addresses import addresses, listen_address, relay_listen_address
from dpeer.federation.build import build
from dpeer.federation.checks import check_hostile, check_settings
from dpeer.federation.config import from_flags, load, parse_option, resolve
from dpeer.federation.keys import listed_keys, public_keys
from dpeer.federation.new_federation import Site, plan, read_hosts
from dpeer.federation.settings import Settings
from dpeer.federation.starting import own_rank
from dpeer.topology.settings import build_graph
from tests.error_texts import refused

KEYS = ["ab" * 32, "cd" * 32, "ef" * 32]
RELAY = "relay://relay.test:7790"


@pytest.mark.parametrize(
    ("call", "own", "fragment"),
    [
        (addresses, {"address": "relay://relay.test"}, "rank.1.address = 'relay://relay.test': expected relay://"),
        (addresses, {"address": RELAY}, f"rank.1.address = '{RELAY}': a relay joins those alone who prove"),
        (addresses, {"address": RELAY, "key": KEYS[1], "bind": "tcp://*:7700"}, "rank.1.bind = 'tcp://*:7700'"),
        (listen_address, {"address": "10.0.0.3:7700"}, "rank.1.address = '10.0.0.3:7700': expected tcp://HOST:PORT"),
        (listen_address, {"address": "ipc:///" + "long" * 30}, "the path of a socket has at most 103 bytes"),
        (listen_address, {"address": "ipc:///no/such/folder/3"}, "no folder '/no/such/folder' exists"),
    ],
)
def test_an_address_that_cannot_be(call: Callable[..., object], own: dict[str, str], fragment: str) -> None:
    with refused(AddressError, fragment):
        call(Settings.model_validate({"size": 4, "rank": {1: own}}), 4, *([1] if call is listen_address else []))


def keys(*listed: Any, size: int = 3) -> None:
    """Read the keys that a federation lists."""
    ranks = {rank: {"key": key} for rank, key in enumerate(listed) if key is not None}
    public_keys(Settings.model_validate({"size": size, "rank": ranks}), range(size))


def hostile(**values: Any) -> None:
    check_hostile(settings := Settings(**values), build_graph(settings))


def checked(**values: Any) -> None:
    check_settings(resolve(Settings(**values), 0))


def sampled(**values: Any) -> None:
    server = {"topology": "full", "participation": 0.5, "participation_mode": "server", "size": 4}
    build(resolve(Settings(**server, **values), 0))


def private(**values: Any) -> None:
    _ = resolve(Settings(**values), 0).protected.guarantee


@pytest.mark.parametrize(
    ("call", "fragment"),
    [
        (lambda: relay_listen_address("7790"), "--listen '7790'"),
        (lambda: keys(KEYS[0], None, KEYS[2]), "rank 1 has no `key`, and others have one"),
        (lambda: keys(KEYS[0], KEYS[1], KEYS[0]), "is rank 0's, too"),
        (lambda: keys(KEYS[0], "ab", KEYS[2]), "rank.1.key = 'ab'"),
        (lambda: checked(quorum=4, size=8), "--quorum 4: expected 5 to 8 of 8 ranks"),
        (
            lambda: checked(round_seconds=2.5, privacy="sample"),
            "--round-seconds 2.5 with --privacy sample",
        ),
        (lambda: from_flags({"wait": "2 weeks"}), "--wait = '2 weeks'"),
        (lambda: Settings(preset="paper-cifr"), "unknown preset 'paper-cifr': did you mean 'paper-cifar'?"),
        (lambda: Settings(name="a" * 65), "expected 1 to 64 printable characters"),
        (lambda: parse_option("=5"), "--task-option '=5'"),
        (lambda: resolve(Settings(optimizer="adamw", preset="paper-cifar"), 0), "give --body-lr and --head-lr too"),
        (lambda: hostile(robust="trimmed-mean:2"), "rank 0 has 2 neighbors, of whom it withstands 1 at most"),
        (lambda: hostile(topology="star", robust="clip"), "--robust clip with star: rank 1 has 1 neighbor"),
        (lambda: hostile(topology="star", robust="median"), "rank 1 gives its own body the weight 0.875"),
        (lambda: hostile(topology="exponential-directed", robust="clip"), "--robust clip with exponential-directed"),
        (lambda: sampled(compress="int8"), "--participation-mode server with --compress int8"),
        (lambda: sampled(algorithm="dis-pfl"), "--participation-mode server: dis-pfl mixes in a way of its own"),
        (lambda: private(sparsify="top-k:0.4"), "--sparsify top-k:0.4 belongs to --privacy client"),
        (lambda: private(noise_multiplier=1.0), "--noise-multiplier 1.0 belongs to --privacy sample or"),
        (lambda: private(privacy="client", noise_multiplier=1.0, sparsify="top-k:4"), "--sparsify 'top-k:4'"),
        (lambda: plan({"size": 3}, HOSTS, Path("x"), operator=False), "--size 3: --hosts has 2 ranks"),
        (lambda: plan({}, [Site("tcp://a:1"), Site("tcp://a:1")], Path("x"), operator=False), "the same address"),
        (lambda: Settings(operators=[KEYS[0], "ab"], name="a"), "operators.1 = 'ab'"),
        (lambda: Settings(operators=[*KEYS, KEYS[0]], name="a"), "stands twice"),
        (lambda: Settings(operators=KEYS[:1]), "operators: give the run a name of its own"),
        (lambda: Settings(operators=KEYS[:1], signers=2), "signers = 2: "),
    ],
)
def test_settings_that_cannot_be(call: Callable[[], object], fragment: str) -> None:
    with refused(ConfigurationError, fragment):
        call()


HOSTS = [Site("tcp://a:1"), Site("tcp://b:1")]


@pytest.mark.parametrize(
    ("content", "read", "fragment"),
    [
        ("[rank.1]\nwait = 'soon'", load, "rank.1.wait in "),
        ("size = 4\n[rank.-1]\nbatch_size = 4", load, "rank.-1: ranks of"),
        ("size = 3", listed_keys, "it lists no keys"),
        (f'rank.0.key = "{KEYS[0]}"', listed_keys, "rank.0.key is f rank 0's, too"),
        ("rank.0.key = 7", listed_keys, "rank.0.key = 7"),
        ("10.8.0.10\n# 10.8.0.11\n", read_hosts, "1 hosts: expected HOST, HOST:PORT"),
        ("10.8.0.10\n\n10.8.0.11:port\n", read_hosts, "line 3 of f: '10.8.0.11:port'"),
        ("*:7700\n10.8.0.10\n", read_hosts, "line 1 of f: '*:7700'"),
        (b"\xff\xff", read_hosts, "no text in UTF-8"),
        (None, read_hosts, "--hosts 'f': No such file"),
        (None, load, "--federation 'f': No such file"),
    ],
)
def test_a_file_that_cannot_be(content: str | bytes | None, read: Any, fragment: str, in_tmp_path: Path) -> None:
    path = Path("f")
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    reading = {load: partial(load, path, {}), listed_keys: partial(listed_keys, [path, path])}
    with refused(ConfigurationError, fragment):
        reading.get(read, partial(read_hosts, path, 7700))()


@pytest.mark.parametrize(
    ("variables", "fragment"),
    [
        ({"ARRAY_TASK_ID": "x"}, "SLURM_ARRAY_TASK_ID = 'x'"),
        ({}, "the host name does not end in -NUMBER"),
    ],
)
def test_a_scheduler_that_names_no_rank(
    variables: dict[str, str], fragment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLURM_PROCID", "SLURM_ARRAY_TASK_ID", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    monkeypatch.setattr(socket, "gethostname", lambda: "trainer")
    with refused(ConfigurationError, fragment):
        own_rank("env")
