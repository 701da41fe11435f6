"""Epochs: their form, which never changes, what signs them, and what follows what."""

import hashlib
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from dpeer.exceptions import ProtocolError
from dpeer.peer.core.epoch import (
    Epoch,
    EpochGraph,
    Member,
    SignedEpoch,
    Void,
    check_successor,
    first_epoch,
    genesis_of,
    operator_of,
    successor,
)
from dpeer.peer.core.limits import EPOCH_BYTES, HIGHEST_RANK, MOST_MEMBERS

VECTORS = json.loads((Path(__file__).parent / "epochs.json").read_text())
ONE, TWO, THREE = bytes([1] * 32), bytes([2] * 32), bytes([3] * 32)
RING = EpochGraph(settings={"topology": "ring", "rewire": 0.1, "degree": 4, "grid_shape": None}, edges="0" * 16)
KEY = "ab" * 32


def first(*secrets: bytes, signers: int = 1, size: int = 3) -> Epoch:
    operators = [operator_of(secret) for secret in secrets or (ONE,)]
    genesis = genesis_of({"size": size, "rounds": 20})
    return first_epoch(genesis, size=size, operators=operators, signers=signers, graph=RING, rounds=20)


START = first()


def follows(previous: Epoch = START, *secrets: bytes, **changes: Any) -> SignedEpoch:
    signed = SignedEpoch(epoch=successor(previous, **{"begins": previous.begins + 5, "graph": RING, **changes}))
    for secret in secrets or (ONE,):
        signed = signed.signed_with(secret)
    return signed


def altered(signed: SignedEpoch, *secrets: bytes, **fields: Any) -> SignedEpoch:
    """The same with other fields, signed anew: an operator may sign anything."""
    changed = SignedEpoch(epoch=signed.epoch.model_copy(update=fields))
    for secret in secrets or (ONE,):
        changed = changed.signed_with(secret)
    return changed


# -- the form ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["about"] for vector in VECTORS])
def test_documents_of_earlier_versions_are_read_and_written_to_the_byte(vector: dict[str, Any]) -> None:
    signed = SignedEpoch.decode(vector["document"].encode())
    assert signed.encode().decode() == vector["document"]
    assert signed.epoch.digest == vector["digest"]


def test_the_chain_of_the_vectors_holds() -> None:
    chain = [SignedEpoch.decode(vector["document"].encode()) for vector in VECTORS]
    for before, after in pairwise(chain):
        check_successor(after, before.epoch)


def test_the_digest_and_the_signature_are_those_of_an_independent_reading() -> None:
    signed = follows(join={7: Member(address="tcp://10.0.0.7:7707", keys=(KEY,))})
    read = json.loads(signed.encode())
    text = json.dumps(read["epoch"], sort_keys=True, separators=(",", ":")).encode()
    assert hashlib.sha256(text).hexdigest() == signed.epoch.digest
    public = Ed25519PrivateKey.from_private_bytes(ONE).public_key()
    public.verify(bytes.fromhex(read["signatures"][public.public_bytes_raw().hex()]), b"dpeer epoch 1\n" + text)


def test_a_signature_is_no_part_of_an_epochs_identity() -> None:
    one, two = follows(START, ONE), follows(START, TWO)
    assert one.epoch == two.epoch
    assert one.epoch.digest == two.epoch.digest
    assert len({one.epoch, two.epoch}) == 1


def test_a_changed_copy_has_a_hash_of_its_own_and_is_checked() -> None:
    digest = START.digest
    copy = START.model_copy(update={"rounds": 21})
    assert copy.digest != digest
    assert copy.model_copy(update={"rounds": 20}).digest == digest
    with pytest.raises(ValueError, match="2 signers of 1 operators"):
        START.model_copy(update={"signers": 2})


def test_the_genesis_differs_with_any_value_and_not_with_their_order() -> None:
    assert genesis_of({"size": 3, "rounds": 4}) == genesis_of({"rounds": 4, "size": 3})
    assert genesis_of({"size": 3, "rounds": 4}) != genesis_of({"size": 3, "rounds": 5})


def test_epoch_zero_has_the_members_of_the_federation_file() -> None:
    assert START.ranks == (0, 1, 2)
    assert {*START.members.values()} == {Member(address=None, keys=(), since=0)}
    assert (START.number, START.begins, START.previous) == (0, 0, START.genesis)


# -- what comes from others --------------------------------------------------------------------------------------------

GOOD = follows(START, ONE, TWO, join={3: Member(address="tcp://10.0.0.3:7703", keys=(KEY,))}, leave=[1]).encode()


def test_a_document_is_read_as_it_was_written() -> None:
    assert SignedEpoch.decode(GOOD).encode() == GOOD
    assert SignedEpoch.decode(memoryview(GOOD)).epoch.former == (1,)


TEXT = GOOD.decode()
OPERATOR, SIGNATURE = next(iter(json.loads(TEXT)["signatures"].items()))
HOSTILE = {
    "empty": "",
    "not JSON": "{",
    "not text": b"\xff\xfe",
    "not a table": "[]",
    "deep lists": "[" * 100_000,
    "deep tables": '{"epoch":' * 100_000,
    "another order": json.dumps(dict(reversed(json.loads(TEXT).items())), separators=(",", ":")),
    "spaces": json.dumps(json.loads(TEXT), sort_keys=True),
    "something after it": TEXT + "\n",
    "a key twice": TEXT.replace('"number":1', '"number":1,"number":1'),
    "the same signer twice": TEXT.replace(f'"{OPERATOR}":', f'"{OPERATOR}":"{SIGNATURE}","{OPERATOR}":', 1),
    "a rank twice": TEXT.replace('"members":{', '"members":{"00":{"address":null,"keys":[],"since":0},'),
    "a number as text": TEXT.replace('"number":1', '"number":"1"'),
    "a number with a point": TEXT.replace('"number":1', '"number":1.0'),
    "a number beyond all": TEXT.replace('"number":1', '"number":1' + "0" * 5000),
    "a negative round": TEXT.replace('"begins":5', '"begins":-5'),
    "true for a number": TEXT.replace('"number":1', '"number":true'),
    "NaN": TEXT.replace("0.1", "NaN"),
    "infinity": TEXT.replace("0.1", "1e999"),
    "a number written otherwise": TEXT.replace("0.1", "0.10"),
    "an unknown field": TEXT.replace('"number":1', '"number":1,"other":1'),
    "a field less": TEXT.replace('"forced":false,', ""),
    "capital hexadecimal digits": TEXT.replace(KEY, KEY.upper()),
    "a short key": TEXT.replace(KEY, KEY[2:]),
    "a short signature": TEXT.replace(SIGNATURE, SIGNATURE[2:]),
    "an address that is not printable": TEXT.replace("10.0.0.3", "10.0.0.3\\u001b"),
    "an address without end": TEXT.replace("10.0.0.3", "1" * 301),
    "a rank beyond tables": TEXT.replace('"3":{', f'"{HIGHEST_RANK + 1}":{{'),
    "a negative rank": TEXT.replace('"3":{', '"-3":{'),
    "a former rank that is a member": TEXT.replace('"former":[1]', '"former":[1,2]'),
    "former ranks not in order": TEXT.replace('"former":[1]', '"former":[9,1]'),
    "more signers than operators": TEXT.replace('"signers":1', '"signers":2'),
    "one signer less than one": TEXT.replace('"signers":1', '"signers":0'),
    "no operators": TEXT.replace(f'"operators":["{operator_of(ONE)}"]', '"operators":[]'),
    "an operator twice": TEXT.replace(f'["{operator_of(ONE)}"]', f'["{operator_of(ONE)}","{operator_of(ONE)}"]'),
    "a graph as text": TEXT.replace('"graph":{', '"graph":"{'),
    "a setting of the graph that is a list": TEXT.replace("0.1", "[0.1]"),
    "a void epoch of three values": TEXT.replace('"void":[]', f'"void":[[1,"{KEY}",1]]'),
}


@pytest.mark.parametrize("document", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_document_is_refused(document: str | bytes) -> None:
    data = document if isinstance(document, bytes) else document.encode()
    assert data != GOOD, "the case is none"
    with pytest.raises(ProtocolError) as refused:
        SignedEpoch.decode(data)
    assert refused.value.reason == "malformed"
    assert len(str(refused.value)) < 250


LARGE = {
    "bytes": b" " * (EPOCH_BYTES + 1),
    "members": b'{"epoch":{"members":{%s}}}' % b",".join(b'"%d":1' % rank for rank in range(9000)),
    "unknown fields": b'{"epoch":{%s}}' % b",".join(b'"a%d":1' % number for number in range(9000)),
    "lists": b'{"epoch":{"void":[%s]}}' % b",".join([b"[]"] * 9000),
}


@pytest.mark.parametrize("document", LARGE.values(), ids=LARGE.keys())
def test_a_large_document_is_refused_before_anything_is_made_of_it(document: bytes) -> None:
    with pytest.raises(ProtocolError) as refused:
        SignedEpoch.decode(document)
    assert refused.value.reason == "oversized"


def test_as_many_members_as_may_be_fit_into_a_document() -> None:
    new = {rank: Member(address=f"tcp://[2001:db8::{rank:04x}]:7700", keys=(f"{rank:064x}", f"{rank + 2**20:064x}"))
           for rank in range(3, MOST_MEMBERS)}  # fmt: skip
    signed = follows(START, ONE, join=new)
    assert SignedEpoch.decode(signed.encode()).epoch == signed.epoch


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_bytes_are_an_epoch_or_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        SignedEpoch.decode(data)


@given(st.data())
def test_a_good_document_that_was_changed_is_refused_or_is_another_one(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(GOOD) - 1))
    length = data.draw(st.integers(0, 8))
    changed = GOOD[:start] + data.draw(st.binary(max_size=8)) + GOOD[start + length :]
    try:
        signed = SignedEpoch.decode(changed)
    except ProtocolError:
        return
    assert signed.encode() == changed
    if changed != GOOD:
        with pytest.raises(ProtocolError):
            check_successor(signed, START)


# -- what follows what -------------------------------------------------------------------------------------------------


def test_a_chain_of_changes_holds() -> None:
    one = follows(START, join={3: Member(address="tcp://10.0.0.3:7703", keys=(KEY,)), 4: Member()})
    check_successor(one, START)
    assert (one.epoch.number, one.epoch.ranks, one.epoch.members[3].since) == (1, (0, 1, 2, 3, 4), 5)
    two = follows(one.epoch, leave=[0], rounds=40)
    check_successor(two, one.epoch)
    assert (two.epoch.ranks, two.epoch.former, two.epoch.highest) == ((1, 2, 3, 4), (0,), 4)
    three = follows(two.epoch, leave=[4], forced=True)
    check_successor(three, two.epoch)
    assert (three.epoch.former, three.epoch.highest, three.epoch.rounds) == ((0, 4), 4, 40)


MOVED = {"its key": {"keys": (KEY,)}, "its address": {"address": "tcp://10.0.9.1:7701"}}


@pytest.mark.parametrize("joined", [False, True], ids=["a first member", "one that joined"])
@pytest.mark.parametrize("change", MOVED.values(), ids=MOVED.keys())
def test_no_change_hides_another_key_or_address_of_a_member(change: dict[str, Any], joined: bool) -> None:
    before = follows(join={3: Member(address="tcp://10.0.0.3:7703", keys=("cd" * 32,))}).epoch if joined else START
    rank = 3 if joined else 1
    swapped = before.members[rank].model_copy(update=change)
    hidden = altered(follows(before, rounds=40), members={**before.members, rank: swapped})
    with pytest.raises(
        ProtocolError, match=f"epoch {hidden.epoch.number} changes the key or the address of rank {rank}"
    ):
        check_successor(hidden, before)
    check_successor(follows(before, rounds=40), before)


def test_many_members_are_reached_through_one_relay_and_no_two_at_one_address() -> None:
    def joins(address: str) -> SignedEpoch:
        return follows(join={rank: Member(address=address, keys=(str(rank) * 64,)) for rank in (3, 4)})

    check_successor(joins("relay://relay.example:7790"), START)
    with pytest.raises(ValueError, match="two members have one key or one address"):
        joins("tcp://10.0.0.3:7703")


def test_evicted_ranks_are_named_for_ever_and_a_document_without_any_is_as_before() -> None:
    assert b"evicted" not in LEFT.encode()
    one = follows(join={3: Member()}, leave=[0], evict=[1])
    check_successor(SignedEpoch.decode(one.encode()), START)
    two = follows(one.epoch, leave=[2], join={4: Member()})
    check_successor(SignedEpoch.decode(two.encode()), one.epoch)
    assert (one.epoch.former, one.epoch.evicted) == ((0, 1), (1,))
    assert (two.epoch.former, two.epoch.evicted) == ((0, 1, 2), (1,))
    assert one.epoch.digest != altered(one, evicted=()).epoch.digest
    with pytest.raises(ProtocolError, match="not in canonical form"):
        SignedEpoch.decode(LEFT.encode().replace(b'"forced"', b'"evicted":[],"forced"'))


def test_an_epoch_after_void_ones_names_them() -> None:
    late, twin = follows().epoch, follows(leave=[2]).epoch
    after = follows(void=[Void(1, late.digest), Void(1, twin.digest)], begins=9)
    check_successor(after, START)
    assert after.epoch.number == 2
    further = follows(void=[Void(2, after.epoch.digest), Void(1, late.digest)], begins=12)
    check_successor(further, START)
    assert [one.number for one in further.epoch.void] == [1, 2]


def test_operators_and_the_number_of_signers_change_by_an_epoch_of_those_before() -> None:
    change = follows(START, ONE, operators=[operator_of(TWO), operator_of(THREE)], signers=2)
    check_successor(change, START)
    check_successor(follows(change.epoch, TWO, THREE), change.epoch)
    check_successor(follows(change.epoch, THREE, TWO), change.epoch)
    for secrets in ((ONE,), (TWO,), (ONE, TWO), (ONE, TWO, THREE)):
        with pytest.raises(ProtocolError):
            check_successor(follows(change.epoch, *secrets), change.epoch)


def test_a_signature_of_each_operator_is_enough_whatever_their_number() -> None:
    three = first(ONE, TWO, THREE, signers=2)
    check_successor(follows(three, ONE, THREE), three)
    check_successor(follows(three, ONE, TWO, THREE), three)
    with pytest.raises(ProtocolError, match="has 1 of the 2 signatures that it needs"):
        check_successor(follows(three, TWO), three)


ADDED = follows(join={3: Member()})
LEFT = follows(leave=[1])
EVICTED = follows(evict=[1])
GENESIS = "1" * 64
WRONG = {
    "another federation": (altered(follows(), genesis=GENESIS), START, f"is of another federation: genesis {'1' * 16}"),
    "the same number again": (follows(), follows().epoch, "is not new: epoch 1 is known"),
    "an old number": (follows(), follows(follows().epoch).epoch, "is not new: epoch 2 is known"),
    "a number left out": (altered(follows(), number=2), START, "the void epochs that it names are not those"),
    "a number far away": (altered(follows(), number=2**31 - 1), START, "the void epochs that it names are not those"),
    "a void one too many": (
        altered(follows(), void=(Void(1, KEY),)), START, "the void epochs that it names are not those",
    ),
    "void ones of other numbers": (
        altered(follows(), number=3, void=(Void(1, KEY), Void(3, KEY))), START,
        "the void epochs that it names are not those",
    ),
    "another epoch before it": (altered(follows(), previous=GENESIS), START, "follows another epoch 0"),
    "a twin's successor": (follows(ADDED.epoch), LEFT.epoch, "follows another epoch 1"),
    "begins when the one before does": (follows(begins=0), START, "begins in round 0: expected one after 0"),
    "begins after the last round": (follows(begins=20), START, "begins in round 20: expected one after 0 and before"),
    "begins after the end that the one before plans": (
        follows(begins=21, rounds=25), START, "begins in round 21, and the federation has ended after 20",
    ),
    "fewer rounds": (follows(rounds=19), START, "has 19 rounds, fewer than the 20 so far"),
    "a new member of old": (
        altered(ADDED, members={**ADDED.epoch.members, 3: Member(since=0)}), START,
        "has rank 3 a member since round 0: expected 5",
    ),
    "an old member of new": (
        altered(follows(), members={**START.members, 1: Member(since=5)}), START,
        "has rank 1 a member since round 5: expected 0",
    ),
    "a leaver not among the former": (altered(LEFT, former=()), START, "names other former ranks"),
    "a leaver that never was": (follows(leave=[9]), START, "names other former ranks"),
    "a former rank that never was": (altered(follows(), former=(9,)), START, "names other former ranks"),
    "an evicted rank that left before": (
        altered(follows(LEFT.epoch), evicted=(1,)), LEFT.epoch, "names other evicted ranks",
    ),
    "an evicted rank that is forgotten": (
        altered(follows(EVICTED.epoch), evicted=()), EVICTED.epoch, "names other evicted ranks",
    ),
    "forced without a leaver": (follows(forced=True), START, "is forced and takes no rank out"),
    "no signature": (SignedEpoch(epoch=follows().epoch), START, "has 0 of the 1 signatures"),
    "a stranger's signature": (follows(START, TWO), START, "which is no operator of epoch 0"),
    "a stranger's signature beside": (follows(START, ONE, TWO), START, "which is no operator of epoch 0"),
    "the signature of another epoch": (
        SignedEpoch(epoch=ADDED.epoch, signatures=LEFT.signatures), START, "has a signature of 8a88e3dd7409f195",
    ),
    "a signature of the bare document": (
        SignedEpoch(epoch=LEFT.epoch, signatures={
            operator_of(ONE): Ed25519PrivateKey.from_private_bytes(ONE).sign(LEFT.epoch.canonical).hex()
        }), START, "has a signature of 8a88e3dd7409f195 that is wrong",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("signed", "previous", "words"), WRONG.values(), ids=WRONG.keys())
def test_what_does_not_follow_is_refused(signed: SignedEpoch, previous: Epoch, words: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        check_successor(signed, previous)
    assert refused.value.reason == "epoch"
    assert words in str(refused.value)


def test_a_rank_is_never_used_again() -> None:
    later = follows(LEFT.epoch).epoch
    again = altered(follows(later), former=(), members={**later.members, 1: Member(since=10)})
    with pytest.raises(ProtocolError, match="has rank 1 join, which was a member before: a rank is never used again"):
        check_successor(again, later)


def test_a_key_that_is_no_point_of_the_curve_signs_nothing() -> None:
    nonsense = "02" + "00" * 31
    strange = first_epoch(GENESIS, size=3, operators=[nonsense], signers=1, graph=RING, rounds=20)
    signed = SignedEpoch(epoch=follows(strange).epoch, signatures={nonsense: "00" * 64})
    with pytest.raises(ProtocolError, match="is wrong"):
        check_successor(signed, strange)


@pytest.mark.parametrize("change", [{"leave": [0, 1]}, {"join": {3: Member(keys=(KEY,)), 4: Member(keys=(KEY,))}},
                                    {"signers": 2}, {"operators": []}])  # fmt: skip
def test_an_epoch_that_nobody_could_follow_cannot_be_made(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        successor(START, begins=5, graph=RING, **change)
