"""Error messages of epochs: documents, what a peer is handed, the chain on disk, and changes that cannot be made."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dpeer.exceptions import CheckpointError, ConfigurationError, ProtocolError, TopologyError
from dpeer.federation.addresses import check_member_address
from dpeer.federation.config import resolve
from dpeer.federation.epoch_graph import epoch_graph
from dpeer.federation.epoch_setup import check_followed
from dpeer.federation.next_epoch import Change, Situation, next_epoch
from dpeer.federation.settings import Settings
from dpeer.peer import PeerConfig, epoch_folder
from dpeer.peer.core.epoch import Epoch, EpochSetup, Member, SignedEpoch, Void, first_epoch, operator_of, successor
from dpeer.peer.core.epoch_chain import ChainRecord, EpochChain
from dpeer.peer.core.limits import MOST_MEMBERS
from dpeer.peer.core.protocol import Core
from dpeer.peer.core.round_clock import RoundClock
from dpeer.topology import Graphs, Relabeled, build
from tests.messages.message import Message

SECRET = bytes(range(32))
GRAPH = epoch_graph({"topology": "ring"}, range(4))


def first(rounds: int = 20) -> Epoch:
    return first_epoch(
        "0" * 64, size=4, operators=[operator_of(SECRET)], signers=1, graph=GRAPH, rounds=rounds
    )  # fmt: skip


def after(previous: Epoch, begins: int, **changes: Any) -> Epoch:
    return successor(previous, begins=begins, graph=GRAPH, **changes)


def signed(epoch: Epoch) -> bytes:
    return SignedEpoch(epoch=epoch).signed_with(SECRET).encode()


def ring(epoch: Epoch) -> Graphs:
    return Relabeled(build("ring", len(epoch.members)), epoch.ranks)


def no_ring(epoch: Epoch) -> Graphs:
    raise TopologyError("its edges are drawn otherwise here")


def chain(genesis: Epoch | None = None, graphs: Callable[[Epoch], Graphs] = ring) -> EpochChain:
    return EpochChain(EpochSetup(genesis or first(), graphs), 0, RoundClock(0, 4, 20))


def reached(address: str, encrypted: bool = True) -> Callable[[Path], None]:
    """A cause: an epoch lets in a member with this address."""

    def cause(_: Path) -> None:
        setup = EpochSetup(first(), ring, partial(check_member_address, encrypted=encrypted))
        join = after(first(), 9, join={4: Member(address=address)})
        EpochChain(setup, 0, RoundClock(0, 4, 20)).check(signed(join))

    return cause


ONE = after(first(), 9, leave=[3])
TWO = after(ONE, 12, leave=[2])
INSTEAD = after(first(), 14, leave=[2], void=[Void(1, ONE.digest)])


class Quiet:
    """What a core asks of a learner."""

    digest, payload_bytes = "same", 8

    @property
    def manifest(self) -> dict[str, Any]:
        return {}

    def receive_buffer(self) -> None: ...


def handed(
    document: bytes, rank: int = 0, known: tuple[Epoch, ...] = (), operators: bool = True, void: tuple[Epoch, ...] = ()
) -> Callable[[Path], None]:
    """A cause: a peer in its first round is handed a document; it knows some epochs and has them on disk."""

    def cause(folder: Path) -> None:
        setup = EpochSetup(first(), ring) if operators else None
        core = Core(PeerConfig(rank, 20, None, {}, epochs=setup), Quiet(), build("ring", 4), None)
        if core.epochs is not None:
            core.epochs.take_up(record(*known, void=void))
        core.open([], 0, 0.0)
        refused, _ = core.hand(document, 0.0)
        if refused is not None:
            raise ConfigurationError(refused)

    return cause


def record(*epochs: Epoch, void: tuple[Epoch, ...] = ()) -> ChainRecord:
    line = tuple(one.digest for one in epochs)
    return ChainRecord(
        tuple(signed(one) for one in (*void, *epochs)), line, tuple(one.digest for one in void), len(epochs)
    )


def on_disk(change: Callable[[Path], object]) -> Callable[[Path], None]:
    """A cause: a chain of two epochs is read after a change in its folder."""

    def cause(folder: Path) -> None:
        epoch_folder.write(folder / "epochs", record(ONE, TWO))
        change(folder / "epochs")
        epoch_folder.read(folder / "epochs")

    return cause


def document_of(folder: Path, epoch: Epoch) -> Path:
    return folder / f"{epoch.number:04d}-{epoch.digest[:8]}.json"


def torn(folder: Path) -> None:
    path = document_of(folder, ONE)
    path.write_bytes(path.read_bytes()[:40])


def changed(folder: Path) -> None:
    path = document_of(folder, ONE)
    path.write_text(path.read_text().replace('"begins":9', '"begins":8'))


def without_line(folder: Path) -> None:
    found = json.loads((folder / "chain.json").read_text())
    del found["line"]
    (folder / "chain.json").write_text(json.dumps(found))


def changing(**changes: Any) -> Callable[[Path], object]:
    return lambda _: next_epoch(Situation(ONE, 9, 2), Change(**changes))


MANY_LISTS = b'{"a":[' + b"[]," * 100_000 + b"[]]}"

DAMAGED = (
    "the epochs in '{folder}/epochs' are damaged: %s; restore the folder, or take it from a neighbor's rank folder"
)

MESSAGES = {
    "a document in another order": Message(
        lambda _: SignedEpoch.decode(json.dumps(json.loads(signed(ONE))).encode()), ProtocolError,
        "malformed: epoch is not in canonical form",
    ),
    "a document that is no JSON": Message(
        lambda _: SignedEpoch.decode(b"{"), ProtocolError, "malformed: epoch is not JSON as expected: JSONDecodeError"
    ),
    "a long document": Message(
        lambda _: SignedEpoch.decode(bytes(2**20 + 1)), ProtocolError, "oversized: epoch of more than 1048576 bytes"
    ),
    "a document of many lists": Message(
        lambda _: SignedEpoch.decode(MANY_LISTS), ProtocolError, "oversized: epoch of more than … entries or lists"
    ),
    "an epoch after an unknown one": Message(
        lambda _: chain().check(signed(TWO)), ProtocolError, "epoch: epoch 2 follows one that is not known here"
    ),
    "an epoch of another genesis": Message(
        lambda _: chain(first(21)).check(signed(ONE)), ProtocolError,
        "epoch: epoch 1 follows one that is not known here",
    ),
    "an epoch with another graph": Message(
        lambda _: chain(graphs=no_ring).check(signed(ONE)), ProtocolError,
        "epoch: epoch 1: its edges are drawn otherwise here",
    ),
    "an epoch with another key of a member": Message(
        lambda _: chain().check(signed(ONE.model_copy(update={"members": {
            **ONE.members, 2: Member(keys=("ab" * 32,)),
        }}))), ProtocolError,
        "epoch: epoch 1 changes the key or the address of rank 2: a member keeps those with which it joined",
    ),
    "an epoch with an address that is none": Message(
        reached("x"), ProtocolError,
        "epoch: epoch 1: members.4.address = 'x': expected tcp://HOST:PORT, for example tcp://10.0.0.3:7700, or, where "
        "all its neighbors are on its host, ipc:///PATH",
    ),
    "an epoch with a path of its readers' hosts": Message(
        reached("ipc:///run/other.sock"), ProtocolError,
        "epoch: epoch 1: members.4.address = 'ipc:///run/other.sock': a path means something else on every host: "
        "expected tcp://HOST:PORT or relay://HOST:PORT",
    ),
    "an epoch with a port that no peer has": Message(
        reached("tcp://10.0.0.3:0"), ProtocolError,
        "epoch: epoch 1: members.4.address = 'tcp://10.0.0.3:0': expected a host and port to dial, such as "
        "tcp://10.0.0.3:7700",
    ),
    "an epoch with a relay where no rank has a key": Message(
        reached("relay://relay.example:7790", encrypted=False), ProtocolError,
        "epoch: epoch 1: members.4.address = 'relay://relay.example:7790': a relay needs keys, and this federation "
        "lists none",
    ),
    "a void epoch without its document": Message(
        lambda _: chain().take_up(replace(record(ONE), void=("ab" * 32,))), ProtocolError,
        "epoch: epoch abababababababab is accepted or void, and its document is missing",
    ),
    "handed where nothing changes": Message(
        handed(signed(ONE), operators=False), ConfigurationError,
        "this federation has no operators' keys, so it cannot change",
    ),
    "handed to a leaver": Message(
        handed(signed(ONE), rank=4), ConfigurationError,
        "rank 4 is no member of the federation: hand it to a member",
    ),
    "handed after another one": Message(
        handed(signed(after(first(), 10, leave=[2])), known=(ONE,)), ConfigurationError,
        "epoch 1 is known here, and begins with round 10: a change follows it",
    ),
    "handed after void ones": Message(
        handed(signed(after(ONE, 12, leave=[2], void=[Void(2, "ab" * 32)]))), ConfigurationError,
        "epoch 3 follows one that is not known here",
    ),
    "handed after one that is void": Message(
        handed(signed(TWO), known=(INSTEAD,), void=(ONE,)), ConfigurationError,
        "epoch 2 does not follow the newest one, epoch 2",
    ),
    "handed after void ones that are not known": Message(
        handed(signed(after(first(), 12, leave=[2], void=[Void(1, "ab" * 32)]))), ConfigurationError,
        "epoch 2 says that epoch 1 is void, which is not known here",
    ),
    "handed too late": Message(
        handed(signed(after(first(), 4, leave=[3]))), ConfigurationError,
        "epoch 1 begins with round 5: expected round 6 or a later one, so that all know it before",
    ),
    "handed with a wrong signature": Message(
        handed(signed(ONE).replace(b'"begins":9', b'"begins":8')), ConfigurationError,
        "epoch 1 has a signature of …… that is wrong".replace("……", operator_of(SECRET)[:16]),
    ),
    "a chain that is no JSON": Message(
        on_disk(lambda folder: (folder / "chain.json").write_text('{"docu')), CheckpointError,
        DAMAGED % "JSONDecodeError: …",
    ),
    "a chain of other entries": Message(
        on_disk(without_line), CheckpointError, DAMAGED % "ValueError: not what was written"
    ),
    "a lost document": Message(
        on_disk(lambda folder: document_of(folder, TWO).unlink()), CheckpointError, DAMAGED % "FileNotFoundError: …"
    ),
    "a torn document": Message(on_disk(torn), CheckpointError, DAMAGED % "ProtocolError: malformed: …"),
    "a changed document": Message(
        on_disk(changed), CheckpointError, DAMAGED % f"ValueError: 0001-{ONE.digest[:8]}.json is not what was written"
    ),
    "an edge listed twice": Message(
        lambda _: SignedEpoch.decode(signed(ONE).replace(b'"listed":[]', b'"listed":[[0,1],[0,1]]')), ProtocolError,
        "malformed: epoch epoch.graph: Value error, the edges are not sorted, or one stands twice or joins a rank to "
        "itself",
    ),
    "more members than a federation has": Message(
        changing(join={4 + number: Member() for number in range(MOST_MEMBERS)}), ConfigurationError,
        "1027 members: at most 1024",
    ),
    "a former rank joins": Message(
        changing(join={3: Member()}), ConfigurationError,
        "--rank 3: it was a member once, and a rank is never used again; the next free one is 4",
    ),
    "an edge to no member": Message(
        lambda _: next_epoch(
            Situation(first_epoch(
                "0" * 64, size=3, operators=[operator_of(SECRET)], signers=1,
                graph=epoch_graph({"topology": "file"}, range(3), [(0, 1), (1, 2)]), rounds=20,
            ), 0, 2),
            Change(leave=(2,), edges=((0, 7),)),
        ), ConfigurationError,
        "an edge joins rank 7, which is no member: members are 0, 1",
    ),
    "more rounds under a schedule": Message(
        lambda _: check_followed(resolve(Settings(size=4, rounds=20, lr_schedule="cosine"), 0), first(30)),
        ConfigurationError, "--lr-schedule cosine ends with round 20: the federation cannot be extended to 30",
    ),
}  # fmt: skip
