"""The proof of a key to a relay, against a computation of its own, and what a wrong one looks like."""

import hmac
from hashlib import sha256

import pytest

from dpeer.exceptions import ProtocolError
from dpeer.peer.relay.messages import (
    DIAL,
    LISTEN,
    Claim,
    Verifier,
    prove,
)
from dpeer.peer.transports.curve import new_secret, public_of

P = 2**255 - 19


def x25519(scalar, point):
    """RFC 7748, section 5, as it is printed there."""
    k = int.from_bytes(scalar, "little") & ~7 & ~(128 << 248) | 64 << 248
    u = int.from_bytes(point, "little") & (1 << 255) - 1
    x1, x2, z2, x3, z3, swap = u, 1, 0, u, 1, 0
    for t in reversed(range(255)):
        bit = k >> t & 1
        if swap ^ bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % P, b * b % P, d * a % P, c * b % P
        e = aa - bb
        x3, z3 = (da + cb) ** 2 % P, x1 * (da - cb) ** 2 % P
        x2, z2 = aa * bb % P, e * (aa + 121665 * e) % P
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, P - 2, P) % P).to_bytes(32, "little")


def hkdf(secret, salt, info):
    """RFC 5869, for one block of SHA-256."""
    return hmac.digest(hmac.digest(salt, secret, sha256), info + b"\x01", sha256)


def test_the_ladder_of_this_test_has_the_vector_of_the_rfc():
    scalar = bytes.fromhex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4")
    point = bytes.fromhex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c")
    assert x25519(scalar, point).hex() == "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"


def test_the_proof_is_what_the_module_states():
    secret, relay, nonce, other = new_secret(), new_secret(), b"n" * 32, b"o" * 32
    greeting = b"dpRelay2" + public_of(relay) + nonce
    claim = prove(secret, greeting, DIAL, other)
    own = public_of(secret)
    info = b"dpeer relay 2: proof of a key" + public_of(relay) + own
    key = hkdf(x25519(relay, own), nonce, info)
    signed = greeting + b"D" + own + other
    assert claim == (b"D", own, other, hmac.digest(key, signed, sha256))
    assert Claim.decode(claim.encode()) == claim


def test_a_proof_holds_for_its_greeting_purpose_key_and_other_end_alone():
    verifier, one, other = Verifier(), new_secret(), new_secret()
    greeting = verifier.greeting()
    claim = prove(one, greeting, DIAL, public_of(other))
    assert verifier.holds(greeting, claim)
    assert not verifier.holds(verifier.greeting(), claim)
    assert not Verifier().holds(greeting, claim)
    for change in ({"purpose": LISTEN}, {"key": public_of(other)}, {"other": public_of(one)}):
        assert not verifier.holds(greeting, claim._replace(**change))
    for place in range(32):
        spoilt = bytearray(claim.proof)
        spoilt[place] ^= 1
        assert not verifier.holds(greeting, claim._replace(proof=bytes(spoilt)))


LOW_ORDER = [bytes(32), (1).to_bytes(32, "little"), P.to_bytes(32, "little"), (P - 1).to_bytes(32, "little")]
"""Keys with which everybody knows the shared secret: it is zero."""


@pytest.mark.parametrize("key", LOW_ORDER)
def test_a_key_of_low_order_proves_nothing_and_gets_no_proof(key):
    verifier = Verifier()
    greeting = verifier.greeting()
    known = hkdf(bytes(32), greeting[-32:], b"dpeer relay 2: proof of a key" + greeting[8:40] + key)
    forged = hmac.digest(known, greeting + DIAL + key + bytes(32), sha256)
    assert not verifier.holds(greeting, Claim(DIAL, key, bytes(32), forged))
    with pytest.raises(ProtocolError, match=r"^malformed: what listens at this port is no dpeer relay$"):
        prove(new_secret(), b"dpRelay2" + key + bytes(32), DIAL)


@pytest.mark.parametrize("message", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"dpRelay1" + bytes(64), b"dpRelay2"])
def test_another_greeting_is_refused(message):
    with pytest.raises(ProtocolError, match=r"^malformed: what listens at this port is no dpeer relay$"):
        prove(new_secret(), message, LISTEN)


def test_a_claim_without_a_purpose_is_refused():
    with pytest.raises(ProtocolError, match=r"^malformed: a connection without a purpose$"):
        Claim.decode(b"?" + bytes(96))
