"""Transports with keys: who gets in, and what those learn who do not."""

import socket

import zmq

from dpeer.peer.transport import Arrival, Broken, Opened, TurnedAway, Unreachable
from dpeer.peer.transports import Keyring
from dpeer.peer.transports.curve import new_secret, public_of
from tests.error_texts import refused
from tests.peer.keys import keyrings
from tests.peer.transports.conftest import TCP, next_of


def raw(address):
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    return socket.create_connection((host, int(port)))


def test_the_public_key_of_a_secret_is_always_the_same():
    secret = new_secret()
    assert len(secret) == len(public_of(secret)) == 32
    assert public_of(secret) == public_of(secret) != secret
    assert Keyring(secret, {}).public == public_of(secret)
    assert repr(secret)[2:10] not in repr(Keyring(secret, {}))


async def test_a_rank_without_a_listed_key_is_not_dialled(opened):
    with refused(ValueError, "identity 5: with keys, only ranks whose key is listed"):
        opened(keyrings(3)[0]).dial("tcp://127.0.0.1:7700", 5)


async def test_both_ends_know_the_rank_at_the_other(opened):
    rings = keyrings(3)
    listener = opened(rings[0])
    address = await listener.listen(TCP)
    for rank in (1, 2):
        dialler = opened(rings[rank])
        link = dialler.dial(address, 0)
        assert await dialler.receive() == Opened(link)
        dialler.send(link, [b"here"])
        arrival = await next_of(listener, Arrival)
        assert arrival.identity == rank
        listener.send(arrival.link, [b"welcome"])
        assert (await next_of(dialler, Arrival)).identity == 0


async def test_a_frame_of_the_greatest_length_arrives(keyed):
    listener, dialler, address = keyed
    link = dialler.dial(address, 0)
    await dialler.receive()
    dialler.send(link, [b"", bytes(dialler.chunk_bytes)])
    assert len((await next_of(listener, Arrival)).frames[1]) == dialler.chunk_bytes


async def test_a_key_that_is_not_listed_is_turned_away_and_both_sides_report_it(opened):
    rings = keyrings(2)
    secret = new_secret()
    listener, stranger = opened(rings[0]), opened(Keyring(secret, rings[0].listed))
    link = stranger.dial(await listener.listen(TCP), 0)
    failed = await next_of(stranger, Unreachable)
    assert failed.link == link
    assert "does not take the key of this peer" in failed.reason
    assert await listener.receive() == TurnedAway("127.0.0.1", "unlisted-key", 1)


async def test_a_dialler_sends_nothing_to_a_listener_with_another_key(opened):
    """The listener has another secret than that whose key is listed for it."""
    rings = keyrings(2)
    listener = opened(Keyring(new_secret(), rings[0].listed))
    dialler = opened(rings[1])
    dialler.dial(await listener.listen(TCP), 0)
    assert "does not prove the key" in (await next_of(dialler, Unreachable)).reason
    assert (await listener.receive()).reason == "no-key"


async def test_a_listener_without_keys_gets_nothing_from_a_dialler_with_keys(opened):
    listener, dialler = opened(None), opened(keyrings(2)[1])
    dialler.dial(await listener.listen(TCP), 0)
    assert isinstance(await dialler.receive(), Unreachable)


async def test_a_dialler_without_keys_is_turned_away(opened):
    listener = opened(keyrings(2)[0])
    address = await listener.listen(TCP)
    with zmq.Context() as context, context.socket(zmq.DEALER) as plain:
        plain.linger = 0
        plain.connect(address)
        plain.send(b"hello")
        assert (await listener.receive()).reason == "no-key"


async def test_while_a_peer_changes_its_key_both_are_good(opened):
    old, new, other = new_secret(), new_secret(), new_secret()
    listed = {0: (public_of(old), public_of(new)), 1: (public_of(other),)}
    dialler = opened(Keyring(other, listed))
    address = TCP
    for secret in (old, new, old):
        listener = opened(Keyring(secret, listed))
        address = await listener.listen(address)
        link = dialler.dial(address, 0)
        assert await dialler.receive() == Opened(link), "nothing is said of the key that was tried in vain"
        dialler.drop(link)
        await listener.close(0)


async def test_a_peer_that_is_dialled_may_prove_either_of_its_keys(opened):
    old, new, own = new_secret(), new_secret(), new_secret()
    listed = {0: (public_of(own),), 1: (public_of(old), public_of(new))}
    listener = opened(Keyring(own, listed))
    address = await listener.listen(TCP)
    for secret in (old, new):
        dialler = opened(Keyring(secret, listed))
        link = dialler.dial(address, 0)
        assert await dialler.receive() == Opened(link)
        dialler.send(link, [b"here"])
        assert (await next_of(listener, Arrival)).identity == 1


async def test_who_has_proved_a_key_that_is_listed_no_more_is_turned_away_with_its_next_message(opened):
    rings, new = keyrings(2), public_of(new_secret())
    listener, dialler = opened(rings[0]), opened(rings[1])
    link = dialler.dial(await listener.listen(TCP), 0)
    await next_of(dialler, Opened)
    listener.admit({1: (new.hex(),)})
    dialler.send(link, [b"by the old key"])
    assert await listener.receive() == TurnedAway("127.0.0.1", "unlisted-key", 1)


async def test_a_listener_whose_key_is_listed_no_more_is_left_and_one_with_the_new_key_is_found(opened):
    rings, secret = keyrings(2), new_secret()
    listener, dialler = opened(rings[0]), opened(rings[1])
    address = await listener.listen(TCP)
    link = dialler.dial(address, 0)
    await next_of(dialler, Opened)
    dialler.admit({0: (rings[0].public.hex(), public_of(secret).hex())})
    dialler.send(link, [b"both are listed"])
    assert (await next_of(listener, Arrival)).frames == [b"both are listed"]
    dialler.admit({0: (public_of(secret).hex(),)})
    await next_of(dialler, Broken)
    assert (await next_of(dialler, Unreachable)).link == link
    await listener.close(0)
    await opened(Keyring(secret, rings[0].listed)).listen(address)
    assert await next_of(dialler, Opened) == Opened(link)


async def test_of_an_identity_that_connects_again_and_again_only_the_newest_connection_stays(keyed):
    listener, dialler, address = keyed
    links = []
    for _ in range(3):
        links.append(dialler.dial(address, 0))
        await next_of(dialler, Opened)
        dialler.send(links[-1], [b"here"])
        await next_of(listener, Arrival)
    broken = {(await next_of(dialler, Broken)).link for _ in range(2)}
    assert broken == set(links[:2])
