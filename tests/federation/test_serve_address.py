"""`serve`: the address that a text states, and what may be written."""

import socket

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.federation.config import load
from dpeer.federation.serve_address import bound, read_serve
from tests.ipv6 import has_ipv6


@pytest.mark.parametrize(
    ("text", "shown", "loopback", "everywhere"),
    [
        ("7780", "127.0.0.1:7780", True, False),
        ("0", "127.0.0.1:0", True, False),
        ("localhost:7780", "localhost:7780", True, False),
        ("127.0.0.3:1", "127.0.0.3:1", True, False),
        ("[::1]:7780", "[::1]:7780", True, False),
        ("10.0.0.3:7780", "10.0.0.3:7780", False, False),
        ("site-3.example:7780", "site-3.example:7780", False, False),
        ("*:7780", "*:7780", False, True),
        ("0.0.0.0:7780", "0.0.0.0:7780", False, True),
        ("[::]:65535", "[::]:65535", False, True),
    ],
)
def test_an_address_is_a_port_of_loopback_or_a_host_and_a_port(text, shown, loopback, everywhere):
    found = read_serve(text)
    assert (str(found), found.loopback, found.everywhere) == (shown, loopback, everywhere)


@pytest.mark.parametrize("line", ["serve = 7780", 'serve = "7780"', '[rank.1]\nserve = 7780\naddress = "tcp://a:1"'])
def test_a_file_may_state_it_as_a_number_for_all_or_for_one_rank(tmp_path, line):
    (tmp_path / "dpeer.toml").write_text(f"size = 2\n{line}\n")
    assert load(tmp_path / "dpeer.toml", {}).of_rank(1).serve == "7780"


@pytest.mark.parametrize(
    "wrong",
    [
        '"65536"', "-1", '"tcp://10.0.0.3:7780"', '"10.0.0.3"', '"::1:7780"', '""', "true", '"\\u001bc:80"', '"a%b:80"',
    ],
)  # fmt: skip
def test_anything_else_is_refused_by_its_name(tmp_path, wrong):
    (tmp_path / "dpeer.toml").write_text(f"serve = {wrong}\n")
    with pytest.raises(ConfigurationError, match=r"^serve in .* expected PORT or HOST:PORT, for example 7780 or 10\."):
        load(tmp_path / "dpeer.toml", {})


@pytest.mark.skipif(not has_ipv6(), reason="the host has no IPv6")
def test_all_interfaces_are_those_of_ipv4_and_of_ipv6():
    with bound(read_serve("*:0"), "--serve") as listening:
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, listening.getsockname()[1])).close()
