"""Everything a user can set, in one place: the options of the commands and the keys of dpeer.toml are made from it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from dpeer.cli.fresh import fresh_topology
from dpeer.exceptions import ConfigurationError, UnknownName
from dpeer.topology import WEIGHTS, size_of

DEFAULT_FILE = Path("dpeer.toml")

Seconds = Annotated[float, Field(gt=0)]


def _as_text(value: Any) -> Any:
    """A whole number as text, as it comes from the command line."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class RankSettings(BaseModel):
    """`[rank.N]` in dpeer.toml: what is this peer's own and not compared with the others."""

    model_config = ConfigDict(extra="forbid", strict=True)

    address: str | None = Field(None, description="where its neighbors reach it; without one it only dials out")
    bind: str | None = Field(None, description="where it listens, if that is not `address` (containers, NAT)")
    task: str | None = None
    task_options: dict[str, Any] = Field(default_factory=dict)
    body_epochs: int | None = Field(None, ge=1)
    head_epochs: int | None = Field(None, ge=1)
    batch_size: int | None = Field(None, ge=1)
    threads: int | None = Field(None, ge=1)
    out: Path | None = Field(None, strict=False)


class Settings(BaseModel):
    """A federation and how it trains. Defaults are the generic ones; they suit small models."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)

    size: int = Field(8, ge=2, description="number of peers")
    topology: str = Field("ring", description="who gossips with whom; `dpeer topology --help` helps to choose")
    weights: str = Field("metropolis", description=f"mixing weights: {', '.join(WEIGHTS)}")
    grid_shape: Annotated[str, Field(pattern=r"^\d+x\d+$")] | None = Field(
        None, description="ROWSxCOLUMNS of grid and torus; near-square if not given"
    )
    degree: int = Field(4, ge=1, description="neighbors of each peer in random-regular and small-world")
    rewire: float = Field(0.1, ge=0, le=1, description="probability with which small-world moves an edge")
    edge_probability: float | None = Field(
        None, gt=0, le=1, description="probability of each edge in erdos-renyi (default: 2 ln(size) / size)"
    )
    fresh_neighbors: Annotated[str, BeforeValidator(_as_text), Field(pattern=r"^(directed:)?\d+$")] | None = Field(
        None,
        description="K: a new random graph every round, K neighbors each; directed:K: everyone draws K to hear "
        "(takes the place of --topology)",
    )
    graph_seed: int = Field(0, ge=0, description="seed of random graphs")

    task: str = Field("digits", description="a built-in task, or FILE.py:FACTORY, or MODULE:FACTORY")
    task_options: dict[str, Any] = Field(
        default_factory=dict, description="KEY=VALUE for the task's factory; repeatable"
    )
    partition: str | None = Field(
        None, description="how a built-in task's data are divided: dirichlet:0.3 (default), pathological:2, iid"
    )
    algorithm: str = Field("dfedsmdc", description="one of local, dfedavgm, dfedmdc, dfedsmdc")
    rounds: int = Field(20, ge=1, description="gossip rounds")
    seed: int = Field(0, ge=0, lt=2**63, description="seed of partition, initialisation and batch order")

    body_lr: float = Field(0.05, gt=0, description="learning rate of the body in round 0")
    head_lr: float = Field(0.05, gt=0, description="learning rate of the head in round 0")
    lr_decay: float = Field(0.995, gt=0, le=1, description="both learning rates are multiplied by it every round")
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum of SGD, zero again at the start of each phase")
    weight_decay: float = Field(0.0, ge=0, description="weight decay, off by default")
    rho: float = Field(0.05, ge=0, description="radius of SAM (dfedsmdc)")
    body_epochs: int = Field(5, ge=1, description="local epochs for the body each round")
    head_epochs: int = Field(1, ge=1, description="local epochs for the head each round")
    batch_size: int = Field(32, ge=1, description="samples a minibatch")

    evaluate_every: int = Field(1, ge=1, description="evaluate in every n-th round and the last")
    keep: Literal["last", "best"] = Field("last", description="which model to keep; best needs validation data")
    out: Path = Field(Path("dpeer-run"), strict=False, description="folder for results")
    wait: Seconds = Field(300.0, description="seconds to wait for neighbors before the first round")
    dead_after: Seconds = Field(15.0, description="seconds of silence after which rounds go on without a neighbor")
    threads: int | None = Field(
        None, ge=1, description="torch threads (default: all cores; their share if all peers are on this host)"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="how much is logged")
    base_port: int = Field(
        7700, ge=1, le=65535, description="without a federation file rank R listens at this port + R"
    )
    insecure: bool = Field(False, description="allow unencrypted connections from other hosts")

    rank: dict[Annotated[int, Field(strict=False)], RankSettings] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _settle(self) -> Settings:
        """Set what follows from other settings: the topology from fresh_neighbors, the size from a graph's file."""
        if self.fresh_neighbors is not None:
            asked = self.topology if "topology" in self.model_fields_set else None
            self.topology, _ = fresh_topology(self.fresh_neighbors, asked)
        if self.topology.startswith("file:") and "size" not in self.model_fields_set:
            self.size = size_of(self.topology)
        return self

    def shape(self) -> tuple[int, int] | None:
        """`grid_shape` as (rows, columns)."""
        if self.grid_shape is None:
            return None
        rows, columns = self.grid_shape.split("x")
        return int(rows), int(columns)

    def of_rank(self, rank: int) -> Settings:
        """The settings as this rank uses them: its own entries from `[rank.N]` over the common ones.

        Raises:
            ConfigurationError: there is no such rank.
        """
        if not 0 <= rank < self.size:
            raise ConfigurationError(
                f"rank {rank} does not exist in a federation of size {self.size}: 0..{self.size - 1}"
            )
        own = self.rank.get(rank)
        if own is None:
            return self
        changes = own.model_dump(exclude_none=True, exclude={"address", "bind", "task_options"})
        options = {**self.task_options, **own.task_options}
        return self.model_copy(update={**changes, "task_options": options})


def load(file: Path | None, flags: Mapping[str, Any]) -> Settings:
    """Settings from a federation file and the flags that were given; flags win, also over `[rank.N]`.

    Args:
        file: The file, or None for ./dpeer.toml if it exists.
        flags: By field name; None means not given.

    Raises:
        ConfigurationError: names the key, the value and what would be right.
    """
    path = source(file)
    values = _read(path) if path else {}
    addressed = any("address" in own for own in _tables(values.get("rank")))
    if addressed and "size" not in values and flags.get("size") is None:
        ranks = ", ".join(str(rank) for rank in values["rank"]) if isinstance(values["rank"], dict) else "some"
        raise ConfigurationError(f"size is missing in {path}, which has entries for ranks {ranks}: add size = N")
    given = {key: value for key, value in flags.items() if value is not None and value != {}}
    if "task_options" in given:
        common = values.get("task_options", {})
        given["task_options"] = {**(common if isinstance(common, dict) else {}), **given["task_options"]}
    for own in _tables(values.get("rank")):
        for key in given.keys() & own.keys():
            own[key] = {**own[key], **flags[key]} if key == "task_options" else given[key]
    try:
        settings = Settings.model_validate({**values, **given})
    except ValidationError as error:
        raise _explained(error, given, path) from error
    for rank in settings.rank:
        if not 0 <= rank < settings.size:
            raise ConfigurationError(
                f"rank.{rank} in {path}: ranks of a federation of size {settings.size} are 0..{settings.size - 1}"
            )
    return settings


def source(file: Path | None) -> Path | None:
    """The federation file that is used: the one that was named, or ./dpeer.toml if it exists."""
    return file or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)


def parse_option(text: str) -> tuple[str, Any]:
    """A --task-option KEY=VALUE; the value is TOML where it can be, else the text itself.

    Raises:
        ConfigurationError: there is no `=`.
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigurationError(f"--task-option {text!r}: expected KEY=VALUE, for example data=/path/to/data")
    try:
        parsed = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        return key, value
    return key, parsed["value"] if len(parsed) == 1 else value


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigurationError(f"--federation {str(path)!r}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from error


def _tables(ranks: object) -> list[dict[str, Any]]:
    return [own for own in ranks.values() if isinstance(own, dict)] if isinstance(ranks, dict) else []


def _explained(error: ValidationError, flags: Mapping[str, Any], path: Path | None) -> ConfigurationError:
    first = error.errors()[0]
    # Keys of dicts appear as (rank, 3, "[key]") when the key itself is wrong.
    location = [str(part) for part in first["loc"] if part != "[key]"]
    key = ".".join(location)
    if first["type"] == "extra_forbidden":
        *table, name = location
        model = RankSettings if table else Settings
        where = f"[{'.'.join(table)}] of {path}" if table else str(path)
        return UnknownName("key", name, model.model_fields, where)
    source = f"--{key.replace('_', '-')}" if location[0] in flags else f"{key} in {path}"
    if location[-1] == "grid_shape":
        return ConfigurationError(f"{source} = {first['input']!r}: expected ROWSxCOLUMNS, for example 2x4")
    if location[-1] == "fresh_neighbors":
        return ConfigurationError(f"{source} = {first['input']!r}: expected K or directed:K, for example 4")
    return ConfigurationError(f"{source} = {first['input']!r}: {first['msg'].lower()}")
