"""Epoch documents: members, graph, rounds and operators from a round on; canonical form, signatures, hash chain.

An epoch names everything that can change while a federation runs: members, operators, graph, number of rounds. Epoch 0
follows from the federation file and needs no signature. Every later one is signed by operators of the epoch before it,
holds that one's hash, and begins in a round that it names.

A document is canonical JSON in ASCII: keys sorted, no spaces, each number as Python prints it. `SignedEpoch.decode`
takes no other form, so an epoch has one hash, and no key stands twice. Signatures are Ed25519 (RFC 8032) over a prefix
and the document.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple, NoReturn, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from dpeer.exceptions import ProtocolError
from dpeer.peer.core.limits import EPOCH_BYTES, EPOCH_ENTRIES, HIGHEST_RANK, MOST_MEMBERS, MOST_OPERATORS
from dpeer.peer.learner import Buffer
from dpeer.peer.transport import RELAY
from dpeer.topology import Graphs

_PREFIX = b"dpeer epoch 1\n"
"""What a signature covers before the document: a signature of anything else is none of an epoch."""


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("not printable")
    return text


Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""SHA-256, hexadecimal."""
Key = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""A public key of 32 bytes, hexadecimal: CURVE of a member, Ed25519 of an operator."""
_Signature = Annotated[str, Field(pattern="^[0-9a-f]{128}$")]
_Rank = Annotated[int, Field(ge=0, le=HIGHEST_RANK)]
_RankAsText = Annotated[int, Field(strict=False, ge=0, le=HIGHEST_RANK)]
"""As a key of a JSON table is."""
Edge = tuple[_Rank, _Rank]
_Round = Annotated[int, Field(ge=0, lt=2**53)]
_Number = Annotated[int, Field(ge=0, lt=2**31)]
_Words = Annotated[str, Field(max_length=300), AfterValidator(_printable)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Member(_Part):
    """A member of an epoch."""

    address: _Words | None = None
    """Where its neighbors dial it; None: as the federation file has it, and without an entry there it only dials."""
    keys: Annotated[tuple[Key, ...], Field(max_length=2), FailFast()] = ()
    """Its public CURVE keys; empty: those of the federation file."""
    since: _Round = 0
    """The round in which it became a member."""


class EpochGraph(_Part):
    """The graph of an epoch, over its members in the order of their ranks."""

    settings: Annotated[dict[_Words, _Words | bool | int | float | None], Field(max_length=32)]
    """The settings of the graph by name, without the size, which is the number of members."""
    edges: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    """The digest of its edges and weights, of which a peer that builds the graph must find the same."""
    listed: Annotated[tuple[Edge, ...], FailFast()] = ()
    """The edges themselves, sorted, by rank, the lower one first, where no rule makes them; else empty."""

    @model_validator(mode="after")
    def _sorted(self) -> Self:
        if list(self.listed) != sorted(set(self.listed)) or any(one >= other for one, other in self.listed):
            raise ValueError("the edges are not sorted, or one stands twice or joins a rank to itself")
        return self


class Void(NamedTuple):
    """An epoch that has not begun, and never will."""

    number: _Number
    digest: Digest


class Epoch(_Part):
    """One epoch of a federation. Its hash is its identity; signatures are no part of it."""

    genesis: Digest
    """The hash of the fingerprint with which the federation started."""
    number: _Number
    previous: Digest
    """The hash of the epoch that it follows; of epoch 0 the genesis."""
    members: Annotated[dict[_RankAsText, Member], Field(min_length=2, max_length=MOST_MEMBERS)]
    """The members by rank. A rank is a name, and never used again."""
    former: Annotated[tuple[_Rank, ...], FailFast()] = ()
    """The ranks that were members once, sorted."""
    evicted: Annotated[tuple[_Rank, ...], FailFast()] = ()
    """Those of them that were taken out and did not leave, sorted; the document names it only if it is not empty."""
    operators: Annotated[tuple[Key, ...], Field(min_length=1, max_length=MOST_OPERATORS), FailFast()]
    """Public keys of those who may sign the next epoch."""
    signers: Annotated[int, Field(ge=1)] = 1
    """How many of them must."""
    graph: EpochGraph
    rounds: _Round
    """How many rounds the run has."""
    begins: _Round
    """The first round in it."""
    void: Annotated[tuple[Void, ...], FailFast()] = ()
    """The epochs of the numbers between the one that it follows and itself, sorted; of a number there may be two."""
    forced: bool = False
    """Whether it begins without a quorum of the epoch before it: the operators vouch that the ranks it takes out do
    not run on."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        named = {"operators": self.operators, "former": self.former, "evicted": self.evicted, "void": self.void}
        for name, values in named.items():
            if len(set(values)) < len(values):
                raise ValueError(f"{name}: one stands twice")
        if any(list(values) != sorted(values) for values in (self.former, self.evicted, self.void)):
            raise ValueError("former, evicted or void is not sorted")
        if not {*self.evicted} <= {*self.former}:
            raise ValueError("an evicted rank is no former one")
        if self.signers > len(self.operators):
            raise ValueError(f"{self.signers} signers of {len(self.operators)} operators")
        if not self.members.keys().isdisjoint(self.former):
            raise ValueError("a former rank is a member")
        if self.graph.listed and {rank for edge in self.graph.listed for rank in edge} != self.members.keys():
            raise ValueError("the edges do not join the members")
        keys = [key for member in self.members.values() for key in member.keys]
        given = [member.address for member in self.members.values() if member.address is not None]
        addresses = [one for one in given if not one.startswith(RELAY)]  # many are reached through one relay
        if len(set(keys)) < len(keys) or len(set(addresses)) < len(addresses):
            raise ValueError("two members have one key or one address")
        return self

    @model_serializer(mode="wrap")
    def _without_nothing(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = dump(self)
        return found if self.evicted else {name: value for name, value in found.items() if name != "evicted"}

    @cached_property
    def canonical(self) -> bytes:
        """The document, which is hashed and signed."""
        return _canonical(self.model_dump(mode="json"))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the document, hexadecimal."""
        return hashlib.sha256(self.canonical).hexdigest()

    @property
    def ranks(self) -> tuple[int, ...]:
        """The members' ranks, sorted: the graph's first peer is the first of them."""
        return tuple(sorted(self.members))

    @property
    def highest(self) -> int:
        """The highest rank that was ever named."""
        return max(*self.members, *self.former)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Epoch:
        """The epoch with other fields, checked like a new one; pydantic's own would keep the old hash."""
        return Epoch(**{name: getattr(self, name) for name in Epoch.model_fields} | dict(update or {}))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Epoch) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


class SignedEpoch(_Part):
    """An epoch with signatures of operators, as it travels and as it is kept."""

    epoch: Epoch
    signatures: Annotated[dict[Key, _Signature], Field(max_length=MOST_OPERATORS)] = Field(default_factory=dict)
    """By public key of the operator."""

    def encode(self) -> bytes:
        """The document with its signatures, in the only form that `decode` takes."""
        return _canonical(self.model_dump(mode="json"))

    @classmethod
    def decode(cls, document: Buffer) -> SignedEpoch:
        """The signed epoch of a document; what it says of an epoch before it is not checked (`check_successor`).

        Raises:
            ProtocolError: reason "oversized" or "malformed".
        """
        text = bytes(document[: EPOCH_BYTES + 1])
        if len(text) > EPOCH_BYTES:
            raise ProtocolError("oversized", f"epoch of more than {EPOCH_BYTES} bytes")
        _skim(text)
        try:
            signed = cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ProtocolError("malformed", f"epoch {where[:60]}: {first['msg'][:100]}") from error
        if signed.encode() != text:  # another order, a key twice, a space: two hashes of one epoch
            raise ProtocolError("malformed", "epoch is not in canonical form")
        return signed

    def signed_with(self, secret: bytes) -> SignedEpoch:
        """The same epoch with one more signature.

        Args:
            secret: The operator's Ed25519 key, 32 bytes.
        """
        key = Ed25519PrivateKey.from_private_bytes(secret)
        signature = key.sign(_PREFIX + self.epoch.canonical).hex()
        return SignedEpoch(epoch=self.epoch, signatures={**self.signatures, operator_of(secret): signature})


@dataclass(frozen=True)
class EpochSetup:
    """What a peer needs to follow its federation through epochs.

    Attributes:
        first: Epoch 0, which follows from the federation file.
        graphs_of: The graphs of an epoch, by rank. Raises `TopologyError` where they cannot be built, or their edges
            are not those that the epoch names.
        check_address: Refuses an address at which no member could be dialled, named by its key. Raises `AddressError`.
            None where any suits.
        keyed: Whether connections need keys, so that a new member has one.
    """

    first: Epoch
    graphs_of: Callable[[Epoch], Graphs]
    check_address: Callable[[str, str], None] | None = None
    keyed: bool = False


def operator_of(secret: bytes) -> str:
    """The public key of an operator's secret one, hexadecimal."""
    return Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw().hex()


def genesis_of(fingerprint: Mapping[str, Any]) -> str:
    """The genesis of a federation with this fingerprint."""
    return hashlib.sha256(_canonical(fingerprint)).hexdigest()


def first_epoch(
    genesis: str, *, size: int, operators: Iterable[str], signers: int, graph: EpochGraph, rounds: int
) -> Epoch:
    """Epoch 0: ranks 0 to size - 1, with the addresses and keys of the federation file."""
    members = {rank: Member() for rank in range(size)}
    return Epoch(
        genesis=genesis, number=0, previous=genesis, members=members, operators=tuple(operators), signers=signers,
        graph=graph, rounds=rounds, begins=0,
    )  # fmt: skip


def successor(
    previous: Epoch,
    *,
    begins: int,
    graph: EpochGraph,
    join: Mapping[int, Member] | None = None,
    leave: Collection[int] = (),
    evict: Collection[int] = (),
    rounds: int | None = None,
    operators: Iterable[str] | None = None,
    signers: int | None = None,
    void: Iterable[Void] = (),
    forced: bool = False,
) -> Epoch:
    """The epoch that follows another one, with some changes; not signed.

    Args:
        previous: The epoch that it follows.
        begins: The first round in it.
        graph: The graph of its members.
        join: New members by rank.
        leave: Ranks that leave.
        evict: Ranks that are taken out.
        rounds: The number of rounds; None for the same.
        operators: Public keys of the operators; None for the same.
        signers: How many of them must sign; None for as many.
        void: The epochs in between that have not begun.
        forced: Whether it begins without a quorum of the one before it.
    """
    gone = {*leave, *evict}
    new = {rank: member.model_copy(update={"since": begins}) for rank, member in (join or {}).items()}
    void = sorted(void)
    return Epoch(
        genesis=previous.genesis,
        number=max([previous.number, *(one.number for one in void)]) + 1,
        previous=previous.digest,
        members={rank: one for rank, one in previous.members.items() if rank not in gone} | new,
        former=tuple(sorted({*previous.former, *gone})),
        evicted=tuple(sorted({*previous.evicted, *evict})),
        operators=previous.operators if operators is None else tuple(operators),
        signers=previous.signers if signers is None else signers,
        graph=graph,
        rounds=previous.rounds if rounds is None else rounds,
        begins=begins,
        void=tuple(void),
        forced=forced,
    )


def operator_lines(before: Epoch, after: Epoch) -> list[str]:
    """How the operators of an epoch differ from those before it, by the first digits of their keys."""
    lines = [f"operator added: {key[:16]}…" for key in after.operators if key not in before.operators]
    lines += [f"operator removed: {key[:16]}…" for key in before.operators if key not in after.operators]
    if lines or after.signers != before.signers:
        lines.append(f"operators: {len(after.operators)}, of whom {after.signers} must sign the next change")
    return lines


def check_successor(signed: SignedEpoch, previous: Epoch) -> None:
    """Check that an epoch follows another one, and that enough of that one's operators have signed it.

    Args:
        signed: The epoch.
        previous: The epoch that it should follow: the last one that is not void.

    Raises:
        ProtocolError: reason "epoch"; says what is wrong.
    """
    epoch = signed.epoch

    def refuse(words: str) -> NoReturn:
        raise ProtocolError("epoch", f"epoch {epoch.number} {words}")

    if epoch.genesis != previous.genesis:
        refuse(f"is of another federation: genesis {epoch.genesis[:16]}, here {previous.genesis[:16]}")
    if epoch.number <= previous.number:
        refuse(f"is not new: epoch {previous.number} is known")
    between = epoch.number - previous.number - 1
    if between > len(epoch.void) or {one.number for one in epoch.void} != {*range(previous.number + 1, epoch.number)}:
        refuse(f"follows epoch {previous.number}, and the void epochs that it names are not those in between")
    if epoch.previous != previous.digest:
        refuse(f"follows another epoch {previous.number}: {epoch.previous[:16]}, here {previous.digest[:16]}")
    if not previous.begins < epoch.begins < epoch.rounds:
        refuse(f"begins in round {epoch.begins}: expected one after {previous.begins} and before {epoch.rounds}")
    if epoch.begins > previous.rounds:
        refuse(f"begins in round {epoch.begins}, and the federation has ended after {previous.rounds}: begin earlier")
    if epoch.rounds < previous.rounds:
        refuse(f"has {epoch.rounds} rounds, fewer than the {previous.rounds} so far")
    _check_members(epoch, previous, refuse)
    _check_signatures(signed, previous, refuse)


def _check_members(epoch: Epoch, previous: Epoch, refuse: Callable[[str], NoReturn]) -> None:
    gone = previous.members.keys() - epoch.members.keys()
    for rank, member in sorted(epoch.members.items()):
        before = previous.members.get(rank)
        if before is None and rank in previous.former:
            refuse(f"has rank {rank} join, which was a member before: a rank is never used again")
        expected = epoch.begins if before is None else before.since
        if member.since != expected:
            refuse(f"has rank {rank} a member since round {member.since}: expected {expected}")
        if before is not None and (member.keys, member.address) != (before.keys, before.address):
            refuse(f"changes the key or the address of rank {rank}: a member keeps those with which it joined")
    if set(epoch.former) != {*previous.former, *gone}:
        refuse("names other former ranks than those that were members")
    if set(epoch.evicted) - gone != set(previous.evicted):
        refuse("names other evicted ranks than those of the epoch before it, and of those that it takes out")
    if epoch.forced and not gone:
        refuse("is forced and takes no rank out")


def _check_signatures(signed: SignedEpoch, previous: Epoch, refuse: Callable[[str], NoReturn]) -> None:
    for operator, signature in sorted(signed.signatures.items()):
        if operator not in previous.operators:
            refuse(f"is signed by {operator[:16]}, which is no operator of epoch {previous.number}")
        try:
            Ed25519PublicKey.from_public_bytes(bytes.fromhex(operator)).verify(
                bytes.fromhex(signature), _PREFIX + signed.epoch.canonical
            )
        except (InvalidSignature, ValueError):
            refuse(f"has a signature of {operator[:16]} that is wrong")
    if len(signed.signatures) < previous.signers:
        refuse(f"has {len(signed.signatures)} of the {previous.signers} signatures that it needs")


def _skim(text: bytes) -> None:
    """Refuse a document of too many entries or lists, each of which could cost an error report of its own."""
    left = EPOCH_ENTRIES - text.count(b"[")

    def table(pairs: list[tuple[str, Any]]) -> None:
        nonlocal left
        left -= len(pairs)
        if left < 0:
            raise ProtocolError("oversized", f"epoch of more than {EPOCH_ENTRIES} entries or lists")

    try:
        json.loads(text, object_pairs_hook=table)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("malformed", f"epoch is not JSON as expected: {type(error).__name__}") from error


def _canonical(values: Any) -> bytes:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
