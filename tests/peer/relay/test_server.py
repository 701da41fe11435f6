"""The relay with honest and hostile clients: who gets in, who is joined to whom, and what a client may cost."""

import asyncio
import contextlib
import gc
import os
import socket
import time
from pathlib import Path

import pytest

from dpeer.exceptions import AddressError
from dpeer.peer.relay import messages, server
from dpeer.peer.relay.messages import DIAL, LISTEN, TAKEN, WAITING, Verifier, prove
from dpeer.peer.relay.server import Listed, Relay
from dpeer.peer.transports.curve import new_secret, public_of
from tests.peer.intermediaries import listed


async def echo(near, far, data=b"here"):
    """Both ways carry bytes."""
    for source, target in ((near, far), (far, near)):
        await source.send(data)
        assert await target.reader.readexactly(len(data)) == data


def descriptors():
    """Open files of this process; 0 where the system does not show them."""
    shown = Path("/proc/self/fd")
    return len([*shown.iterdir()]) if shown.is_dir() else 0


async def test_two_listed_keys_are_joined_and_the_log_has_who_with_whom(world):
    one = await world()
    line = await one.listen(0)
    near, far = await one.join(1, 0, line)
    await echo(near, far, bytes(range(256)) * 4000)
    await near.send(b"the last word")
    near.close()
    assert await far.ended() == b"the last word"
    far.close()
    await one.log.until("parted rank 1", "from rank 0", "1.0 MB there, 1.0 MB back")
    assert one.log.has(f"joined rank 1 ({one.keys[1].hex()[:8]}) to rank 0 ({one.keys[0].hex()[:8]})")
    assert (one.relay.joined, one.relay.carried, one.relay.refused) == (1, 2 * 1_024_000 + 13, 0)


# -- who gets in -------------------------------------------------------------------------------------------------------


async def test_an_unlisted_key_and_a_proof_that_does_not_hold_get_the_same_answer(world):
    one = await world()
    stranger = await one.connect()
    assert await stranger.claim(new_secret(), LISTEN) == b"k"
    assert await stranger.ended() == b""
    forger = await one.connect()
    claim = prove(new_secret(), await forger.greet(), LISTEN)._replace(key=one.keys[0])
    await forger.send(claim.encode())
    assert await forger.answer() == b"k"
    assert await forger.ended() == b""
    assert one.relay.refused == 2


async def test_a_recorded_claim_is_of_no_use_on_another_connection(world):
    one = await world()
    honest = await one.connect()
    recorded = prove(one.secrets[0], await honest.greet(), LISTEN).encode()
    await honest.send(recorded)
    assert await honest.answer() == WAITING
    thief = await one.connect()
    await thief.greet()
    await thief.send(recorded)
    assert await thief.answer() == b"k"
    again = await one.connect()  # nor are greeting and claim of the thief's own making
    assert await again.greet() != honest.greeting


async def test_what_is_no_claim_ends_the_connection(world):
    one = await world()
    for words in (b"GET / HTTP/1.1\r\nHost: relay\r\n\r\n".ljust(messages.CLAIM_BYTES), os.urandom(200)):
        client = await one.connect()
        await client.send(b"!" + words)
        await client.ended()
    while one.relay.refused < 2:  # noqa: ASYNC110 - no event says so
        await asyncio.sleep(0.002)


async def test_connections_that_prove_nothing_do_not_last(world, monkeypatch):
    """Slow loris: a byte now and then keeps no connection."""
    monkeypatch.setattr(server, "PROVE_WITHIN", 0.3)
    one = await world()
    slow = await one.connect()
    claim = prove(one.secrets[0], await slow.greet(), LISTEN).encode()
    with contextlib.suppress(ConnectionError):
        for byte in claim[:-1]:
            await slow.send(bytes([byte]))
            await asyncio.sleep(0.01)
    await slow.ended()
    assert one.relay.refused == 1


async def test_a_flood_of_silent_connections_displaces_itself_and_keeps_nobody_out(world):
    one = await world()
    line = await one.listen(0)
    near, far = await one.join(1, 0, line)
    before = descriptors()
    with contextlib.ExitStack() as stack:
        for _ in range(2 * server.MOST_UNPROVED):
            stack.enter_context(socket.create_connection(("127.0.0.1", one.running.port)))
            await asyncio.sleep(0)
        while one.relay.refused < server.MOST_UNPROVED:  # noqa: ASYNC110 - no event says so
            await asyncio.sleep(0.002)
        if before:  # those of the flood itself, and the relay's
            assert descriptors() - before <= 3 * server.MOST_UNPROVED + 8
        await echo(near, far)
        again = await one.listen(2)
        assert again.greeting is not None


async def test_a_flood_of_wrong_proofs_keeps_nobody_out(world):
    one = await world()
    line = await one.listen(0)
    near, far = await one.join(1, 0, line)

    async def flood():
        secret = new_secret()
        while True:
            client = await one.connect()
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await client.claim(secret, DIAL, one.keys[0])
            client.close()

    floods = [asyncio.create_task(flood()) for _ in range(20)]
    while one.relay.refused < 100:
        await echo(near, far, bytes(100_000))
    await one.listen(2)
    for task in floods:
        task.cancel()
    await asyncio.gather(*floods, return_exceptions=True)


# -- who is joined to whom ---------------------------------------------------------------------------------------------


async def test_why_a_call_is_refused(world, monkeypatch):
    monkeypatch.setattr(messages, "CALL_WITHIN", 0.05)
    one = await world()
    assert await (await one.dial(1, 0)).answer() == messages.ABSENT
    line = await one.listen(0)
    line.close()
    await one.log.until("rank 0", "is gone")
    assert await (await one.dial(1, 0)).answer() == messages.ABSENT
    await one.join(1, 0, await one.listen(0))
    assert await (await one.dial(2, 0)).answer() == messages.ABSENT, "it does not wait for another caller in time"
    assert await (await one.dial(0, 0)).answer() == messages.UNKNOWN_OTHER
    client = await one.connect()
    assert await client.claim(one.secrets[1], DIAL, public_of(new_secret())) == messages.UNKNOWN_OTHER


async def test_keys_of_two_federations_are_not_joined(world):
    one = await world()
    other = new_secret()
    keys = listed(dict(enumerate([(key,) for key in one.keys])))
    one.relay.relist({**keys, public_of(other): Listed("two", "two rank 0")})
    line = await one.listen(0)
    client = await one.connect()
    assert await client.claim(other, DIAL, one.keys[0]) == messages.UNKNOWN_OTHER
    await one.join(1, 0, line)


async def test_a_peer_that_waits_hears_of_the_relay_again_and_again(world, monkeypatch):
    monkeypatch.setattr(messages, "WAITING_EVERY", 0.01)
    line = await (await world()).listen(0)
    assert [await line.answer() for _ in range(3)] == [WAITING] * 3


async def test_the_newest_process_of_a_key_is_called_and_the_one_before_learns_it(world):
    one = await world()
    before = await one.listen(0)
    line = await one.listen(0)
    assert await before.called() == messages.REPLACED
    await before.ended()
    await echo(*await one.join(1, 0, line))
    assert not one.log.has("is gone")


async def test_a_key_that_is_not_listed_any_more_is_parted(world):
    one = await world()
    line, other = await one.listen(0), await one.listen(2)
    near, far = await one.join(1, 0, line)
    kept = await one.join(1, 2, other)
    one.relay.relist(listed({rank: (one.keys[rank],) for rank in (1, 2)}))
    for client in (line, near, far):
        await client.ended()
    await echo(*kept)
    client = await one.connect()
    assert await client.claim(one.secrets[0], LISTEN) == b"k"


# -- what a listed key may cost ----------------------------------------------------------------------------------------


async def test_a_key_has_so_many_calls_and_a_newer_one_replaces_that_of_the_same_pair(world):
    one = await world(4, connections=2)
    lines = {rank: await one.listen(rank) for rank in (1, 2, 3)}
    first, _ = await one.join(0, 1, lines[1])
    second = await one.join(0, 2, lines[2])
    assert await (await one.dial(0, 3)).answer() == messages.TOO_MANY
    near, far = await one.join(0, 1, await one.listen(1))
    await first.ended()
    await echo(near, far)
    await echo(*second)
    await echo(*await one.join(1, 3, lines[3]))  # others have theirs


async def test_callers_of_a_peer_leave_it_to_others(world):
    one = await world(4, connections=1)
    for rank in (1, 2, 3):
        await one.listen(0)
        assert await (await one.dial(rank, 0)).answer() == TAKEN


async def test_calls_without_end_are_refused_after_some(world):
    one = await world()
    answers = [await (await one.dial(1, 0)).answer() for _ in range(int(server.CALLS_AT_ONCE) + 20)]
    assert answers[0] == messages.ABSENT
    assert messages.TOO_MANY in answers
    assert await (await one.dial(2, 0)).answer() == messages.ABSENT  # another key has its own


async def test_a_peer_that_is_called_without_end_waits_again_each_time(world):
    one = await world()
    for turn in range(int(server.CALLS_AT_ONCE) + 20):
        await one.join(1 + turn % 2, 0, await one.listen(0))


async def test_of_calls_that_replace_each_other_nothing_is_kept(world):
    one = await world()

    async def tasks():
        near, far = await one.join(1, 0, await one.listen(0))
        await echo(near, far)
        gc.collect()
        return sum(isinstance(found, asyncio.Task) for found in gc.get_objects())

    first = await tasks()
    assert max([await tasks() for _ in range(10)]) <= first + 5


async def test_of_what_one_end_does_not_read_the_relay_holds_one_small_piece(world):
    one = await world(2, rate=1e12)
    line = await one.listen(0)
    near, far = await one.join(1, 0, line)
    far.writer.transport.pause_reading()  # as a peer that stands still
    sent = 0
    with contextlib.suppress(TimeoutError):
        while True:
            near.writer.write(bytes(2**16))
            sent += 2**16
            await asyncio.wait_for(near.writer.drain(), 0.3)
    assert sent < 40_000_000, "the buffers of the operating system, twice"
    far.writer.transport.resume_reading()
    assert len(await far.reader.readexactly(sent)) == sent


async def test_a_key_sends_no_faster_than_its_rate_and_others_do_not_wait_for_it(world):
    one = await world(4, rate=400_000)
    lines = [await one.listen(rank) for rank in (0, 2)]
    near, far = await one.join(1, 0, lines[0])
    quick = await one.join(3, 2, lines[1])
    began = asyncio.get_running_loop().time()
    await near.send(bytes(1_000_000))
    coming = asyncio.create_task(far.reader.readexactly(1_000_000))
    await echo(*quick)
    assert not coming.done()
    await coming
    assert asyncio.get_running_loop().time() - began >= 1.3  # 400 kB come at once


async def test_a_port_in_use_is_refused(world):
    one = await world()
    with pytest.raises(AddressError, match=f"--listen: port {one.running.port} of 127.0.0.1 cannot be used"):
        Relay({}, print).listen("127.0.0.1", one.running.port)


async def test_a_key_that_comes_and_goes_without_end_fills_no_log(world, monkeypatch):
    monkeypatch.setattr(server, "LINES_AT_ONCE", 6.0)
    monkeypatch.setattr(server, "LINES_A_SECOND", 0.0)
    one = await world()
    for _ in range(8):
        client = await one.connect()
        assert await client.claim(one.secrets[1], LISTEN) == WAITING
        client.close()
    await one.listen(0)  # whose lines are its own
    assert sum("rank 1" in line for line in one.log) == 6


async def test_a_caller_is_joined_when_a_peer_that_was_just_called_waits_again(world):
    one = await world()
    first = await one.join(1, 0, await one.listen(0))
    near = await one.dial(2, 0)
    far = await one.listen(0)
    assert (await far.called(), await near.answer()) == (TAKEN, TAKEN)
    await echo(near, far)
    await echo(*first)


async def test_a_peer_that_waits_again_in_the_moment_in_which_a_call_ends_in_vain_can_be_called(world, monkeypatch):
    monkeypatch.setattr(messages, "CALL_WITHIN", 0.1)
    one = await world()
    await one.join(1, 0, await one.listen(0))
    in_vain = await one.dial(2, 0)
    holds = Verifier.holds

    def last(verifier, greeting, claim):
        if claim.purpose == LISTEN:
            time.sleep(0.2)  # the call's time is over when the claim is looked at
        return holds(verifier, greeting, claim)

    monkeypatch.setattr(Verifier, "holds", last)
    await one.listen(0)
    assert await in_vain.answer() == messages.ABSENT
    assert await (await one.dial(1, 0)).answer() == TAKEN


async def test_a_call_of_a_key_that_has_been_taken_off_the_list_meanwhile_is_not_joined(world):
    one = await world()
    near, far = await one.join(1, 0, await one.listen(0))
    waiting = await one.dial(2, 0)
    one.relay.relist(listed({rank: (one.keys[rank],) for rank in (1, 2)}))
    assert TAKEN not in await waiting.ended()
    await asyncio.gather(near.ended(), far.ended())
