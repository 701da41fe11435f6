"""IPv4 addresses that systems read as others are refused wherever an address is taken."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from dpeer.exceptions import AddressError, ConfigurationError
from dpeer.federation.addresses import addresses, check_address, listen_address, relay_listen_address
from dpeer.federation.new_federation import read_hosts
from dpeer.federation.settings import Settings
from dpeer.ipv4 import check_host
from dpeer.peer.transports.hosts import split
from dpeer.peer.transports.proxies import proxies


@pytest.mark.parametrize(
    ("host", "meant"),
    [
        ("0177.0.0.1", "177.0.0.1"), ("127.000.000.001", "127.0.0.1"), ("127.1", "127.0.0.1"),
        ("127.0.1", "127.0.0.1"), ("0x7f.0.0.1", "127.0.0.1"), ("0X7F000001", "127.0.0.1"), ("2130706433", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"), ("\uff11\uff12\uff17.0.0.1", "127.0.0.1"),
        ("127\u30020\u30020\u300201", "127.0.0.1"),
        ("0177\u00ad.0.0.1", "177.0.0.1"), ("12\u200b7.1", "127.0.0.1"), ("127.0.0.1\ufeff", "127.0.0.1"),
        ("127.0.0.256", "four numbers from 0 to 255"), ("127.0.0.0.1", "four numbers"), ("999999999999", "four"),
        ("127.0.0.08", "127.0.0.8"),
    ],
)  # fmt: skip
def test_what_is_no_ipv4_address_is_refused_with_the_one_that_was_meant(host: str, meant: str) -> None:
    with pytest.raises(ValueError, match="is no IPv4 address: write ") as raised:
        check_host(host)
    assert f"{host} is no IPv4 address: write {meant}" in str(raised.value)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "0.0.0.0", "255.255.255.255", "localhost", "*", "peer-1", "1.example.org", "10.8.0.11.example",
        "a1", "0xylophone.org", "bücher.example", "[::1]", "[fe80::1%eth0]", "[::ffff:127.0.0.1]", "deadbeef0123",
    ],
)  # fmt: skip
def test_names_and_addresses_are_hosts(host: str) -> None:
    check_host(host)


@pytest.mark.parametrize("host", ["[0177.0.0.1]", "[127.0.0.1]", "[::ffff:0177.0.0.1]", "[1.2]"])
def test_brackets_hold_an_ipv6_address(host: str) -> None:
    with pytest.raises(ValueError, match="is no IPv6 address"):
        check_host(host)


def in_file(text: str) -> Callable[[Path], object]:
    def read(folder: Path) -> object:
        (folder / "hosts.txt").write_text(f"{text}\n127.0.0.1\n")
        return read_hosts(folder / "hosts.txt", 7700)

    return read


def settings(**own: str) -> Settings:
    return Settings.model_validate({"size": 2, "insecure": True, "rank": {1: {"address": "tcp://127.0.0.1:1"} | own}})


@pytest.mark.parametrize(
    "take",
    [
        lambda _: addresses(settings(address="tcp://127.1:7700"), 2),
        lambda _: listen_address(settings(bind="tcp://127.1:7700"), 2, 1),
        lambda _: check_address("relay://127.1:7700", "rank.1.address"),
        lambda _: relay_listen_address("127.1:7700"),
        lambda _: split("tcp://127.1:7700"),
        lambda _: proxies("http://127.1:7700"),
        lambda _: proxies("socks5://127.1:7700"),
        lambda _: Settings.model_validate({"serve": "127.1:7700"}),
        in_file("127.1"), in_file("127.1:7700"), in_file("tcp://127.1:7700"),
    ],
)  # fmt: skip
def test_every_place_that_takes_an_address_reads_it_strictly(take: Callable[[Path], object], tmp_path: Path) -> None:
    with pytest.raises((AddressError, ConfigurationError, ValidationError)) as raised:
        take(tmp_path)
    assert "127.1 is no IPv4 address: write 127.0.0.1" in str(raised.value)
