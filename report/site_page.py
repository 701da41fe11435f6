"""The page of what left a site: for an ethics board, in plain words, from the records of a peer that has ended."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpeer.federation.site_records import SiteRecords, Tensors
from dpeer.report.site_guarantee import guarantee, in_short
from dpeer.report.templates import SITE, render
from dpeer.results.json_fields import table_or_empty
from dpeer.results.units import size as size_of

TITLE = "What left this site"

Table = tuple[Sequence[tuple[str, str]], Sequence[Sequence[object]]]
"""Columns and rows, as `templates.TABLE` has them."""

_TERMS = [("fact", "name"), ("as recorded", "text")]
_TENSORS = [("tensor", "name"), ("shape", "text"), ("values", "")]

_FILES = {
    "test-rows.json": "for each test row whether the model was right, or its loss",
    "partition.json": "which rows the site trains and tests on",
    "preparation.json": "how a table's rows become inputs",
    "metrics.jsonl": "accuracies and losses of each round",
    "summary.json": "accuracies, losses and numbers of rows",
    "model.safetensors": "the model that predicts, with its head",
    "model.json": "the card of this model, with its figures",
    "checkpoint": "the model in training, with its head",
    "alone": "the model that the site trained without the others, to compare",
    "privacy": "the ledger of what was spent, with a hash of the data",
    "log.jsonl": "the log",
    "output.txt": "what the task printed",
    "tensorboard": "figures of each round",
    "wandb": "figures of each round that may still be sent to a tracker",
}
"""By the name of a file or folder, what it holds."""


@dataclass(frozen=True)
class Section:
    """A part of the page: its heading, sentences, tables, names with values, and sentences in small print below."""

    title: str
    sentences: Sequence[str]
    tables: Sequence[Table] = ()
    terms: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()


def page(folder: Path, records: SiteRecords, title: str | None = None) -> str:
    """The page as HTML.

    Args:
        folder: The rank's folder, which is asked which files exist.
        records: What it holds.
        title: The heading.
    """
    return render(
        SITE,
        title=title or TITLE,
        summary=f"Peer (rank) {records.rank} of {records.size}: what its program, dpeer, sent to "
        "the other sites of a federation, and what it kept.",
        cautions=_cautions(records),
        sections=[
            Section("In short", [*_sent_in_short(records), in_short(records)]),
            _trained(records),
            _left(records),
            _stayed(folder, records),
            _under_guarantee(records),
            _hashes(records),
            Section("What this page cannot show", _limits(records)),
        ],
    )


def _under_guarantee(records: SiteRecords) -> Section:
    """The guarantee, its numbers, and the site's policy where the run had one."""
    sentences, numbers = guarantee(records)
    policy = records.content.get("policy")
    tables: list[Table] = [(_TERMS, numbers)] if numbers else []
    if policy:
        tables.append((_TERMS, [("policy: hash", str(policy))]))
    return Section("Under which guarantee", sentences, tables)


def _cautions(records: SiteRecords) -> list[str]:
    summary, settings = records.summary, records.summary.settings
    found = []
    if summary.status != "done":
        found.append(
            f"The peer ended before its last round ({summary.status}), after {records.completed_rounds} of "
            f"{records.rounds} rounds."
        )
    if own := _own_programs(records):
        found.append(
            f"A program that is not dpeer's makes the {_listed(own)}. It decides what is computed from the data, and "
            "can do all that the user who starts it may: read it."
        )
    if settings.get("insecure"):
        found.append("Connections without keys were allowed: all who are on the way could read and change them.")
    trackers = [str(one) for one in settings.get("log_to") or () if one != "tensorboard"]
    if trackers:
        what = "losses and accuracies" if settings.get("privacy") == "none" else "bytes, epsilon and neighbors heard"
        found.append(f"Each round's {what} also went to {_listed(trackers)}, which may be on other hosts.")
    if settings.get("serve"):
        what = ", accuracy and loss of the last round" if settings.get("privacy") == "none" else " and epsilon"
        found.append(f"All who reached its port for metrics while it ran could read rounds, bytes{what}.")
    if records.local_socket:
        found.append("The peer listened where programs of its own host alone reach it, as those of dpeer cluster do.")
    return found


def _sent_in_short(records: SiteRecords) -> list[str]:
    if records.nothing_left:
        return ["Nothing of a model was sent: this peer trained alone."]
    others = "1 other peer" if len(records.receivers) == 1 else f"{len(records.receivers)} other peers"
    rounds = "1 round" if records.releases == 1 else f"{records.releases:,} rounds"
    return [
        f"The peer sent values of a model ({records.body_parameters:,} trained numbers, its body) to {others}: "
        f"{_bytes(records.bytes_sent)} in {rounds}.",
        "dpeer puts no row of the data and no prediction into a message. A body is computed from the data.",
    ]


def _trained(records: SiteRecords) -> Section:
    summary, settings = records.summary, records.summary.settings
    model = table_or_empty(records.card.get("model")).get("model") or settings.get("model")
    rows = [
        ("task", _name(summary.task)),
        ("model", _name(model) if model else "the task's own"),
        ("algorithm", _name(summary.algorithm)),
        ("trained numbers", f"{records.body_parameters:,} that were sent (the body), "
                            f"{records.head_parameters:,} that stayed (the head)"),
        ("rounds", f"{records.completed_rounds:,} of {records.rounds:,}"),
        ("log begins", _time(records.began)),
        ("log ends", _time(records.ended)),
        ("how it ended", summary.status),
    ]  # fmt: skip
    return Section(
        "What was trained", [], [(_TERMS, rows)], notes=["Times are UTC. A peer that is resumed adds to its log."]
    )


def _left(records: SiteRecords) -> Section:
    title = "What left, and to whom"
    if records.nothing_left:
        return Section(title, ["No body was made, and none was sent."])
    compress = records.summary.settings.get("compress")
    rows = [
        ("rounds in which a body was sent", f"{records.releases:,}"),
        *([("bytes of one copy of the last body", f"{records.body_bytes:,}")] if records.body_bytes else []),
        ("bytes in all", _bytes(records.bytes_sent)),
        ("how values travel", _name(compress)),
    ]
    notes = [
        "Bytes are those of bodies, without handshakes and heartbeats. A copy that was sent again, because a "
        "connection broke, counts once."
    ]
    if records.released is not None and records.released >= records.completed_rounds:
        notes.append("One more body was made in a round that was not completed. It may have left, and is not counted.")
    if records.body_bytes and compress == "float32":
        whole = 4 * _values(records.sent) + 4 * sum(_counts(records.summary.extras).values())
        if records.value_bytes < whole:
            notes.append("A body has fewer bytes than these tensors: part of their values was left out of it.")
    sentences = [
        *_to_whom(records),
        "Each of them mixes what it gets into its own model, and so passes part of it on.",
    ]
    tables: list[Table] = [(_TERMS, rows)]
    if keys := _keys(records):
        tables.append(([("rank", ""), ("public key", "name")], keys))
    tables.append((_TENSORS, _tensors(records.sent)))
    extras = [f"{name} ({count:,} values)" for name, count in _counts(records.summary.extras).items()]
    if extras:
        notes.append(f"The algorithm sends beside them: {_listed(extras)}.")
    notes.append(
        "Other messages hold the settings that all peers compare (listed below), names and shapes of these tensors, "
        "hashes of the first body and of first weights, how many rounds peers have completed, and the member list."
    )
    return Section(title, sentences, tables, notes=notes)


def _to_whom(records: SiteRecords) -> list[str]:
    which = "The body of the last round was" if records.members else "Bodies were"
    found = [f"{which} for {_ranks(records.receivers) if records.receivers else 'no peer'}."]
    if records.members:
        found.append(
            f"Member list {records.members.version} was in use at the end. Under earlier lists bodies may have gone to "
            "other members of theirs."
        )
    if lost := records.summary.lost:
        found.append(f"Rounds went on without {_ranks([*lost])} for a time: not every body reached them.")
    if records.summary.settings.get("secret"):
        found.append("Connections were encrypted, and each end proved its key.")
    elif not records.summary.settings.get("insecure"):
        found.append("These records do not hold whether connections were encrypted.")
    if not _keys(records):
        found.append("This folder does not hold the peers' keys. If they have any, the federation file lists them.")
    return found


def _stayed(folder: Path, records: SiteRecords) -> Section:
    sentences = ["dpeer sends none of these files, and no row of the data that it reads."]
    tables: list[Table] = []
    if records.stayed:
        sentences.append("These tensors of the model, the head, stayed, too.")
        tables.append((_TENSORS, _tensors(records.stayed)))
    elif records.head_parameters:
        sentences.append(f"A personal model of {records.head_parameters:,} trained numbers stayed, too.")
    else:
        sentences.append("No part of the model in training stayed: its head was sent with the body.")
    there = [(name, what) for name, what in _FILES.items() if (folder / name).exists()]
    tables.append(([("file", "name"), ("what it holds", "text")], there))
    notes = []
    privacy = records.summary.settings.get("privacy")
    if privacy == "sample":
        notes.append("docs/privacy.md names the files that a site with this guarantee may give away itself.")
    elif privacy == "client":
        notes.append("The guarantee covers none of these files: give none of them away.")
    return Section("What stayed", sentences, tables, notes=notes)


def _hashes(records: SiteRecords) -> Section:
    versions = ", ".join(f"{name} {value}" for name, value in table_or_empty(records.card.get("versions")).items())
    rows = [("hash of the compared settings", records.federation), ("programs", versions)]
    if records.members is not None:
        rows.insert(1, (f"hash of member list {records.members.version}", records.members.digest.hex()))
    note = (
        "The hash is the first half of a SHA-256. Its first 16 digits are those that dpeer check prints, the same at "
        "every site whose settings fit. dpeer itself is named by its version: no hash of its code is kept."
    )
    terms = {name: _value(value) for name, value in records.fingerprint.items()}
    return Section("Settings and programs", [], [(_TERMS, rows)], terms, [note])


def _limits(records: SiteRecords) -> list[str]:
    found = [
        "It repeats what this peer has recorded. Who may change the files of its folder may change what it says.",
        "It knows of dpeer's messages alone: not of files that people copy, nor of other programs.",
        "It counts one run. Other runs on the same data send bodies of their own.",
    ]
    if not records.nothing_left:
        found.append(
            "When a message comes, and how long a peer trains, is seen by neighbors, and tells roughly how much data "
            "it has."
        )
    return found


def _own_programs(records: SiteRecords) -> list[str]:
    """Settings that name a program of the users' own."""
    settings = records.summary.settings
    return [name for name in ("task", "model", "algorithm", "compress") if ":" in str(settings.get(name) or "")]


def _keys(records: SiteRecords) -> list[tuple[int, str]]:
    """Rank and keys of the other members; none where no member list with keys is in use."""
    members = {} if records.members is None else records.members.members
    return [(rank, ", ".join(one.keys)) for rank, one in sorted(members.items()) if one.keys and rank != records.rank]


def _tensors(tensors: Tensors) -> list[tuple[str, str, str]]:
    return [(name, " x ".join(map(str, shape)) or "-", f"{math.prod(shape):,}") for name, shape in tensors.items()]


def _values(tensors: Tensors) -> int:
    return sum(map(math.prod, tensors.values()))


def _counts(extras: Mapping[str, Any]) -> dict[str, int]:
    return {name: count for name, count in extras.items() if isinstance(count, int)}


def _value(value: Any) -> str:
    """A compared setting; of hashes of names only how many, for there may be thousands."""
    if isinstance(value, Mapping):
        return f"{len(value)} hashes of names"
    return _name(value)


def _name(value: Any) -> str:
    """A setting's value; of a path to a program its last part alone."""
    if value is None:
        return "none"
    return str(value).replace("\\", "/").rpartition("/")[2] if ".py:" in str(value) else str(value)


def _bytes(count: int) -> str:
    return f"{count:,} bytes" + (f" ({size_of(count)})" if count >= 1000 else "")


def _ranks(ranks: Sequence[object]) -> str:
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {_listed(list(map(str, ranks)))}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
