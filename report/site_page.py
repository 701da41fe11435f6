"""The page of what left a site: for an ethics board, from the records of a peer that has ended (site.html)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpeer.federation.site_records import SiteRecords, Tensors
from dpeer.report.pages import render
from dpeer.results.json_fields import number, table_or_empty, whole
from dpeer.results.units import size

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

_Rows = list[tuple[str, Any]]


def page(folder: Path, records: SiteRecords, title: str | None = None) -> str:
    """The page as HTML."""
    r, summary, settings = records, records.summary, records.summary.settings
    spent = summary.privacy
    extras = {name: count for name, count in summary.extras.items() if isinstance(count, int)}
    all_values = 4 * (sum(map(math.prod, r.sent.values())) + sum(extras.values()))
    members = {} if r.members is None else r.members.members
    lacking = spent is not None and r.charged is not None and any(
        getattr(r.charged, key) > (whole(spent.get(key)) or 0) for key in ("steps", "releases")
    )  # fmt: skip
    return render(
        "site.html",
        {"listed": _listed, "ranks": _ranks, "count": "{:,}".format, "bytes": _bytes, "named": _named, "rows": _rows},
        title=title or "What left this site",
        r=r,
        summary=summary,
        settings={"dp_head": None, "finish": None, "secret": None, "insecure": None, "serve": None} | dict(settings),
        programs=[one for one in ("task", "model", "algorithm", "compress") if ":" in str(settings.get(one) or "")],
        trackers=[str(one) for one in settings.get("log_to") or () if one != "tensorboard"],
        trained=_trained(r),
        sent=_sent(r),
        keys=[(rank, ", ".join(one.keys)) for rank, one in sorted(members.items()) if one.keys and rank != r.rank],
        partial=bool(r.body_bytes) and settings.get("compress") == "float32" and r.value_bytes < all_values,
        extras=[f"{name} ({count:,} values)" for name, count in extras.items()],
        files=[(name, what) for name, what in _FILES.items() if (folder / name).exists()],
        spent=None if spent is None else dict(spent) | {"epsilon": number(spent.get("epsilon"))},
        unit="group" if settings.get("privacy_unit") == "group" else "record",
        epsilon=_or("no bound known", spent, "epsilon", ".4g"),
        delta=_or("unknown", spent, "delta", "g"),
        uncounted=lacking,
        numbers=[] if spent is None else _numbers(r, spent),
        hashes=_hashes(r),
        policy=r.content.get("policy"),
    )


def _trained(r: SiteRecords) -> _Rows:
    summary = r.summary
    model = table_or_empty(r.card.get("model")).get("model") or summary.settings.get("model")
    both = f"{r.body_parameters:,} that were sent (the body), {r.head_parameters:,} that stayed (the head)"
    return [
        ("task", _named(summary.task)),
        ("model", _named(model) if model else "the task's own"),
        ("algorithm", _named(summary.algorithm)),
        ("trained numbers", both),
        ("rounds", f"{r.completed_rounds:,} of {r.rounds:,}"),
        ("log begins", _time(r.began)),
        ("log ends", _time(r.ended)),
        ("how it ended", summary.status),
    ]


def _sent(r: SiteRecords) -> _Rows:
    one_copy = [("bytes of one copy of the last body", f"{r.body_bytes:,}")] if r.body_bytes else []
    return [
        ("rounds in which a body was sent", f"{r.releases:,}"),
        *one_copy,
        ("bytes in all", _bytes(r.bytes_sent)),
        ("how values travel", _named(r.summary.settings.get("compress"))),
    ]


def _numbers(r: SiteRecords, spent: Mapping[str, Any]) -> _Rows:
    """The guarantee in numbers."""
    rows = [
        ("what is protected", str(spent.get("guarantee") or "the records do not hold it")),
        ("epsilon", _or("no bound known", spent, "epsilon", ".4g")),
        ("delta", _or("unknown", spent, "delta", "g")),
    ]
    if (budget := number(r.summary.settings.get("target_epsilon"))) is not None:
        rows.append(("budget (largest epsilon)", f"{budget:g}"))
    for name, key in (("noised steps", "steps"), ("noised bodies", "releases")):
        if (count := whole(spent.get(key))) is not None:
            rows.append((name, f"{count:,}"))
    stated = table_or_empty(r.content.get("stated"))
    if whole(stated.get("number")) is not None:
        rows.append((f"stated number of {stated.get('of')}s", f"{stated['number']:,}"))
    if (charged := r.charged) is not None:
        what = f"{charged.steps:,} steps" if charged.steps else f"{charged.releases:,} bodies"
        rows.append(("the ledger counts", what))
    return rows


def _hashes(r: SiteRecords) -> _Rows:
    versions = ", ".join(f"{name} {value}" for name, value in table_or_empty(r.card.get("versions")).items())
    of_list = [] if r.members is None else [(f"hash of member list {r.members.version}", r.members.digest.hex())]
    return [("hash of the compared settings", r.federation), *of_list, ("programs", versions)]


def _or(unknown: str, spent: Mapping[str, Any] | None, key: str, how: str) -> str:
    value = None if spent is None else number(spent.get(key))
    return unknown if value is None else f"{value:{how}}"


def _rows(tensors: Tensors) -> list[tuple[str, str, str]]:
    return [(name, " x ".join(map(str, shape)) or "-", f"{math.prod(shape):,}") for name, shape in tensors.items()]


def _named(value: Any) -> str:
    """A setting's value; of a path to a program its last part alone, of hashes of names only their number."""
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        return f"{len(value)} hashes of names"
    return str(value).replace("\\", "/").rpartition("/")[2] if ".py:" in str(value) else str(value)


def _bytes(count: int) -> str:
    return f"{count:,} bytes" + (f" ({size(count)})" if count >= 1000 else "")


def _ranks(ranks: Sequence[object]) -> str:
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {_listed(list(map(str, ranks)))}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
