"""Peers at a relay: what becomes of their links when the relay, or one of them, is away."""

import asyncio
from functools import partial

import pytest
from line_emulator import free_ports

from dpeer.exceptions import AddressError
from dpeer.peer.relay.messages import CLAIM_BYTES, TAKEN, WAITING, Verifier
from dpeer.peer.transport import Arrival, Broken, Opened, Relayed, TurnedAway, Unreachable
from dpeer.peer.transports import Keyring, tunnels
from dpeer.peer.transports.curve import new_secret, public_of
from tests.peer.intermediaries import Running, carry, listed
from tests.peer.keys import keyrings
from tests.peer.transports.conftest import TCP, next_of, put


async def test_two_peers_meet_and_know_each_other_by_their_keys(opened):
    rings = keyrings(2)
    listener, dialler = (opened(ring) for ring in rings)
    async with Running(listed(rings[0].listed)) as relay:
        address = await listener.listen(f"relay://{relay.place}")
        assert address == f"relay://{relay.place}"
        link = dialler.dial(address, 0)
        await next_of(dialler, Opened)
        await put(dialler, link, b"hello", bytes(300_000))
        arrival = await next_of(listener, Arrival)
        assert arrival.identity == 1
        await put(listener, arrival.link, b"welcome")
        assert (await next_of(dialler, Arrival)).identity == 0
        await dialler.close(5)
        await relay.log.until("parted rank 1", "from rank 0")


async def test_nobody_listens_at_a_relay_without_keys(opened):
    with pytest.raises(AddressError, match="needs keys"):
        await opened().listen("relay://127.0.0.1:7790")


async def test_a_peer_that_is_not_at_the_relay_is_named_and_found_when_it_comes(opened):
    rings = keyrings(2)
    listener, dialler = (opened(ring) for ring in rings)
    async with Running(listed(rings[0].listed)) as relay:
        link = dialler.dial(f"relay://{relay.place}", 0)
        reason = (await next_of(dialler, Unreachable)).reason
        assert reason == f"relay {relay.place}: the peer of that rank is not connected to it"
        await listener.listen(f"relay://{relay.place}")
        assert await next_of(dialler, Opened) == Opened(link)


async def test_a_relay_that_ends_breaks_the_links_and_all_meet_again_when_it_is_back(opened, monkeypatch):
    monkeypatch.setattr(tunnels, "_AGAIN", 0.1)
    (port,) = free_ports(1)
    rings = keyrings(2)
    listener, dialler = (opened(ring) for ring in rings)
    address = f"relay://127.0.0.1:{port}"
    await listener.listen(address)
    assert "relay" in (await next_of(listener, Relayed)).trouble
    link = dialler.dial(address, 0)
    assert (await next_of(dialler, Unreachable)).reason.startswith(f"relay 127.0.0.1:{port}: ")
    for _ in range(2):
        async with Running(listed(rings[0].listed), port=port):
            while (await next_of(listener, Relayed)).trouble is not None:
                pass
            assert await next_of(dialler, Opened) == Opened(link)
            await put(dialler, link, b"here")
            await next_of(listener, Arrival)
        assert await next_of(dialler, Broken) == Broken(link)


async def test_an_unlisted_key_is_turned_away_by_the_relay_and_both_ends_of_the_fault_are_named(opened):
    rings = keyrings(2)
    stranger = Keyring(new_secret(), rings[0].listed)
    async with Running(listed(rings[0].listed)) as relay:
        one = opened(stranger)
        await one.listen(f"relay://{relay.place}")
        assert "does not take the key of this peer" in (await next_of(one, Relayed)).trouble
        one.dial(f"relay://{relay.place}", 0)
        assert "does not take the key of this peer" in (await next_of(one, Unreachable)).reason


async def test_an_operator_that_joins_a_caller_to_another_peer_gets_no_message_through(opened):
    rings = keyrings(3)
    wrong, caller = opened(rings[2]), opened(rings[1])
    port = int((await wrong.listen(TCP)).rpartition(":")[2])
    ways = set()

    async def join(reader, writer):
        writer.write(Verifier().greeting())
        await reader.readexactly(CLAIM_BYTES)
        writer.write(TAKEN)
        far = await asyncio.open_connection("127.0.0.1", port)
        for source, target in ((reader, far[1]), (far[0], writer)):
            ways.add(asyncio.create_task(carry(source, target)))

    async with await asyncio.start_server(join, "127.0.0.1", 0) as false:
        caller.dial(f"relay://127.0.0.1:{false.sockets[0].getsockname()[1]}", 0)
        assert "does not prove the key" in (await next_of(caller, Unreachable)).reason
        assert (await next_of(wrong, TurnedAway)).reason == "no-key"
        await caller.close(0)


async def test_a_relay_that_falls_silent_is_taken_for_dead(opened, monkeypatch):
    monkeypatch.setattr(tunnels, "SILENT", 0.1)

    async def fall_silent(reader, writer):
        writer.write(Verifier().greeting())
        await reader.readexactly(CLAIM_BYTES)
        writer.write(WAITING)
        await reader.read()
        writer.close()

    async with await asyncio.start_server(fall_silent, "127.0.0.1", 0) as silent:
        listener = opened(keyrings(2)[0])
        await listener.listen(f"relay://127.0.0.1:{silent.sockets[0].getsockname()[1]}")
        assert "it does not answer" in (await next_of(listener, Relayed)).trouble
        await listener.close(0)


async def called_in_vain(reader, writer, answer):
    """A false relay's part: this byte and no more."""
    writer.write(Verifier().greeting())
    await reader.readexactly(CLAIM_BYTES)
    writer.write(answer)
    writer.close()


async def test_a_relay_that_calls_without_end_keeps_no_peer_busy(opened, monkeypatch):
    monkeypatch.setattr(tunnels, "_REST", 0.1)
    calls = []

    async def call(reader, writer):
        calls.append(writer)
        await called_in_vain(reader, writer, TAKEN)

    async with await asyncio.start_server(call, "127.0.0.1", 0) as false:
        listener = opened(keyrings(2)[0])
        await listener.listen(f"relay://127.0.0.1:{false.sockets[0].getsockname()[1]}")
        await asyncio.sleep(0.5)
        assert 1 <= len(calls) <= 6
        await listener.close(0)


async def test_a_relay_that_fails_and_is_back_without_end_fills_no_log(opened):
    async with await asyncio.start_server(partial(called_in_vain, answer=WAITING), "127.0.0.1", 0) as false:
        listener = opened(keyrings(2)[0])
        await listener.listen(f"relay://127.0.0.1:{false.sockets[0].getsockname()[1]}")
        await next_of(listener, Relayed)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.7):
                await next_of(listener, Relayed)
        await listener.close(0)


async def test_while_a_peer_changes_its_key_either_is_called(opened):
    old, new, other = new_secret(), new_secret(), new_secret()
    both = {0: (public_of(old), public_of(new)), 1: (public_of(other),)}
    async with Running(listed(both)) as relay:
        for secret in (new, old):
            listener, dialler = opened(Keyring(secret, both)), opened(Keyring(other, both))
            await listener.listen(f"relay://{relay.place}")
            link = dialler.dial(f"relay://{relay.place}", 0)
            assert await next_of(dialler, Opened) == Opened(link)
            while relay.relay._keys[public_of(secret)].line is None:  # noqa: ASYNC110 - it waits again, after its call
                await asyncio.sleep(0.002)
            await dialler.close(0)
            await listener.close(0)
            await relay.log.until("rank 0", "is gone")
            relay.log.clear()
