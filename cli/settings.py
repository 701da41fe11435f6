"""Everything a user can set, in one place: the options of the commands and the keys of dpeer.toml are made from it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dpeer.cli.fresh import fresh_topology
from dpeer.cli.presets import PRESETS, find_preset
from dpeer.exceptions import ConfigurationError
from dpeer.topology import WEIGHTS, size_of
from dpeer.training.schedules import PATTERN

SamOn = Literal["body", "head", "both"]
Seconds = Annotated[float, Field(gt=0)]
Device = Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:[0-9]{1,3})?)$")]


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
    local_steps: int | None = Field(None, ge=1)
    finetune_epochs: int | None = Field(None, ge=1)
    threads: int | None = Field(None, ge=1)
    device: Device | None = None
    amp: Literal["bf16"] | None = None
    channels_last: bool | None = None
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
        None,
        description="how a built-in task's data are divided: dirichlet:0.3, dirichlet-equal:0.3, pathological:2, iid, "
        "writer, subject, group, own (default: the task's own)",
    )
    test_split: Literal["disjoint", "shared"] = Field(
        "disjoint", description="may peers have test samples in common, as in the papers' code"
    )
    validation: float = Field(
        0.0, ge=0, lt=1, description="share of each peer's training samples to hold out for validation"
    )
    evaluate_on: Literal["test", "validation"] = Field(
        "test", description="what accuracies are measured on; choose hyperparameters on validation"
    )
    model: str | None = Field(
        None,
        description="what a built-in task trains, in place of its own model: cnn, cnn1d, digits, dp-cnn, emnist-cnn, "
        "mlp, resnet18-gn, small-body",
    )
    head: str | None = Field(
        None, description="names of what stays at home, comma-separated (default: the last linear layer)"
    )
    augment: bool = Field(False, description="crop and flip training images at random")
    standardize: bool = Field(False, description="scale inputs by the peer's own training mean and deviation")
    algorithm: str = Field("dfedsmdc", description="how peers train and what they share; `dpeer algorithms` lists them")
    preset: str | None = Field(None, description=f"a paper's values where you give none: {', '.join(PRESETS)}")
    rounds: int = Field(20, ge=1, description="gossip rounds")
    seed: int = Field(0, ge=0, lt=2**63, description="seed of partition, initialisation and batch order")
    seed_partition: int | None = Field(None, ge=0, lt=2**63, description="seed of the partition alone")
    seed_init: int | None = Field(None, ge=0, lt=2**63, description="seed of the first weights alone")
    seed_batches: int | None = Field(None, ge=0, lt=2**63, description="seed of the batch order alone")

    body_lr: float = Field(0.05, gt=0, description="learning rate in round 0 of the body, or of the whole model")
    head_lr: float = Field(
        0.05, gt=0, description="learning rate of the head in round 0 (dfedmdc, dfedsmdc, fedrep, fedrod)"
    )
    lr_decay: float = Field(0.995, gt=0, le=1, description="both learning rates are multiplied by it every round")
    lr_schedule: Annotated[str, Field(pattern=PATTERN)] = Field(
        "exponential",
        description="how learning rates change: exponential (times lr-decay every round), step:N (times lr-decay every "
        "N rounds), or cosine (to zero over the rounds)",
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum of SGD, zero again at the start of each phase")
    weight_decay: float = Field(0.0, ge=0, description="weight decay, off by default")
    grad_clip: float | None = Field(
        None, gt=0, description="longest gradient to step with, off by default (the papers' code: 10)"
    )
    rho: float = Field(0.05, ge=0, description="radius of SAM (dfedsmdc, dfedsam, fedsam)")
    sam: SamOn = Field("body", description="where dfedsmdc takes SAM steps")
    body_epochs: int = Field(5, ge=1, description="local epochs each round for the body, or the whole model")
    head_epochs: int = Field(
        1, ge=1, description="local epochs each round for the head (dfedmdc, dfedsmdc, fedrep: 10)"
    )
    batch_size: int = Field(32, ge=1, description="samples a minibatch")
    local_steps: int | None = Field(
        None,
        ge=1,
        description="minibatches in place of body-epochs, whatever the data's size; other epochs scale alike",
    )
    finetune_epochs: int = Field(5, ge=1, description="epochs on the whole model after the last round (fedbabu)")
    ditto_lambda: float = Field(0.75, ge=0, description="pull of the shared model on the personal one (ditto)")
    sparsity: float = Field(0.5, ge=0, lt=1, description="share of the weights that are zero (dis-pfl)")
    prune_rate: float = Field(
        0.5, ge=0, le=1, description="share of the weights exchanged in the first round (dis-pfl)"
    )
    quantize: Literal[4, 8, 16] | None = Field(
        None, description="bits per value of what travels, 4, 8 or 16; floats if not given"
    )
    wire_dtype: Literal["float32", "bfloat16", "float16"] = Field(
        "float32", description="as which floats values travel; the halves take half the bytes (mixing is in float32)"
    )
    participation: float = Field(
        1.0, gt=0, le=1, description="share of the peers that take part in a round, drawn anew"
    )

    privacy: Literal["none", "client"] = Field(
        "none", description="differential privacy for what leaves a peer: none, or client (its whole data set)"
    )
    target_epsilon: float | None = Field(
        None, gt=0, description="privacy budget: the noise follows from it, or it ends the releases of a given noise"
    )
    noise_multiplier: float | None = Field(None, gt=0, description="standard deviation of the noise over clip-norm")
    clip_norm: float = Field(1.0, gt=0, description="longest update of the body that is released (privacy)")
    delta: float | None = Field(
        None, gt=0, lt=1, description="chance that epsilon does not hold (default: 1e-5, or 1/(10 size) if smaller)"
    )
    dp_adversary: Literal["neighbor", "aggregate"] = Field(
        "neighbor", description="against whom: neighbor sees every message, aggregate sees averages only"
    )
    dp_min_honest: int | None = Field(None, ge=2, description="honest bodies in every average (dp-adversary aggregate)")
    dp_adjacency: Literal["replace", "zero-out"] = Field(
        "replace", description="what is hidden: another data set in its place, or none"
    )
    sparsify: Annotated[str, Field(pattern=r"^(top-k|random):[0-9.]+$")] | None = Field(
        None, description="what of a private update is kept: top-k:0.4 (after the noise), random:0.4 (before)"
    )

    evaluate_every: int = Field(1, ge=1, description="evaluate in every n-th round and the last")
    keep: Literal["last", "best"] = Field("last", description="which model to keep; best needs validation data")
    out: Path = Field(Path("dpeer-run"), strict=False, description="folder for results")
    wait: Seconds = Field(300.0, description="seconds to wait for neighbors before the first round")
    dead_after: Seconds = Field(15.0, description="seconds of silence after which rounds go on without a neighbor")
    threads: int | None = Field(
        None, ge=1, description="torch threads (default: all cores; their share if all peers are on this host)"
    )
    workers: int | None = Field(
        None, ge=1, description="threads that train the peers of a simulation (default: one a core); same bits"
    )
    device: Device = Field(
        "cpu", description="where to train: cpu, cuda:N, cuda (this host's GPUs by rank in turn), or auto: cuda if any"
    )
    amp: Literal["bf16"] | None = Field(
        None, description="compute the model's outputs in bfloat16; parameters and mixing stay float32"
    )
    channels_last: bool = Field(False, description="give images to convolutions with the channels last in memory")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="how much is logged")
    base_port: int = Field(
        7700, ge=1, le=65535, description="without a federation file rank R listens at this port + R"
    )
    insecure: bool = Field(False, description="allow unencrypted connections from other hosts")

    rank: dict[Annotated[int, Field(strict=False)], RankSettings] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _settle(self) -> Settings:
        """Set what follows from other settings: a preset's values, the topology from fresh_neighbors, a file's size."""
        for name, value in find_preset(self.preset).values.items() if self.preset else ():
            if name not in self.model_fields_set:
                setattr(self, name, value)
                self.model_fields_set.discard(name)  # nobody said so
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
