"""Where peers are, and where one may listen."""

import socket
from pathlib import Path
from typing import Any

import pytest

from dpeer.exceptions import AddressError
from dpeer.federation.addresses import addresses, all_on_this_host, check_address, listen_address, unresolvable
from dpeer.federation.settings import Settings


def settings(ranks: dict[int, dict[str, str]] | None = None, **changes: Any) -> Settings:
    return Settings.model_validate({"size": 4, "rank": ranks or {}} | changes)


def test_without_a_file_every_rank_has_a_port_of_this_host() -> None:
    here = settings(base_port=9000)
    assert addresses(here, 4) == {rank: f"tcp://127.0.0.1:{9000 + rank}" for rank in range(4)}
    assert listen_address(here, 4, 2) == "tcp://127.0.0.1:9002"


@pytest.mark.parametrize("address", ["tcp://10.1.2.3:7700", "tcp://0.0.0.0:7700", "tcp://*:7700", "tcp://[::]:7700"])
def test_listening_to_other_hosts_needs_insecure(address: str) -> None:
    with pytest.raises(AddressError) as raised:
        listen_address(settings({1: {"address": address}}), 4, 1)
    assert "rank 1" in str(raised.value)
    assert repr(address) in str(raised.value)
    assert "--insecure" in str(raised.value)
    assert listen_address(settings({1: {"address": address}}, insecure=True), 4, 1) == address


def test_names_are_resolved_for_binding() -> None:
    assert listen_address(settings({1: {"address": "tcp://localhost:7700"}}), 4, 1) == "tcp://127.0.0.1:7700"
    with pytest.raises(AddressError):
        listen_address(settings({1: {"address": "tcp://no-such-host.invalid:1"}}, insecure=True), 4, 1)


@pytest.mark.parametrize(
    "name",
    [
        "localhost.localdomain", "localhost4", "localhost6.localdomain6", "ip6-localhost", "ip6-loopback", "LocalHost",
        "localhost.", "peer-1.localhost",
    ],
)  # fmt: skip
def test_names_of_loopback_are_as_localhost(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    found = "::1"

    def resolve(host: str, *rest: object, **options: object) -> list[Any]:
        return [(0, 0, 0, "", (found, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    one = settings({1: {"address": f"tcp://{name}:7700"}})
    assert listen_address(one, 4, 1) == "tcp://[::1]:7700"  # without keys and --insecure
    assert all_on_this_host(one, 4)
    found = "10.0.0.9"
    with pytest.raises(AddressError):
        listen_address(one, 4, 1)


@pytest.mark.parametrize("name", ["localhost.example.org", "notlocalhost", "localhost5"])
def test_other_names_are_not(name: str) -> None:
    one = settings({1: {"address": f"tcp://{name}:7700"}})
    assert not all_on_this_host(one, 4)
    with pytest.raises(AddressError):
        listen_address(one, 4, 1)


# -- ipc -------------------------------------------------------------------------------------------------------------


def test_a_path_is_an_address_that_needs_no_insecure_and_no_name_server(tmp_path: Path) -> None:
    given = settings({rank: {"address": f"ipc://{tmp_path}/{rank}"} for rank in range(4)})
    assert addresses(given, 4) == {rank: f"ipc://{tmp_path}/{rank}" for rank in range(4)}
    assert listen_address(given, 4, 2) == f"ipc://{tmp_path}/2"
    assert all_on_this_host(given, 4)
    assert unresolvable(f"ipc://{tmp_path}/2") is None


def test_a_path_that_somebody_has_is_not_taken_over(tmp_path: Path) -> None:
    here = settings({0: {"address": f"ipc://{tmp_path}/file"}, 1: {"address": f"ipc://{tmp_path}/socket"}})
    (tmp_path / "file").write_text("a thesis")
    with pytest.raises(AddressError):
        listen_address(here, 4, 0)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "socket"))
        other.listen()
        with pytest.raises(AddressError):
            listen_address(here, 4, 1)
    assert (tmp_path / "socket").is_socket(), "left behind"
    assert listen_address(here, 4, 1) == f"ipc://{tmp_path}/socket"


def resolve(monkeypatch: pytest.MonkeyPatch, *found: str) -> None:
    infos = [(socket.AF_INET6 if ":" in one else socket.AF_INET, 1, 6, "", (one, 0)) for one in found]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: infos)
    monkeypatch.setattr(socket, "gethostbyname", lambda _: found[0])


def test_a_name_that_is_loopback_here_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve(monkeypatch, "127.0.1.1")
    with pytest.raises(AddressError):
        listen_address(settings({1: {"address": "tcp://clinic-a:7700"}}), 4, 1, encrypted=True)


@pytest.mark.parametrize(
    ("found", "bound"),
    [(("fd00::2",), "[fd00::2]"), (("fd00::2", "10.0.0.2"), "10.0.0.2"), (("127.0.1.1", "10.0.0.2"), "10.0.0.2"),
     (("::1", "fd00::2"), "[fd00::2]")],
)  # fmt: skip
def test_a_name_is_bound_at_an_address_that_others_reach(
    found: tuple[str, ...], bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve(monkeypatch, *found)
    here = settings({1: {"address": "tcp://clinic-a:7700"}})
    assert listen_address(here, 4, 1, encrypted=True) == f"tcp://{bound}:7700"


@pytest.mark.parametrize(
    ("host", "plain"),
    [("[::ffff:127.0.0.1]", "127.0.0.1"), ("[::FFFF:7f00:1]", "127.0.0.1"), ("[::1%lo]", "[::1%lo]")],
)
def test_mapped_and_scoped_loopback_addresses_need_no_keys(host: str, plain: str) -> None:
    here = settings({1: {"address": f"tcp://{host}:7700"}})
    assert listen_address(here, 4, 1) == addresses(here, 4)[1] == f"tcp://{plain}:7700"
    assert all_on_this_host(here, 4)


@pytest.mark.parametrize(("host", "plain"), [("[::ffff:10.0.0.3]", "10.0.0.3"), ("[fe80::1%eth0]", "[fe80::1%eth0]")])
def test_mapped_and_scoped_addresses_of_other_hosts_need_keys(host: str, plain: str) -> None:
    here = settings({1: {"address": f"tcp://{host}:7700"}})
    with pytest.raises(AddressError):
        listen_address(here, 4, 1)
    assert listen_address(here, 4, 1, encrypted=True) == addresses(here, 4)[1] == f"tcp://{plain}:7700"


def test_a_relay_is_the_address_of_many_ranks_and_of_a_new_member() -> None:
    key = {rank: {"key": f"{rank:02x}" * 32, "address": "relay://relay.example:7790"} for rank in (1, 2, 3)}
    given = settings(key)
    assert addresses(given, 4) == dict.fromkeys((1, 2, 3), "relay://relay.example:7790")
    assert listen_address(given, 4, 2, encrypted=True) == "relay://relay.example:7790"
    assert not all_on_this_host(given, 4)
    check_address("relay://relay.example:7790", "--address")
    for wrong in ("relay://relay.example", "relay://:7790", "relay://relay.example:0"):
        with pytest.raises(AddressError, match="expected relay://HOST:PORT"):
            check_address(wrong, "--address")
