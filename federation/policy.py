"""Policy: a site's own rules, which no federation file can override; read, and compared with a run's settings."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, ValidationError

from dpeer import training
from dpeer.exceptions import ConfigurationError
from dpeer.peer.core.member_list import MemberList
from dpeer.sections import Mistake, Section
from dpeer.toml_text import read_toml, value_text
from dpeer.topology.user_graphs import is_function
from dpeer.training.setting_texts import is_class

ENVIRONMENT = "DPEER_POLICY"
_LEVELS = ("none", "sample", "client")
_FILES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "task": ("tasks", lambda spec: ":" in spec),
    "model": ("models", lambda spec: ":" in spec),
    "init_from": ("models", lambda path: True),
    "algorithm": ("algorithms", lambda spec: ":" in spec),
    "compress": ("algorithms", is_class),
    "topology": ("algorithms", is_function),
}
"""By the settings that may name a file: the rule that lists it, and whether a value names one."""
Programs = list[Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64}|[\w-]+)$")]] | None
Origin = Callable[[str], str]
Compared = Iterator[tuple[str, str, Any, bool, str]]
"""Rules, each with the setting that it compares, its value, whether it is allowed, and words that explain it."""
Verdicts = Iterator[tuple[bool, str]]
"""Whether a rule allows what a run asks for, and both in words."""


class Policy(Section):
    """The rules; None stands for one that the site does not have."""

    tasks: Programs = None
    models: Programs = None
    algorithms: Programs = None
    leaves: Literal["body"] | None = None
    privacy: Literal["sample", "client"] | None = None
    epsilon: Annotated[float, Field(gt=0)] | None = None
    unit: Literal["record", "group"] | None = None
    rounds: Annotated[int, Field(ge=1)] | None = None
    serve: bool | None = None
    neighbors: list[Annotated[str, Field(pattern="^[0-9a-f]{64}$")]] | None = None
    _path: Path = PrivateAttr(Path())
    _sha256: str = PrivateAttr("")

    @property
    def sha256(self) -> str:
        """The file's, hexadecimal."""
        return self._sha256

    def verdicts(self, values: Mapping[str, Any], origin: Origin = lambda name: "") -> Verdicts:
        """The verdicts on one rank's settings; no data are read, and no program is imported that is not allowed.

        Args:
            values: The settings by name.
            origin: What has set a value, by the setting's name.
        """
        yield from self.programs(values, origin)
        yield from self._said(self._figures(values), origin)

    def programs(self, values: Mapping[str, Any], origin: Origin = lambda name: "") -> Verdicts:
        """Those on what is imported, on first weights, and on what the algorithm sends; of settings that are there."""
        yield from self._said(self._programs(values), origin)

    def of_neighbors(self, keys: Mapping[int, Collection[str]]) -> Verdicts:
        """The verdict on the ranks that get bodies, by their public keys."""
        if self.neighbors is not None:
            strange = [rank for rank, own in keys.items() if not own or not {*own} <= {*self.neighbors}]
            yield self._verdict("neighbors", f"rank {', '.join(map(str, strange or keys))}", allowed=not strange)

    def forbids(self, one: MemberList, neighbors: Collection[int]) -> str | None:
        """Why a member list, by which these ranks get bodies, breaks a rule; None if it breaks none."""
        asked = f"rounds = {one.rounds}"
        found = [] if self.rounds is None else [self._verdict("rounds", asked, allowed=one.rounds <= self.rounds)]
        found += self.of_neighbors({rank: one.members[rank].keys for rank in neighbors})
        return next((f"member list {one.version}: {text}" for allowed, text in found if not allowed), None)

    def _said(self, compared: Compared, origin: Origin) -> Verdicts:
        for rule, name, value, allowed, more in compared:
            by = f" ({origin(name)})" if origin(name) else ""
            yield self._verdict(rule, f"{name} = {_shown(value)}{by}{more}", allowed=allowed)

    def _verdict(self, rule: str, asked: str, *, allowed: bool) -> tuple[bool, str]:
        value = getattr(self, rule)
        stated = f"{rule} = {f'[{len(value)} keys]' if rule == 'neighbors' else _shown(value)}"
        if value is None:  # and a program, which none lists
            stated = f"without {rule} it"
        return allowed, f"{stated} allows {asked}" if allowed else f"policy {self._path}: {stated} forbids {asked}"

    def _programs(self, values: Mapping[str, Any]) -> Compared:
        """A file needs its hash in a list; what dpeer brings needs its name, where a policy has the list."""
        builtin, safe = training.BUILTIN_TASKS.get(values.get("task", "")), True
        asked = {**values, "model": values.get("model") or (builtin.model if builtin else None)}
        for name, (rule, is_file) in _FILES.items():
            listed, value = getattr(self, rule), asked.get(name)
            if value is not None and is_file(value):
                weights = name == "init_from"
                digest = _digest(Path(value if weights else value.rpartition(":")[0]), weights=weights)
                safe &= digest in (listed or ())
                yield rule, name, value, digest in (listed or ()), f": {digest}"
            elif value is not None and listed is not None and name == rule.removesuffix("s"):
                yield rule, name, value, value in listed, ""
        if safe and self.leaves is not None and "algorithm" in values:
            shares = training.find_algorithm(values["algorithm"]).shares
            yield "leaves", "algorithm", values["algorithm"], shares != "model", f", which sends its {shares}"

    def _figures(self, values: Mapping[str, Any]) -> Compared:
        level, unit, budget = values["privacy"], values["privacy_unit"], values["target_epsilon"]
        kept = level != "none" and (budget or math.inf) <= (self.epsilon or 0)
        covered = level == "client" or (level == "sample" and unit in (self.unit, "group"))
        for rule, name, allowed, more in (
            ("leaves", "head", values["head"] is None, ""),  # by default the last layer stays
            ("privacy", "privacy", _LEVELS.index(level) >= _LEVELS.index(self.privacy or "none"), ""),
            ("epsilon", "target_epsilon", kept, "; of one run: another --out spends again" if kept else ""),
            ("epsilon", "delta", (values["delta"] or 0) <= 1e-5, ", at most 1e-05"),  # the largest default
            ("unit", "privacy_unit", covered, f", with privacy = {_shown(level)}"),
            ("rounds", "rounds", values["rounds"] <= (self.rounds or 0), ""),
            ("serve", "serve", self.serve or values["serve"] is None, ""),
            ("serve", "log_to", self.serve or {*(values["log_to"] or ())} <= {"tensorboard"}, ""),
        ):
            if getattr(self, rule) is not None and (values[name] is not None or name in ("target_epsilon", "serve")):
                yield rule, name, values[name], bool(allowed), more


def obey(verdicts: Verdicts) -> None:
    """Refuse what a rule forbids.

    Raises:
        ConfigurationError: Names the rule, the setting, its value, and what that is from.
    """
    if (why := next((text for allowed, text in verdicts if not allowed), None)) is not None:
        raise ConfigurationError(why)


def check_graph(topology: str, secret: Path | None = None) -> None:
    """Refuse a graph's function that this site does not list, before a command that starts nothing imports it.

    Raises:
        ConfigurationError: Names the file and its hash.
    """
    if is_function(topology) and (policy := find(secret)) is not None:
        obey(policy.programs({"topology": topology}))


def find(secret: Path | None) -> Policy | None:
    """The policy of this site, which the environment names, or which lies beside this peer's secret; None without one.

    Raises:
        ConfigurationError: It cannot be read, has no rule, or one that does not exist.
    """
    if named := os.environ.get(ENVIRONMENT):
        path = Path(named)
    elif secret is None or not os.path.lexists(path := secret.expanduser().parent / "policy.toml"):
        return None
    content, rules = read_toml(path, "policy"), Policy.model_fields
    try:
        policy = Policy.model_validate(content)
    except ValidationError as error:
        mistake, place = Mistake(error), f"policy {path}"
        raise mistake.error(f"{place}: {mistake.keys[0]}", rules, place, noun="rule") from error
    if not policy.model_fields_set:
        raise ConfigurationError(f"policy {path} has no rule: give some of {', '.join(rules)}")
    policy._path, policy._sha256 = path, hashlib.sha256(path.read_bytes()).hexdigest()
    return policy


def _digest(file: Path, *, weights: bool) -> str:
    """A file's hash as a policy lists it, or why that says too little: an index, or a module, names other files."""
    if file.suffix != (".safetensors" if weights else ".py"):
        return f"name one file, which has a hash: {'FILE.safetensors' if weights else 'FILE.py:NAME'}"
    try:
        with file.open("rb") as opened:  # weights may be longer than memory
            return f"sha256:{hashlib.file_digest(opened, 'sha256').hexdigest()}"
    except OSError as error:
        return str(error.strerror)


def _shown(value: Any) -> str:
    return "none" if value is None else value_text(value)
