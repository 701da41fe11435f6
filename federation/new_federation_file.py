"""Federation file that `dpeer init` writes: TOML with comments, from the words and defaults of the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpeer.federation.settings import Settings
from dpeer.sections import in_words
from dpeer.toml_text import comment, key_text, value_text

_LISTED = {
    "The federation: equal at all sites": ("name", "size", "topology", "weights", "algorithm", "rounds", "seed"),
    "Data and model": ("task", "task_options", "schema"),
    "Privacy: equal at all sites (docs/privacy.md)": ("privacy", "target_epsilon"),
    "Sites that come and go (docs/running.md)": ("wait", "quorum", "deadline"),
    "Operators: equal at all sites (docs/security.md)": ("operators", "signers"),
    "Each host: may stand in [rank.N], too": ("out", "device"),
}
"""By heading, the settings that a new file has, given or not."""

_EXAMPLES: Mapping[str, Any] = {
    "name": "ward-study-1",
    "task_options": {"path": "site-{rank}.csv", "target": "outcome"},
    "schema": "schema.toml",
    "target_epsilon": 8.0,
    "deadline": "auto",
    "operators": ["64 digits"],
}
"""Of settings whose default is none, what they look like."""

_BESIDES = {
    "task_options": 'Options of the task. With task = "csv" each site has a table of its own; {rank} is its number.',
    "wait": "How long a peer waits for the others, before the first round and while it is cut off: seconds, 2h, 7d.",
}
"""Words in place of a setting's own, where a whole federation's file needs others."""

_HEAD = """\
# Federation file: every site has the same one, and starts its own rank in this file's folder, here rank 3:
#
#     dpeer check --rank 3     # whether this host can take part, and what a round will take
#     dpeer start --rank 3
#
# A line such as #rounds = 20 is a default, or an example: without the # it counts. `dpeer start --help` has them all.
"""


@dataclass(frozen=True)
class Site:
    """A rank of a new federation.

    Attributes:
        rank: Its number.
        site: The name of its site; empty for none.
        address: Where its neighbors reach it; None where it only dials out, or all are on one host.
        weight: What it brings, where weights are declared.
    """

    rank: int
    site: str
    address: str | None
    weight: float | None = None


def federation_file(
    values: Mapping[str, Any],
    sites: Sequence[Site],
    public: Mapping[int, str],
    folder: str,
    *,
    apart: bool,
    bind_all: bool = False,
) -> str:
    """The text of the file.

    Args:
        values: The settings that it states, plain.
        sites: The ranks.
        public: The public key of each rank, hexadecimal; empty where the sites make their own.
        folder: The folder of secret keys, beside the file.
        apart: Whether the ranks are on several hosts.
        bind_all: Whether each rank listens at all interfaces of its host.
    """
    values = {"size": len(sites), **values}
    lines = _HEAD.splitlines()
    listed = {name for names in _LISTED.values() for name in names}
    others = tuple(name for name in values if name not in listed)
    for heading, names in {**_LISTED, **({"Further settings": others} if others else {})}.items():
        lines += ["", f"# -- {heading} {'-' * (112 - len(heading))}", ""]
        for name in names:
            lines += _setting(name, values)
    lines += ["", f"# -- The ranks: address, public key, and what is a site's own {'-' * 55}", "", *_about_ranks(apart)]
    for one in sites:
        lines += ["", *_table(one, public.get(one.rank), folder, apart=apart, bind_all=bind_all)]
    return "\n".join(lines) + "\n"


def _setting(name: str, values: Mapping[str, Any]) -> list[str]:
    field = Settings.model_fields[name]
    words = comment(_BESIDES.get(name) or in_words(field))
    if name in values:
        return [*words, f"{name} = {value_text(values[name])}"]
    default = _EXAMPLES.get(name, field.default)
    return [*words, f"#{name} = {value_text(default)}"]


def _about_ranks(apart: bool) -> list[str]:
    if apart:
        return comment(
            "Of two neighbors at least one has an address. A host whose own address differs from it (a router, a "
            'container) sets bind = "tcp://*:PORT" beside it. With keys no other host gets in (docs/security.md).'
        )
    return comment("Without addresses all peers run on one host, and rank R listens at port 7700 + R.")


def _table(one: Site, key: str | None, folder: str, *, apart: bool, bind_all: bool) -> list[str]:
    secret = f"{folder}/rank-{one.rank}.secret"
    lines = [*comment(one.site)] if one.site else []
    lines.append(f"[rank.{key_text(str(one.rank))}]")
    if one.weight is not None:
        lines.append(f"weight = {value_text(one.weight)}")
    if one.address is not None:
        lines.append(f"address = {value_text(one.address)}")
        if bind_all and one.address.startswith("tcp://"):
            lines.append(f"bind = {value_text('tcp://*:' + one.address.rpartition(':')[2])}")
    if key is None:
        lines += [f'#key = "64 digits, as `dpeer keygen --rank {one.rank} --out {folder}` prints them"']
        # Between hosts no peer starts before the keys are there, and then each needs its secret.
        lines += [f"{'' if apart else '#'}secret = {value_text(secret)}"]
    else:
        lines += [f"key = {value_text(key)}", f"secret = {value_text(secret)}"]
    return lines
