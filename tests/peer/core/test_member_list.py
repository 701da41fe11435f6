"""The document of a member list: one way to write it, signatures, and which list may follow which."""

import json
from dataclasses import replace
from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dpeer.peer.core.member_list import Former, Member, MemberList, MemberListError, Signers, decode, is_quorum

OPERATORS = [Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in range(3)]
ALL = tuple(one.public_key().public_bytes_raw().hex() for one in OPERATORS)
RUN = "ab" * 32


def first(size=4, **changes):
    """List 0: so many members."""
    members = {rank: Member(f"tcp://10.8.0.{rank}:7700", (f"{rank:064x}",)) for rank in range(size)}
    return replace(MemberList(RUN, 0, b"", members, {}, 60, "ring", "00" * 32), **changes)


def after(before, *, add=(), remove=(), **changes):
    """The list that follows, without some ranks and with others."""
    members = {rank: one for rank, one in before.members.items() if rank not in remove}
    members |= {rank: Member(f"tcp://10.8.0.{rank}:7700", (f"{rank:064x}",)) for rank in add}
    former = {**before.former, **{rank: Former(before.members[rank].keys, "left") for rank in remove}}
    how = {"version": before.version + 1, "previous": before.digest, "members": members, "former": former}
    return replace(before, **(how | changes))


def test_a_document_is_read_as_it_was_written():
    one = after(first(), add=[4], remove=[2], force=True, rounds=90).signed(OPERATORS[0])
    again = decode(one.encode())
    assert again == one
    assert again.signatures == one.signatures
    assert again.digest == one.digest
    assert again.encode() == one.encode()
    assert again.members[4] == Member("tcp://10.8.0.4:7700", (f"{4:064x}",))
    assert again.former == {2: Former((f"{2:064x}",), "left")}


def test_list_0_has_one_digest_whatever_addresses_and_keys_a_site_has_in_its_federation_file():
    one, other = first(), first(members={rank: Member(f"tcp://site-{rank}:7700") for rank in range(4)})
    assert one.digest == other.digest != first(5).digest
    assert replace(one, version=1).digest != replace(other, version=1).digest
    assert decode(other.encode()) == other


def test_the_digest_is_of_what_is_signed_and_says_no_signature():
    one = first(version=1)
    plain = json.loads(one.encode())
    del plain["signatures"]
    written = json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()
    assert one.canonical == b"dpeer member list 1\n" + written
    assert one.digest == sha256(one.canonical).digest() == one.signed(OPERATORS[0]).digest
    assert len({one.digest, *(replace(one, **change).digest for change in CHANGES)}) == len(CHANGES) + 1


CHANGES = [
    {"federation": "cd" * 32},
    {"version": 2},
    {"previous": b"1"},
    {"members": {0: Member(), 1: Member()}},
    {"former": {9: Former((), "left")}},
    {"former": {9: Former((), "evicted")}},
    {"rounds": 61},
    {"graph": "full"},
    {"edges": "11" * 32},
    {"force": True},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_a_signature_is_of_all_that_a_list_says(change):
    one = first().signed(OPERATORS[0])
    one.verify(RUN, Signers(ALL))
    forged = replace(one, **change)
    assert forged.signatures == one.signatures
    with pytest.raises(MemberListError, match=r"of federation|the signature of .* is none of an operator"):
        forged.verify(RUN, Signers(ALL))


def test_as_many_operators_must_sign_as_the_federation_file_says():
    one = first().signed(OPERATORS[0])
    with pytest.raises(MemberListError, match="1 operators have signed it, expected 2"):
        one.verify(RUN, Signers(ALL, 2))
    one.signed(OPERATORS[2]).verify(RUN, Signers(ALL, 2))
    with pytest.raises(MemberListError, match="expected 2"):
        one.signed(OPERATORS[0]).verify(RUN, Signers(ALL, 2))  # twice the same
    with pytest.raises(MemberListError, match=f"the signature of {ALL[0][:16]}… is none of an operator"):
        one.verify(RUN, Signers(ALL[1:]))


@pytest.mark.parametrize("junk", [{"00": b"x"}, {ALL[1]: b"short"}, {ALL[1]: bytes(64)}, {"ee" * 32: bytes(99)}])
def test_a_list_with_a_signature_that_is_none_is_refused_though_enough_have_signed(junk):
    one = first().signed(OPERATORS[0])
    one.verify(RUN, Signers(ALL))
    with pytest.raises(MemberListError, match=f"the signature of {next(iter(junk))[:16]}… is none of an operator"):
        replace(one, signatures=one.signatures | junk).verify(RUN, Signers((*ALL, "00")))


def test_the_first_signature_that_is_none_is_the_last_that_is_checked(monkeypatch):
    checked = []
    monkeypatch.setattr(MemberList, "has_signed", lambda self, operator: checked.append(operator))
    with pytest.raises(MemberListError, match="is none of an operator"):
        replace(first(), signatures=dict.fromkeys(ALL, bytes(64))).verify(RUN, Signers(ALL, 3))
    assert checked == [ALL[0]]


def damaged():
    """Documents that are no list, or not written as lists are."""
    content = json.loads(first().signed(OPERATORS[0]).encode())

    def written(**changes):
        return json.dumps(content | changes, sort_keys=True, separators=(",", ":")).encode()

    whole = written()
    assert decode(whole) == first()
    yield from (b"", b"[]", b"{}", b"\xff", whole[:-1], whole + b" ", whole.replace(b",", b", ", 1))
    yield whole.replace(b'"force":false', b'"force":false,"force":false')
    yield b'{"a":' + 100_000 * b"["
    yield written(more=1)
    member, former = content["members"]["0"], {"keys": [], "gone": "left"}
    yield from (written(members={rank: member}) for rank in ("-1", "01", "x", "1.0", "65536", " 1"))
    yield from (written(members={"0": member | {"weight": one}}) for one in (0, -1, "1", True, [1], 10**400))
    yield from (written(members={"0": member | {"keys": one}}) for one in (["xy"], ["abc"], "ab", None, [1]))
    yield from (
        written(members={"0": member | {"address": one}}) for one in ("tcp://a:1\x1b[8m", "a\n", "\ud800", "\u202e")
    )
    yield written(graph="ring\x1b[2J")
    yield from (written(former={"9": former | {"gone": one}}) for one in ("dead", None, 1))
    yield from (written(version=one) for one in (-1, True, 1.0, "1", 2**31, None))
    yield from (written(rounds=one) for one in (-1, False, 2**31, None))
    yield from (written(graph=1), written(force=1), written(edges="AB"), written(signatures={"ab": "xyz"}))
    yield from (written(members=[]), written(former=None), written(previous=7), written(federation=None))


@pytest.mark.parametrize("document", [*damaged()])
def test_a_damaged_document_is_refused_in_one_line(document):
    with pytest.raises(MemberListError) as raised:
        decode(document)
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith("member list")


def test_a_document_that_is_too_long_is_not_read():
    with pytest.raises(MemberListError, match=r"524,289 bytes, expected at most 524,288"):
        decode(bytes(2**19 + 1))


def test_weights_are_of_the_digest():
    members = {rank: Member(None, (), weight) for rank, weight in enumerate((1, 2.5, None, 4))}
    one = first(members=members, version=1)
    assert decode(one.encode()).members == members
    assert one.digest != first(members={**members, 0: Member(None, (), 3)}, version=1).digest


# -- which list follows ------------------------------------------------------------------------------------------------

FOLLOWS = {
    "a newcomer": {"add": [4]},
    "as many newcomers as stay, with the lowest rank": {"add": [4, 5, 6, 7]},
    "one leaves": {"remove": [3]},
    "one leaves and one comes": {"remove": [0], "add": [4]},
    "a number is left out": {"add": [4], "version": 5},
    "more rounds": {"rounds": 90},
    "another graph": {"graph": "full"},
}
REFUSED = {
    "it follows another list": ({"previous": b"1"}, "it follows another list than the one in use, 0"),
    "an old number": ({"version": 0}, "its version is not above 0"),
    "fewer rounds": ({"rounds": 59}, "it has 59 rounds, fewer than 60"),
    "one alone": ({"remove": [1, 2, 3]}, "fewer than two members"),
    "a rank that was used": ({"remove": [3], "former": {}}, "`former` lacks a rank that was a member"),
    "former that is a member": ({"former": {3: Former((), "left")}}, "or names one that still is"),
    "former that never was": ({"former": {9: Former((), "left")}}, "names a rank that never was a member"),
    "a rank is left out": ({"add": [4, 9]}, "its new ranks are 4, 9: the next free one is 4"),
    "too many newcomers": ({"add": [4, 5, 6, 7, 8]}, "5 newcomers outnumber the 4 members that stay"),
    "half without the lowest": ({"remove": [0, 1], "add": [4, 5, 6]}, "3 newcomers outnumber the 2 members that stay"),
}


@pytest.mark.parametrize("case", FOLLOWS)
def test_a_list_follows(case):
    before = first()
    assert after(before, **FOLLOWS[case]).why_not_after(before) is None


@pytest.mark.parametrize("case", REFUSED)
def test_a_list_that_does_not_follow_has_its_reason(case):
    before = first()
    changes, reason = REFUSED[case]
    assert reason in after(before, **changes).why_not_after(before)


def test_a_rank_is_never_used_again():
    left = after(first(), remove=[3])
    assert left.next_rank == 4
    again = replace(after(left, add=[3]), former={})
    assert "`former` lacks a rank" in again.why_not_after(left)
    gap = first(members={0: Member(), 1: Member(), 5: Member()})
    assert "the next free one is 6" in after(gap, add=[2]).why_not_after(gap)
    forgotten = after(after(left, add=[4]), former={})
    assert "`former` lacks a rank" in forgotten.why_not_after(after(left, add=[4]))


@pytest.mark.parametrize(
    ("members", "ranks", "found"),
    [
        ("0123", "012", True),
        ("0123", "01", True),
        ("0123", "12", False),
        ("0123", "0", False),
        ("0123", "", False),
        ("012", "12", True),
        ("012", "0", False),
        ("012", "0789", False),
        ("24", "2", True),
        ("24", "4", False),
        ("", "", False),
    ],
)
def test_a_quorum_is_more_than_half_or_half_with_the_lowest_rank(members, ranks, found):
    assert is_quorum([*map(int, members)], [*map(int, ranks)]) is found
