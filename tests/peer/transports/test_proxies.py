"""Proxies: which hosts are dialled through them, and what their refusals come to."""

import asyncio

import pytest

from dpeer.exceptions import AddressError
from dpeer.peer.core.limits import Limits
from dpeer.peer.transport import Opened, Unreachable
from dpeer.peer.transports import ZeroMQTransport
from dpeer.peer.transports import proxies as dialling
from dpeer.peer.transports.proxies import Proxy, proxies
from tests.error_texts import refused
from tests.peer.intermediaries import ProxyServer
from tests.peer.transports.conftest import TCP, next_of

NAMES = ("https_proxy", "all_proxy", "no_proxy", "http_proxy")


@pytest.fixture(autouse=True)
def no_proxy_in_the_environment(monkeypatch):
    for name in NAMES:
        for written in (name, name.upper()):
            monkeypatch.delenv(written, raising=False)


def test_a_setting_names_a_proxy_and_the_environment_counts_only_where_it_is_asked_for(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://web.test:3128")
    assert proxies(None).of("site.test") is None
    assert proxies("http://one.test:80").of("site.test") == Proxy("http", "one.test", 80)
    assert proxies("socks5://[fd00::1]:1080").of("site.test") == Proxy("socks5", "fd00::1", 1080)
    assert proxies("environment").of("site.test") == Proxy("http", "web.test", 3128)


@pytest.mark.parametrize(
    ("name", "value", "proxy"),
    [
        ("all_proxy", "socks5h://s.test:1080", Proxy("socks5", "s.test", 1080)),
        ("HTTPS_PROXY", "web.test:3128", Proxy("http", "web.test", 3128)),
        ("https_proxy", "http://me:p%40ss@web.test:3128/", Proxy("http", "web.test", 3128, "me", "p@ss")),
    ],
)
def test_proxies_of_the_environment(monkeypatch, name, value, proxy):
    monkeypatch.setenv(name, value)
    found = proxies("environment").of("10.0.0.3")
    assert found == proxy
    assert "p@ss" not in repr(found)


def test_loopback_and_the_hosts_of_no_proxy_are_dialled_directly(monkeypatch):
    monkeypatch.setenv("no_proxy", "near.test,10.1.2.3,.inside.test")
    found = proxies("http://one.test:80")
    for host in ("localhost", "127.0.0.1", "::1", "near.test", "10.1.2.3", "a.inside.test"):
        assert found.of(host) is None, host
    for host in ("far.test", "10.1.2.4"):
        assert found.of(host) is not None, host


def test_no_proxy_has_networks_and_all_names_below_one_as_curl_reads_it(monkeypatch):
    monkeypatch.setenv("no_proxy", "10.0.0.0/8 fd00::/8, Inside.test. ,192.168.7.9/24")
    found = proxies("http://one.test:80")
    for host in ("10.9.8.7", "fd12::1", "inside.test", "a.b.inside.test", "INSIDE.test.", "192.168.7.1"):
        assert found.of(host) is None, host
    for host in ("11.0.0.1", "fe80::1", "outinside.test", "192.168.8.1", "10.0.0.0.test"):
        assert found.of(host) is not None, host
    monkeypatch.setenv("no_proxy", "*")
    assert proxies("http://one.test:80").of("far.test") is None


@pytest.mark.parametrize("sign", ["#", "?", "/"])
def test_a_sign_of_a_password_that_must_be_written_otherwise_is_named(monkeypatch, sign):
    monkeypatch.setenv("https_proxy", f"http://me:pa{sign}ss@web.test:3128")
    with refused(AddressError, "https_proxy in the environment", repr(sign), f"%{ord(sign):X}"):
        proxies("environment")
    monkeypatch.setenv("https_proxy", "http://me:p@ss@web.test:3128")
    assert proxies("environment").of("a.test").password == "p@ss"


@pytest.mark.parametrize("kind", ["http", "socks5"])
async def test_a_proxy_asks_for_a_password_and_the_environment_has_it(opened, monkeypatch, kind):
    async with ProxyServer(kind, {}, ("me", "p@ss")) as proxy:
        listener = opened()
        proxy.known["site.test"] = int((await listener.listen(TCP)).rpartition(":")[2])
        refused = ZeroMQTransport(Limits(), proxies=proxies(proxy.url))
        refused.dial("tcp://site.test:7700")
        reason = (await next_of(refused, Unreachable)).reason
        assert "407 Proxy Authentication Required" in reason or "asks for a password" in reason
        await refused.close(0)
        monkeypatch.setenv("all_proxy", proxy.url.replace("://", "://me:p%40ss@"))
        dialler = ZeroMQTransport(Limits(), proxies=proxies("environment"))
        link = dialler.dial("tcp://site.test:7700")
        assert await next_of(dialler, Opened) == Opened(link)
        await dialler.close(0)


@pytest.mark.parametrize(
    ("kind", "words"),
    [("http", "refuses a connection to far.test:7700: 403 Forbidden by policy"), ("socks5", "its rules do not allow")],
)
async def test_a_refusal_of_the_proxy_is_the_reason_until_it_allows_the_connection(opened, kind, words):
    async with ProxyServer(kind, {}) as proxy:
        listener = opened()
        port = int((await listener.listen(TCP)).rpartition(":")[2])
        dialler = ZeroMQTransport(Limits(), proxies=proxies(proxy.url))
        link = dialler.dial("tcp://far.test:7700")
        assert words in (await next_of(dialler, Unreachable)).reason
        proxy.known["far.test"] = port
        assert await next_of(dialler, Opened) == Opened(link)
        assert set(proxy.asked) == {"far.test:7700"}
        await dialler.close(0)


DOWN = {
    "http": (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", "502 Bad Gateway"),
    "socks5": (b"\x05\x00" + b"\x05\x05\x00\x01" + bytes(6), "connection refused"),
}


@pytest.mark.parametrize("kind", [*DOWN])
async def test_a_proxy_that_hangs_or_says_that_the_other_end_is_down_is_asked_again(opened, monkeypatch, kind):
    """libzmq's own SOCKS option aborts the process when the proxy says so."""
    monkeypatch.setattr(dialling, "PROVE_WITHIN", 0.2)
    (down, words), asked = DOWN[kind], []

    async def serve(reader, writer):
        asked.append(reader)
        if len(asked) > 1:
            writer.write(down)
        await reader.read()  # until the dialler gives up
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"{kind}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        dialler = ZeroMQTransport(Limits(), proxies=proxies(url))
        dialler.dial("tcp://far.test:7700")
        assert (await next_of(dialler, Unreachable)).reason == f"proxy {url} does not answer"
        assert words in (await next_of(dialler, Unreachable)).reason
        await dialler.close(0)


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH_9.6\r\n\r\n", b"", b"x" * 2**15])
async def test_what_is_no_proxy_is_named(answer):
    async def serve(reader, writer):
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        dialler = ZeroMQTransport(Limits(), proxies=proxies(f"http://{place}"))
        dialler.dial("tcp://far.test:7700")
        assert f"proxy http://{place}: " in (await next_of(dialler, Unreachable)).reason
        await dialler.close(0)


@pytest.mark.parametrize(
    "given", ["one.test:80", "https://one.test:443", "http://one.test", "http://a:b:80", "ftp://a:1"]
)
def test_no_proxy_of_another_kind(given):
    with pytest.raises(AddressError, match="expected http://HOST:PORT or socks5://HOST:PORT"):
        proxies(given)


def test_no_password_in_a_setting():
    with refused(AddressError, "proxy = 'http://…@web.test:80': a password does not belong in settings"):
        proxies("http://me:secret@web.test:80")
