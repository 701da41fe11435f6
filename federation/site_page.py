"""Pages of a new federation, in Markdown: one for each site, and one for the keeper of the federation file."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpeer import __version__
from dpeer.federation.settings import Settings
from dpeer.peer.transport import RELAY


@dataclass(frozen=True)
class Site:
    """A rank of a new federation.

    Attributes:
        rank: Its number.
        site: The name of its site; empty for none.
        address: Where its neighbors reach it; None where it only dials out, or all are on one host.
        dials: The neighbors that it dials, with their addresses.
        dialled_by: The neighbors that dial it.
    """

    rank: int
    site: str
    address: str | None
    dials: Mapping[int, str]
    dialled_by: tuple[int, ...]

    @property
    def named(self) -> str:
        """The rank with the name of its site."""
        return f"rank {self.rank}{f' ({self.site})' if self.site else ''}"


_PAGE = """\
# {title}

One of {size} peers of this federation. Type all commands in a folder of its own on the host that holds the data.

## 1. Install

Linux or macOS with Python 3.11 or newer, on {minimum}. In the folder of dpeer's source:

    python3 -m venv ~/dpeer && ~/dpeer/bin/pip install .
    . ~/dpeer/bin/activate       # once in each shell
    dpeer --version              # {version} wrote this page; all sites should have the same

## 2. Files

{files}

## 3. Firewall

{firewall}

## 4. Data

{data}

## 5. Check

    dpeer check --rank {rank}

looks at settings, key, port, data, device and disk of this host, and prints PASS, WARN or FAIL for each, with what to
do. Then it times a few minibatches, and states what a round will take. Nothing is sent or changed.

    dpeer check --rank {rank} --connect

also dials the neighbors, and waits for those that dial in. Typed at two sites at once, it measures the line between
them, keeps that in the output folder, and names settings that would save time on it: tell the keeper.

## 6. Start

    dpeer start --rank {rank}

{wait} Ctrl-C keeps the last completed round, and the same command with `--resume` goes on from it. So that it outlives
your shell, run it as a service: dpeer's folder `examples/deploy` has a systemd unit, containers and a Slurm script.

## 7. While it runs

    dpeer status {out}
    dpeer status {out}/rank-{rank} --check     # exit code 0 if this peer takes part
    dpeer top {out}
    dpeer top {out} --web     # a page for a browser on this host
    dpeer drain {out}/rank-{rank} --back-within 120     # leave after this round, for an upgrade
"""


def site_page(
    one: Site, settings: Settings, values: Mapping[str, Any], file: str, folder: str, *, made: bool, apart: bool
) -> str:
    """The page of one site.

    Args:
        one: Its rank.
        settings: The federation's.
        values: The settings that the federation file states.
        file: The name of that.
        folder: The folder of secret keys, beside it.
        made: Whether all keys were made by the keeper of the federation file.
        apart: Whether ranks are on several hosts.
    """
    text = _PAGE.format(
        title=f"Rank {one.rank}{f': {one.site}' if one.site else ''}",
        size=settings.size,
        minimum="x86-64 or ARM, with 4 GB of memory or more",
        version=f"dpeer {__version__}",
        files=_files(one, values, file, folder, made=made),
        firewall=_firewall(one, apart=apart),
        data=_data(one, settings, values),
        rank=one.rank,
        out=settings.out,
        wait=f"The peer waits for the others for {values['wait']}." if "wait" in values else "The peer waits 300 "
        "seconds for the others; `--wait 7d` waits longer.",
    )  # fmt: skip
    return _filled(text)


def _filled(text: str) -> str:
    """The text with its paragraphs in lines of one width; headings, tables, lists and commands as they are."""
    blocks = text.split("\n\n")
    return (
        "\n\n".join(
            block if block.startswith(("#", "|", "    ", "- ")) else textwrap.fill(block, 110, break_on_hyphens=False)
            for block in map(str.rstrip, blocks)
        )
        + "\n"
    )


def _files(one: Site, values: Mapping[str, Any], file: str, folder: str, *, made: bool) -> str:
    secret = f"{folder}/rank-{one.rank}.secret"
    rows = [("file", "from", "what to do"), ("---", "---", "---")]
    rows.append((f"`{file}`", "its keeper", "put it into this folder; it is the same at all sites"))
    rows += [(f"`{name}`", "its keeper", "put it beside that, at the same place") for name in _sent_along(values)]
    if made:
        rows.append((f"`{secret}`", "its keeper, encrypted", f"put it there, then `chmod 600 {secret}`"))
        end = (
            "The keeper has made the secret, and so has seen it. For one that only this host has, make your own, and "
            f"send the printed line to the keeper in place of rank {one.rank}'s key:\n\n"
            f"    dpeer keygen --rank {one.rank} --out own\n\n"
            f"Once {file} has that key, add `--secret own/rank-{one.rank}.secret` to `check` and `start` below."
        )
    else:
        rows.append((f"`{secret}`", "this host", "make it now; it never leaves this host:"))
        end = (
            f"    dpeer keygen --rank {one.rank} --out {folder}\n\n"
            "Send the printed line `key = \"...\"` to the keeper, and read its first and last digits out on the "
            f"telephone. The keeper puts it below `[rank.{one.rank}]`, and sends {file} with the keys of all ranks."
        )  # fmt: skip
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + f"\n\n{end}"


def _sent_along(values: Mapping[str, Any]) -> list[str]:
    """The files that the federation file names, and that all sites need."""
    named = [str(values[name]) for name in ("schema", "init_from") if name in values]
    for name in ("task", "algorithm", "compress", "codec", "topology"):
        path = str(values.get(name) or "").removeprefix("file:").partition(":")[0]
        if path.endswith(".py") or str(values.get(name)).startswith("file:"):
            named.append(path)
    return named


def _firewall(one: Site, *, apart: bool) -> str:
    if not apart:
        return "All peers run on one host, over loopback: nothing to open."
    lines = []
    own = one.address
    if own is not None and not own.startswith((RELAY, "ipc://")) and one.dialled_by:
        whom = _ranks(one.dialled_by)
        lines.append(f"- in: TCP to `{own.removeprefix('tcp://')}` on this host, from {whom}")
    if own is not None and own.startswith(RELAY):
        reach = "reaches" if len(one.dialled_by) == 1 else "reach"
        call = f", through which {_ranks(one.dialled_by)} {reach} this peer" if one.dialled_by else ""
        lines.append(f"- out: TCP to the relay `{own.removeprefix(RELAY)}`{call}")
    for rank, address in one.dials.items():
        lines.append(f"- out: TCP to `{address.partition('://')[2]}` (rank {rank})")
    lines.append("\nNothing else: no server, no discovery, no download. `--proxy` dials out through a proxy.")
    return "\n".join(lines)


def _ranks(ranks: Sequence[int]) -> str:
    named = ", ".join(map(str, ranks))
    return f"rank{'s' if len(ranks) != 1 else ''} {named}" if ranks else "no rank"


def _data(one: Site, settings: Settings, values: Mapping[str, Any]) -> str:
    own = settings.of_rank(one.rank)
    path = own.task_options.get("path")
    if own.task == "digits":
        return (
            "The built-in example, handwritten digits, is divided among the ranks: nothing to do. With tables of the "
            "sites' own the keeper sets `task = \"csv\"` and `task_options` (docs/tasks.md in dpeer's folder)."
        )
    if path is not None:
        place = str(path).replace("{rank}", str(one.rank))
        schema = values.get("schema")
        checked = f"\n\n    dpeer schema check {place} --schema {schema}" if schema is not None else ""
        return (
            f"Put this site's table at `{place}`, counted from this folder. No row may be in the tables of two "
            f"sites.{checked}"
        )
    given = f" with options {json.dumps(own.task_options)}" if own.task_options else ""
    return f"The task is `{own.task}`{given}: `dpeer check` loads it as the start will."


def overview(
    sites: Sequence[Site],
    values: Mapping[str, Any],
    file: str,
    folder: str,
    *,
    made: bool,
    operator: bool,
    apart: bool,
) -> str:
    """The page for the keeper: which file goes to whom, and in which order.

    Args:
        sites: The ranks.
        values: The settings that the federation file states.
        file: The name of that.
        folder: The folder of secret keys, beside it.
        made: Whether all keys were made by the keeper.
        operator: Whether an operator's key was made.
        apart: Whether ranks are on several hosts.
    """
    common = [file, *_sent_along(values)]
    lines = [
        f"# The keeper of {file}",
        "",
        "Only the keeper needs this page. Each site gets:",
        "",
        "| rank | site | address | for all | for this site alone |",
        "|---|---|---|---|---|",
    ]
    for one in sites:
        own = [f"`sites/rank-{one.rank}.md`", *([f"`{folder}/rank-{one.rank}.secret`"] if made else [])]
        place = one.address or ("dials out" if apart else "on one host with all")
        site = one.site.replace("|", "/") or "-"
        lines.append(
            f"| {one.rank} | {site} | {place} | {', '.join(f'`{name}`' for name in common)} | {', '.join(own)} |"
        )
    steps = [f"Read {file}, and agree on it with the sites: settings above the tables are equal everywhere."]
    if made:
        steps += [
            "Send each secret to its site alone, encrypted (never by plain mail), and remove it here once it is there: "
            f"`{folder}/rank-R.secret` lets its holder take part as rank R."
        ]
    else:
        steps += [
            "Send each site its page. It makes its key and sends you the line `key = \"...\"`: put it below "
            f"`[rank.R]`, in place of the line `#key`{'' if apart else ', and take the # from `#secret`'}.",
            f"When the keys of *all* ranks are in {file}, send it to all. A peer with an address beyond its host does "
            "not start before.",
        ]  # fmt: skip
    places = {one.address for one in sites if one.address is not None and one.address.startswith(RELAY)}
    if relays := sorted(place.removeprefix(RELAY) for place in places):
        steps.append(
            f"Send {file} to the host of the relay, too, which needs the public keys alone, and runs there "
            f"`dpeer relay --listen tcp://*:{relays[0].rpartition(':')[2]} --keys {file}` ({', '.join(relays)})."
        )
    if operator:
        steps.append(
            f"Keep `{folder}/operator.secret` off the hosts that train, with its owner: it signs changes of members "
            "(`dpeer join`, `leave`, `extend`, `evict`)."
        )
    steps.append("Each site follows its page. Rounds begin when all ranks have been there.")
    return "\n".join([*lines, "", *(f"{number}. {step}" for number, step in enumerate(steps, 1))]) + "\n"
