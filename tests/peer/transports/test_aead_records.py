"""Encrypted records: their format, and that only the next one can be opened."""

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dpeer.exceptions import ProtocolError
from dpeer.peer.transports.aead_records import KEY_BYTES, SEAL, Opening, Sealing, new_key

KEY = bytes(range(KEY_BYTES))


def records(*parts):
    sealing, found = Sealing(KEY), []
    for part in parts:
        room = bytearray(len(part) + SEAL)
        sealing.seal(memoryview(part), memoryview(room))
        found.append(bytes(room))
    return found


def opened(opening, record):
    room = bytearray(len(record) - SEAL)
    opening.open(memoryview(record), memoryview(room))
    return bytes(room)


def test_a_record_is_aes_256_gcm_with_its_number_as_nonce():
    parts = [b"first", b"", b"third" * 1000]
    for number, (part, record) in enumerate(zip(parts, records(*parts), strict=True)):
        assert AESGCM(KEY).decrypt(number.to_bytes(12, "big"), record, None) == part


def test_equal_parts_make_different_records():
    assert len({*records(b"same", b"same", b"same")}) == 3


def test_keys_are_new_and_have_256_bits():
    assert len({new_key() for _ in range(100)}) == 100
    assert len(new_key()) == 32


def test_records_are_opened_in_their_order():
    opening = Opening(KEY)
    assert [opened(opening, one) for one in records(b"a", b"bb", b"")] == [b"a", b"bb", b""]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda first, second: second,  # one is missing, or two are exchanged
        lambda first, second: first[:-1] + bytes([first[-1] ^ 1]),
        lambda first, second: bytes([first[0] ^ 128]) + first[1:],
        lambda first, second: first[:-1],
        lambda first, second: first + b"\0",
        lambda first, second: bytes(len(first)),
    ],
)
def test_another_one_is_not(wrong):
    first, second = records(b"the first", b"the second")
    with pytest.raises(ProtocolError) as raised:
        opened(Opening(KEY), wrong(first, second))
    assert raised.value.reason == "damaged"


def test_none_is_opened_twice():
    (record,) = records(b"once")
    opening = Opening(KEY)
    opened(opening, record)
    with pytest.raises(ProtocolError):
        opened(opening, record)


def test_with_another_key_it_is_not_opened():
    (record,) = records(b"part")
    with pytest.raises(ProtocolError):
        opened(Opening(new_key()), record)
