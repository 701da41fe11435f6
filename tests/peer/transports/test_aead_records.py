"""Test vectors of the encrypted records of bulk channels: keys by direction, nonces, truncation.

A record is AES-256-GCM of its content, without additional data, and the tag of 16 bytes after it. Its nonce is its
number in its direction of the connection: 12 bytes, the highest first. The vectors are of the GCM mode of
`cryptography`'s ciphers, not of its AESGCM, which the code uses:

    cipher = Cipher(algorithms.AES(key), modes.GCM(number.to_bytes(12, "big"))).encryptor()
    record = cipher.update(content) + cipher.finalize() + cipher.tag
"""

import hashlib

import pytest

from dpeer.exceptions import ProtocolError
from dpeer.peer.transports.aead_records import KEY_BYTES, RECORD, TAG, Decryptor, Encryptor, new_key

THERE, BACK = bytes(range(KEY_BYTES)), bytes(range(255, 255 - KEY_BYTES, -1))
"""The keys of the two directions of a connection."""

CONTENTS = [bytes(range(0x40, 0x50)), b"", b"the buffers", b"same", b"same"]
"""Record 0 holds the token of 16 bytes."""

VECTORS = {
    THERE: [
        "4efdf79df169c5fa40e1e37e5461dfd6045a9462972b4bf9af1c6100d5927369",
        "367ef8288831557408e102950a16e26a",
        "bd194b5dd63ebcb7dc7f4f3488279912c1ce4d8f38c489260c10b1",
        "7e4563d67ab7c7d75ed8d401975c872fe9e76bfe",
        "6829a064d32b55c1175ce1340caea9b1c75114dc",
    ],
    BACK: [
        "d0dbb1941c21855f7d3badd39b2f7d2ed373213da086516cbfc7ea84beda0aea",
        "19267468f7293d0561a5da03b007a923",
        "a35dc0c6a21a136ff4e15d9fae06694fff234d7a43d6d06fc653f8",
        "c3479287981863f34361de60474ca7905cd98d3b",
        "0790d6e5123ed64521677b7353aa036f17219ea1",
    ],
}
LONGEST = "e2c650bd5334fc154d81a103e845c0c00971f3b0dd35b3f5818de8498088858a"
"""SHA-256 of the longest record: number 0 under THERE, of zeros."""


def encrypted(encryptor, content):
    record = bytearray(len(content) + TAG)
    encryptor.encrypt(memoryview(content), memoryview(record))
    return bytes(record)


def decrypted(decryptor, record):
    content = bytearray(max(len(record) - TAG, 0))
    decryptor.decrypt(memoryview(record), memoryview(content))
    return bytes(content)


def records(key=THERE):
    return [bytes.fromhex(record) for record in VECTORS[key]]


@pytest.mark.parametrize("key", VECTORS, ids=["there", "back"])
def test_records_are_those_of_the_vectors(key):
    encryptor, decryptor = Encryptor(key), Decryptor(key)
    assert [encrypted(encryptor, content) for content in CONTENTS] == records(key)
    assert [decrypted(decryptor, record) for record in records(key)] == CONTENTS


def test_the_longest_record_is_the_vectors():
    assert hashlib.sha256(encrypted(Encryptor(THERE), bytes(RECORD))).hexdigest() == LONGEST


def test_keys_are_new_and_have_256_bits():
    assert len({new_key() for _ in range(100)}) == 100
    assert len(new_key()) == 32


@pytest.mark.parametrize(
    ("before", "record"),
    {
        "the other direction's": (0, records(BACK)[0]),
        "one is missing": (0, records()[1]),
        "two are exchanged": (2, records()[4]),
        "one is doubled": (1, records()[0]),
        "its first bit is changed": (0, bytes([records()[0][0] ^ 128]) + records()[0][1:]),
        "its last bit is changed": (0, records()[0][:-1] + bytes([records()[0][-1] ^ 1])),
        "its last byte is missing": (0, records()[0][:-1]),
        "its content is missing": (0, records()[0][-TAG:]),
        "its tag is missing": (0, records()[0][:-TAG]),
        "a byte is added": (0, records()[0] + b"\0"),
        "zeros": (0, bytes(len(records()[0]))),
    }.values(),
    ids=lambda value: None if isinstance(value, int) else "",
)
def test_another_record_is_not_opened(before, record):
    decryptor = Decryptor(THERE)
    for earlier in records()[:before]:
        decrypted(decryptor, earlier)
    with pytest.raises(ProtocolError) as raised:
        decrypted(decryptor, record)
    assert raised.value.reason == "damaged"
